"""Every registered rule against the real torch operation.

The Jacobian of the operation in float64, at random and at adversarial points, must not exceed the rule's constant in
any of its inputs, and pairs of inputs near and far must not be stretched beyond it. Where a rule claims that its
constant is attained, the largest stretch that was found must reach it to a thousandth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.arguments import overload
from lipaudit.rules.effect import Combination, Effect, Settings, Status
from lipaudit.rules.rule import all_rules, apply_rule, find_rule
from tests.nodes import Data, Operation, data, operation, unit_vectors
from tests.rules.ops.cases import Case, all_cases

CASES = all_cases()
SETTINGS = Settings()
Point = tuple[torch.Tensor, ...]


def test_every_rule_has_a_case() -> None:
    missing = sorted(set(all_rules()) - {case.op for case in CASES})
    assert not missing, f"rules without a conformance case: {missing}"


def test_every_rule_names_an_operation() -> None:
    names = [op for op in all_rules() if op.startswith("aten.")]
    assert len(names) > 100
    for op in names:
        assert overload(op).name() in (f"aten::{op.split('.')[1]}", f"aten::{op.split('.')[1]}.{op.split('.')[2]}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_conformance(case: Case) -> None:
    operation = case.build()
    effect = apply_rule(operation.node, SETTINGS)
    assert effect.status is case.status, effect.reason
    if case.status is not Status.FINITE:
        assert effect.reason
        if case.witness is not None:
            assert stretch_between(operation, *(constant_point(operation, v) for v in case.witness)) > 1e3
        return
    found = max(check_jacobians(operation, effect, case), check_pairs(operation, effect, case))
    rule = find_rule(case.op)
    assert rule is not None
    if case.exact if case.exact is not None else rule.exact:
        assert found >= 1 / 1.001, f"claimed to be attained, but only {found:.6f} of the constant was found"


@pytest.mark.parametrize("largest", [True, False])
def test_the_order_of_unsorted_entries_jumps(largest: bool) -> None:
    """Two entries of topk(sorted=False) change places where a tie is broken the other way."""
    built = operation("aten.topk.default", (data(1, 8), 3, 1, largest, False), {})
    generator = torch.Generator().manual_seed(0)
    pairs_at_ties = [broken_ties((torch.randn(1, 8, generator=generator).double(),), generator) for _ in range(300)]
    values = Operation(built.node, built.inputs, lambda x: built.function(x)[:1])
    assert max(stretch_between(values, *pair) for pair in pairs_at_ties) > 1e3


def check_jacobians(operation: Operation, effect: Effect, case: Case) -> float:
    """Largest ratio of a Jacobian's norm to its factor; each input by itself, each output by itself."""
    best = 0.0
    function = operation.function if case.formula is None else case.formula
    for settled, point in points(operation, case):
        for output in range(len(operation.node.outputs)):
            info = operation.node.outputs[output]
            if not (info.dtype.is_floating_point or info.dtype.is_complex) or 0 in info.shape:
                continue
            for i, x in enumerate(point):
                if not x.dtype.is_floating_point:
                    continue
                jacobian = torch.autograd.functional.jacobian(partial(function, point, i, output), x)
                matrix = jacobian.reshape(-1, max(1, x.numel()))
                if not bool(torch.isfinite(matrix).all()):
                    assert not settled, "the Jacobian is not finite at a random point"
                    continue
                norm = float(torch.linalg.svdvals(matrix).max()) if matrix.numel() else 0.0
                upper = effect.factors[i].upper
                assert norm * (1 - 1e-10) <= upper, f"input {i}, output {output}: {norm!r} exceeds {upper!r}"
                best = max(best, ratio(norm, upper))
    return best


def check_pairs(operation: Operation, effect: Effect, case: Case) -> float:
    """Largest ratio of a stretch to what the factors allow, all inputs moving together."""
    best = 0.0
    for x, y in pairs(operation, case):
        moves = [
            f.upper * float(torch.linalg.vector_norm((a - b).double()))
            for f, a, b in zip(effect.factors, x, y, strict=True)
        ]
        if all(torch.equal(a, b) for a, b in zip(x, y, strict=True)):
            continue  # rounded, small points coincide, and would reach any claim
        allowed = math.fsum(moves) if effect.combination is Combination.SUM else math.hypot(*moves)
        for fx, fy in zip(operation.function(*x), operation.function(*y), strict=True):
            if not fx.dtype.is_floating_point or fx.numel() == 0:
                continue
            moved = float(torch.linalg.vector_norm(fx - fy))
            size = float(torch.linalg.vector_norm(fx)) + float(torch.linalg.vector_norm(fy))
            assert moved <= allowed * (1 + 1e-10) + 1e-12 * size, f"moved {moved!r}, allowed {allowed!r}"
            best = max(best, ratio(moved - 1e-12 * size, allowed))
    return best


