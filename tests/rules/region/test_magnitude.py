"""How operations pass radii on: every conformance case against sampled deviations, for every set of axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

import lipaudit
import lipaudit.rules
from lipaudit.graph.capture.export import capture
from lipaudit.graph.contraction import entrywise_product
from lipaudit.graph.linear import CONVOLUTION
from lipaudit.graph.node import Node, TensorInfo
from lipaudit.graph.passes.table import simplify
from lipaudit.rules.contraction import product_radii
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.ops.attention import around_mean
from lipaudit.rules.ops.variance import centred_size
from lipaudit.rules.region.axes import reshaped
from lipaudit.rules.region.magnitude import Magnitude, slice_norm
from lipaudit.rules.region.radii import Radii, broadcast
from lipaudit.rules.rule import all_rules, apply_rule, interval_of, radii_of, region_of
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval
from tests.nodes import Operation
from tests.rules.ops.cases import Case, all_cases

CASES = [
    c
    for c in all_cases()
    if all(x.dtype.is_floating_point for x in c.build().inputs)
    and all(r.info.dtype.is_floating_point for r in c.build().node.refs)
]
RADII = (1e-2, 3.0)
MARGIN = 1 + 1e-6


Function = Callable[[torch.Tensor], torch.Tensor]


def subsets(rank: int) -> list[tuple[int, ...]]:
    return [axes for n in range(rank + 1) for axes in itertools.combinations(range(rank), n)]


def magnitude(centre: torch.Tensor, deviations: list[torch.Tensor], known: tuple[int, ...]) -> Magnitude:
    """What would be known of a tensor if the radius of the slices over ``known`` were, exactly."""
    radius = max(slice_norm(d, known) for d in deviations)
    everything = torch.stack([centre + d for d in deviations])
    interval = Interval(float(everything.min()), float(everything.max())) if everything.numel() else Interval()
    return Magnitude(Radii.of(tuple(centre.shape), {known: radius}), interval, lambda: centre)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_radii_hold(case: Case) -> None:
    operation = case.build()
    generator = torch.Generator().manual_seed(3)
    rule = apply_rule(operation.node, Settings())
    if rule.status is not Status.FINITE and rule.given is None:
        return
    for trial, radius in enumerate(RADII):
        centres = [x.random(generator) + trial for x in operation.inputs]
        # entries of equal size and single entries are where slices of one kind are large and others small
        deviations = [[radius * torch.randn(c.shape, generator=generator).to(c) for _ in range(4)] for c in centres]
        for rows in deviations:
            rows += [radius * row.sign() for row in rows[:2]]
            for row in rows[2:4]:
                row.mul_(torch.rand(row.shape, generator=generator) > 0.7)
        image = operation.function(*centres)
        moved = [
            operation.function(*(c + rows[i] for c, rows in zip(centres, deviations, strict=True)))
            for i in range(len(deviations[0]))
        ]
        sizes = [
            largest([outputs[i] - middle for outputs in moved])
            if middle.is_floating_point() and middle.numel()
            else None
            for i, middle in enumerate(image)
        ]
        ranks = max((c.dim() for c in centres), default=0)
        for known in subsets(min(ranks, 4)):
            operands = tuple(
                magnitude(c, rows, tuple(a for a in known if a < c.dim()))
                for c, rows in zip(centres, deviations, strict=True)
            )
            effect = rule if rule.given is None else rule.given(operands)
            if effect.status is not Status.FINITE:
                return
            check(operation, effect, operands, moved, sizes)


@dataclass(frozen=True)
class Sizes:
    """The largest norms, over some tensors, of their slices over every set of axes; those of the tensors divided by ``scale``."""

    scale: float
    norms: dict[tuple[int, ...], float]


def greatest(values: list[float]) -> float:
    """The largest value; NaN where one is, which keeps within no bound."""
    return math.nan if any(map(math.isnan, values)) else max(values)


def largest(deviations: list[torch.Tensor]) -> Sizes:
    entry = max(float(d.abs().max()) if d.numel() else 0.0 for d in deviations)
    scale = entry if entry > 1e100 else 1.0  # its square does not fit a float
    axes = subsets(min(deviations[0].dim(), 5))
    return Sizes(scale, {over: greatest([slice_norm(d / scale, over) for d in deviations]) for over in axes})


def check(
    operation: Operation,
    effect: Effect,
    operands: tuple[Magnitude, ...],
    moved: list[tuple[torch.Tensor, ...]],
    sizes: list[Sizes | None],
) -> None:
    """The outputs ``moved`` by deviations of the operands, which are at most ``sizes`` away from their image, keep within the claims."""
    bounds = radii_of(operation.node, effect, operands)
    ceiling = region_of(operation.node, operands)
    intervals = tuple(m.interval.within(m.around_centre or Interval()) for m in operands)
    several = len(operation.node.outputs) > 1
    for position, output in enumerate(zip(*moved, strict=True)):
        size = sizes[position]
        if size is None:
            continue
        within(bounds[position], size)
        if ceiling is not None and ceiling.centre is not None:
            within(ceiling.radii[position], largest([one - ceiling.centre for one in output]))
        rounding = 1e-9 if output[0].dtype is torch.float64 else 1e-2
        values = torch.stack(output)
        interval = interval_of(operation.node, intervals, position if several else None)
        assert interval.low - rounding <= float(values.min())
        assert float(values.max()) <= interval.high + rounding


def holds(radii: Radii, deviation: torch.Tensor) -> None:
    within(radii, largest([deviation]))


def within(radii: Radii, sizes: Sizes) -> None:
    if sizes.scale != 1:
        radii = radii.scaled(Bracket.exact(1 / sizes.scale))
    for axes, norm in sizes.norms.items():
        bound = radii.over(axes)
        if bound.log_upper < math.inf:
            assert norm <= bound.upper * MARGIN + 1e-9, (axes, radii)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 4, 6), (1, 4, 3, 2)), ((1, 4, 3, 2), (1, 4, 6)), ((2, 3, 4), (24,)), ((24,), (2, 3, 4)),
        ((1, 4, 6, 2), (2, 2, 3, 2, 2)), ((6, 4), (4, 6)), ((1, 8), (2, 1, 4)), ((1, 1), ()), ((), (1,)), ((4, 1), (4,)),
        ((4,), (1, 4, 1)), ((2, 6), (2, 2, 3, 1)), ((3, 2, 2), (2, 6)), ((2, 3, 2, 2), (2, 2, 2, 3)),
    ],
)  # fmt: skip
def test_reshaped_radii_hold(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    for known in subsets(len(before)):
        for trial in range(5):
            v = torch.randn(before, generator=generator, dtype=torch.float64)
            if trial > 1:
                v = v * (torch.rand(before, generator=generator) > 0.6)
            source = Radii.of(before, {known: slice_norm(v, known)})
            holds(reshaped(source, after), v.reshape(after))


def test_rows_survive_the_split_into_heads_and_back() -> None:
    rows = Radii.of((1, 10, 12), {(2,): 2.0})
    split = reshaped(rows, (1, 10, 3, 4))
    assert split.over((3,)).upper == pytest.approx(2)
    assert split.over((2, 3)).upper == pytest.approx(2)
    assert split.total.upper == pytest.approx(2 * math.sqrt(10))
    assert reshaped(Radii.of((1, 10, 3, 4), {(3,): 2.0}), (1, 10, 12)).over((2,)).upper == pytest.approx(
        2 * math.sqrt(3)
    )


def test_broadcast_radii_hold() -> None:
    generator = torch.Generator().manual_seed(2)
    for shape in ((4, 1), (1,), (3, 4, 1), (5,), ()):
        v = torch.randn(shape, generator=generator, dtype=torch.float64)
        for known in subsets(len(shape)):
            source = Radii.of(shape, {known: slice_norm(v, known)})
            holds(broadcast(source, (3, 4, 5)), v.expand(3, 4, 5))


CONDITIONAL = [
    case
    for case in CASES
    if all_rules()[case.op].where_bounded and apply_rule(case.build().node, Settings()).given is not None
]


def test_some_rules_depend_on_magnitudes() -> None:
    assert len(CONDITIONAL) > 50


@pytest.mark.parametrize("case", CONDITIONAL, ids=lambda case: case.label)
def test_constants_on_a_domain_hold(case: Case) -> None:
    """Jacobians and chords within the radii, at random points and at points where single slices are large."""
    operation = case.build()
    given = apply_rule(operation.node, Settings()).given
    assert given is not None
    generator = torch.Generator().manual_seed(5)
    found = 0
    for radius, shift in ((0.1, 1.0), (1.0, 0.0), (3.0, 0.5), (0.4, 3.0)):
        centres = [shift + 0.3 * x.random(generator) for x in operation.inputs]
        deviations = [[radius * torch.randn(c.shape, generator=generator).to(c) for _ in range(4)] for c in centres]
        for rows in deviations:
            rows[2].mul_(torch.rand(rows[2].shape, generator=generator) > 0.5)
            rows[3] = radius * rows[3].sign()
        points = [[c + rows[i] for c, rows in zip(centres, deviations, strict=True)] for i in range(4)]
        measured = cache(lambda points=points: (jacobian_norms(operation, points), chord_lengths(operation, points)))
        for known in subsets(min(3, max(c.dim() for c in centres))):
            operands = tuple(
                magnitude(c, rows, tuple(a for a in known if a < c.dim()))
                for c, rows in zip(centres, deviations, strict=True)
            )
            effect = given(operands)
            if effect.status is not Status.FINITE:
                continue
            found += 1
            norms, chords = measured()
            for norm, factor in zip(norms, effect.factors, strict=True):
                assert norm <= factor.upper * MARGIN, (norm, factor)
            for length, distances in chords:
                bound = sum(f.upper * d for f, d in zip(effect.factors, distances, strict=True))
                assert length <= bound * MARGIN + 1e-12
    if "div" not in case.op and "log" not in case.op and "tan" not in case.op:
        assert found or not any(x.shape for x in operation.inputs)


def jacobian_norms(operation: Operation, points: list[list[torch.Tensor]]) -> list[float]:
    """The largest norm of the Jacobian in each operand at the points."""
    norms = [0.0] * len(points[0])
    for point in points:
        jacobians = torch.autograd.functional.jacobian(
            lambda *x: tuple(y for y in operation.function(*x) if y.is_floating_point()), tuple(point)
        )
        for outputs in jacobians:
            for i, (part, x) in enumerate(zip(outputs, point, strict=True)):
                norm = float(torch.linalg.matrix_norm(part.reshape(-1, max(1, x.numel())), 2))
                assert not math.isnan(norm)
                norms[i] = max(norms[i], norm)
    return norms


def chord_lengths(operation: Operation, points: list[list[torch.Tensor]]) -> list[tuple[float, list[float]]]:
    """How far apart two outputs are, and how far each operand, for every pair of points."""
    images = [operation.function(*point) for point in points]
    return [
        (float((y - z).norm()), [float((a - b).norm()) for a, b in zip(points[i], points[j], strict=True)])
        for i, j in itertools.combinations(range(len(points)), 2)
        for y, z in zip(images[i], images[j], strict=True)
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 1}, {"kernel_size": 1}, {"kernel_size": 3, "groups": 4, "padding": 1},
        {"kernel_size": (3, 2), "stride": 2, "groups": 2, "dilation": 2, "padding": (1, 2)}, {"kernel_size": 2, "stride": 2},
        {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"}, {"kernel_size": 1, "stride": 2},
        {"kernel_size": 3, "padding": 2, "padding_mode": "circular", "groups": 4},
    ],
)  # fmt: skip
@pytest.mark.parametrize("transposed", [False, True])
def test_radii_through_convolutions_hold(options: dict[str, Any], transposed: bool) -> None:
    if transposed and "padding_mode" in options:
        pytest.skip("torch pads transposed convolutions by zeros only")
    torch.manual_seed(1)
    layer = (nn.ConvTranspose2d if transposed else nn.Conv2d)(4, 4, **options).double().eval()
    graph = simplify(capture(layer, {"x": torch.zeros(1, 4, 6, 7, dtype=torch.float64)}))
    (node,) = [n for n in graph if n.op == CONVOLUTION]
    effect = apply_rule(node, Settings())
    generator = torch.Generator().manual_seed(4)
    shape = node.refs[0].info.shape
    for trial in range(6):
        v = torch.randn(shape, generator=generator, dtype=torch.float64)
        v = v.sign() if trial == 1 else v * (torch.rand(shape, generator=generator) > 0.8) if trial > 3 else v
        if trial in (2, 3):  # a single position, a single channel
            mask = torch.zeros(shape)
            mask[(slice(None), slice(None), 3, 3) if trial == 2 else (slice(None), 1)] = 1
            v = v * mask
        for known in subsets(4):
            operand = Magnitude(Radii.of(shape, {known: slice_norm(v, known)}), Interval(), lambda: None)
            with torch.no_grad():
                moved = layer(v) - layer(torch.zeros_like(v))
            holds(radii_of(node, effect, (operand,))[0], moved)


def test_of_two_radii_that_bound_each_other_one_stays() -> None:
    radii = Radii.of((1, 3, 4), {(1, 2): 2.0, (0, 1, 2): 2.0, (): 5.0})
    assert radii.sharpest().total.upper == pytest.approx(2)
    assert len(radii.sharpest().logs) == 1


NOT_FINITE = {
    "NaN": torch.tensor([[0.5, math.nan], [1.0, 2.0]], dtype=torch.float64),
    "infinity": torch.tensor([[0.5, math.inf], [1.0, 2.0]], dtype=torch.float64),
    "minus infinity": torch.tensor([[-math.inf, 0.0], [1.0, 2.0]], dtype=torch.float64),
}


@pytest.mark.parametrize("name", NOT_FINITE)
def test_a_centre_that_is_not_finite_says_nothing(name: str) -> None:
    centre = NOT_FINITE[name]
    unknown = Magnitude(Radii.of((2, 2), {(): 1.0}), Interval(), lambda: centre)
    assert unknown.around_centre is None
    for axes in ((), (1,), (0, 1)):
        assert unknown.centre_size(axes).upper == math.inf
        assert unknown.size(axes).upper == math.inf
        assert centred_size(unknown, axes).upper == math.inf
    held = Magnitude(Radii.of((2, 2), {(): 1.0}), Interval(-3.0, 3.0), lambda: centre)
    assert held.largest.upper == pytest.approx(3.0)
    assert centred_size(held, (0, 1)).upper == pytest.approx(6.0)
    assert held.least(lambda interval: Bracket.exact(interval.high)).upper == pytest.approx(3.0)
    assert around_mean(held)[0].upper == pytest.approx(3 * math.sqrt(2))
    assert around_mean(held)[1] is None
    other = Magnitude(Radii.of((2, 2), {(): 1.0}), Interval(-1.0, 1.0), lambda: torch.zeros(2, 2, dtype=torch.float64))
    product = entrywise_product((2, 2), (2, 2), (2, 2))
    node = Node("p", "aten.mul.Tensor", {}, (TensorInfo((2, 2), torch.float32),))
    assert product_radii(product, node, unknown, other).total.upper == math.inf


CANCELLED: dict[str, Function] = {
    "atan": lambda x: torch.atan(x * x / (x + x)) * torch.sigmoid(x),
    "sigmoid": lambda x: torch.sigmoid(x * x / (x + x)) * x.clamp(-1, 1),
    "two gates": lambda x: torch.tanh(x * x / (x + x)) * torch.sigmoid((x / (x.abs() + 0.7)).abs()).flip(1),
    "roots": lambda x: torch.tanh(x.sqrt() * x.sqrt()) * torch.sigmoid(x).flip(1),
    "softmax": lambda x: torch.softmax(x * x / (x + x), 1) * torch.tanh(x),
}


@pytest.mark.parametrize("name", CANCELLED)
def test_products_around_what_is_not_defined_have_no_bound(name: str) -> None:
    class Gate(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return CANCELLED[name](x)

    domains: list[dict[str, Any]] = [{}, {"domain": "ball", "around": torch.zeros(1, 2), "radius": 0.5}]
    for options in domains:
        assert lipaudit.audit(Gate(), {"x": (1, 2)}, **options).network.status == "unbounded"