def ratio(value: float, upper: float) -> float:
    return value / upper if upper > 0 else 1.0  # a constant of zero is attained by everything


def partial(
    function: Callable[..., Any], point: Point, index: int, output: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    def single(x: torch.Tensor) -> torch.Tensor:
        result = function(*point[:index], x, *point[index + 1 :])
        return result[output] if isinstance(result, list | tuple) else result

    return single


def points(operation: Operation, case: Case) -> Iterator[tuple[bool, Point]]:
    """Points for Jacobians; True marks those where the operation must be differentiable."""
    generator = torch.Generator().manual_seed(1)
    for scale in case.scales:
        yield True, tuple(x.random(generator, scale) for x in operation.inputs)
    for value in case.at:
        yield True, constant_point(operation, value)
    if case.at:
        return  # element-wise operations need no more
    yield False, constant_point(operation, 0.0)
    yield False, constant_point(operation, 1.0)
    for axis in range(max((len(x.shape) for x in operation.inputs), default=0)):
        yield False, tuple(peak(x, axis, 1, 50.0, 0.0) for x in operation.inputs)
        yield False, tuple(peak(x, axis, 2, 0.0, -50.0) for x in operation.inputs)


def pairs(operation: Operation, case: Case) -> Iterator[tuple[Point, Point]]:
    """Pairs near and far, tied and tiny and huge, and along single entries."""
    generator = torch.Generator().manual_seed(2)

    def draw(scale: float) -> Point:
        return tuple(x.random(generator, scale) for x in operation.inputs)

    def shift(point: Point, scale: float) -> Point:
        return tuple(
            p + x.random(generator, scale) if x.dtype.is_floating_point else x.random(generator)
            for p, x in zip(point, operation.inputs, strict=True)
        )

    for scale in case.scales:
        x = draw(scale)
        yield x, draw(scale)
        yield x, shift(x, scale * 1e-3)
        yield tuple(p.round() for p in x), tuple(p.round() for p in draw(scale))
    for _ in case.scales:
        yield broken_ties(draw(1.0), generator)
    for scale in (1e-6, 1e6):
        yield draw(scale), draw(scale)
        yield constant_point(operation, 0.0), draw(scale)
    for i, x in enumerate(operation.inputs):
        if x.dtype.is_floating_point:
            zero = constant_point(operation, 0.0)
            for e in unit_vectors(x.shape):
                yield zero, (*zero[:i], e, *zero[i + 1 :])


def broken_ties(point: Point, generator: torch.Generator) -> tuple[Point, Point]:
    """A point at which two entries of each tensor are equal, and the tie broken in both ways: where an order is a jump."""
    ways: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
    for x in point:
        flat = x.flatten()
        if not x.dtype.is_floating_point or len(flat) < 2:
            first = second = flat
        else:
            a, b = torch.randperm(len(flat), generator=generator)[:2].tolist()
            flat[b] = flat[a]
            first, second = flat.clone(), flat.clone()
            first[a] += 1e-7
            second[b] += 1e-7
        ways[0].append(first.reshape(x.shape))
        ways[1].append(second.reshape(x.shape))
    return tuple(ways[0]), tuple(ways[1])


def constant_point(operation: Operation, value: float) -> Point:
    return tuple(torch.full(x.shape, value, dtype=x.dtype) for x in operation.inputs)


def peak(x: Data, axis: int, count: int, high: float, low: float) -> torch.Tensor:
    """``low`` everywhere but in the first ``count`` entries of an axis."""
    point = torch.full(x.shape, low, dtype=x.dtype)
    if axis < len(x.shape):
        point.narrow(axis, 0, min(count, x.shape[axis])).fill_(high)
    return point


def stretch_between(operation: Operation, x: Point, y: Point) -> float:
    outputs = zip(operation.function(*x), operation.function(*y), strict=True)
    moved = max(float(torch.linalg.vector_norm(a.double() - b.double())) for a, b in outputs)
    return moved / math.hypot(*(float(torch.linalg.vector_norm(a - b)) for a, b in zip(x, y, strict=True)))
