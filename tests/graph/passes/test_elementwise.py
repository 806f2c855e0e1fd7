"""Compositions of element-wise operations become one operation with the supremum of their slope, and nothing else does."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.elementwise import ELEMENTWISE, matcher
from lipaudit.graph.passes.table import recognise, simplify
from lipaudit.graph.pattern import replace_patterns
from lipaudit.rules.ops import (
    activation_slopes,
)
from tests.graph.networks import OfOneInput
from tests.graph.passes.test_activations import Many

Function = Callable[[Tensor], Tensor]
ALPHA = torch.linspace(0.5, 3.0, 6)

FINITE: dict[str, tuple[Function, float]] = {
    "softsign": (functional.softsign, 1.0),
    "x / (1 + |x|)": (lambda x: x / (1 + x.abs()), 1.0),
    "x / sqrt(1 + x^2)": (lambda x: x * torch.rsqrt(1 + x.square()), 1.0),
    "x (x > 0)": (lambda x: x * (x > 0), 1.0),
    "x (x > 0).float()": (lambda x: x * (x > 0).float(), 1.0),
    "where": (lambda x: torch.where(x > 0, x, 0.1 * x), 1.0),
    "where, the other way": (lambda x: torch.where(x <= 0, 3 * x, x), 3.0),
    "masked_fill": (lambda x: x.masked_fill(x < 0, 0.0), 1.0),
    "elu": (lambda x: torch.where(x > 0, x, torch.exp(x) - 1), 1.0),
    "selu": (
        lambda x: (
            activation_slopes.SELU.high
            / 1.6732632423543772
            * torch.where(x > 0, x, 1.6732632423543772 * torch.expm1(x))
        ),
        activation_slopes.SELU.high,
    ),
    "hard sigmoid": (lambda x: torch.where(x < -3, 0.0, torch.where(x > 3, 1.0, (x + 3) / 6)), 1 / 6),
    "between": (lambda x: torch.where((x > -1) & (x < 1), x, torch.sign(x)), 1.0),
    "sigmoid": (lambda x: 1 / (1 + torch.exp(-x)), 0.25),
    "gaussian": (lambda x: torch.exp(-x * x), math.sqrt(2 / math.e)),
    "squared relu of tanh": (lambda x: torch.relu(torch.tanh(x)) ** 2, 4 / (3 * math.sqrt(3))),
    "snake": (lambda x: x + torch.sin(x * ALPHA) ** 2 / ALPHA, 2.0),
    "log1p": (lambda x: torch.sign(x) * torch.log1p(x.abs()), 1.0),
    "log(1 + relu)": (lambda x: torch.log(1 + torch.relu(x)), 1.0),
    "sqrt(x^2 + eps)": (lambda x: torch.sqrt(x * x + 1e-6), 1.0),
    "tanh(exp)": (lambda x: torch.tanh(torch.exp(x)), 0.44774320475604),
    "gelu and more": (lambda x: functional.gelu(x) - x, activation_slopes.GELU_ERF.high),
    "tanhshrink": (lambda x: x - torch.tanh(x), 1.0),
    "x times silu over it": (lambda x: torch.sigmoid(x) * x * torch.sigmoid(x), 0.0),
    "two branches": (lambda x: torch.maximum(x, 0.2 * x) + torch.minimum(x, torch.zeros(6)), 1.2),
}


# another operation before or behind it
NOT_WHOLE = ("x times silu over it", "selu", "sigmoid")


@pytest.fixture(scope="module")
def bounds() -> dict[str, tuple[str, float | None]]:
    return {name: audited(function) for name, (function, _) in FINITE.items()}


def audited(function: Function, **options: object) -> tuple[str, float | None]:
    network = lipaudit.audit(OfOneInput(function), input_shape={"x": (1, 6)}, **options).network  # type: ignore[arg-type]
    return network.status, network.upper_bound


@pytest.mark.parametrize("name", FINITE)
def test_constants(name: str, bounds: dict[str, tuple[str, float | None]]) -> None:
    function, _ = FINITE[name]
    status, upper = bounds[name]
    assert status == "finite"
    assert upper is not None
    x = torch.cat([torch.linspace(-9, 9, 90001), torch.tensor([-30.0, 30.0])]).double()[:, None].repeat(1, 6)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(function(x).sum(), x)
    steepest = float(gradient.abs().max())
    assert steepest * (1 - 1e-9) <= upper <= steepest * (1 + 1e-3)


@pytest.mark.parametrize("name", [name for name, (_, constant) in FINITE.items() if constant])
def test_closed_forms(name: str, bounds: dict[str, tuple[str, float | None]]) -> None:
    assert bounds[name][1] == pytest.approx(FINITE[name][1], rel=1e-6)


@pytest.mark.parametrize("name", [name for name in FINITE if name not in NOT_WHOLE])
def test_every_slope_lies_in_the_range(name: str) -> None:
    """And the range is no wider than the slopes, to two thousandths of the steepest."""
    function, constant = FINITE[name]
    (node,) = (n for n in recognise(capture(OfOneInput(function), {"x": torch.zeros(1, 6)})) if n.op == ELEMENTWISE)
    low, high = node.payload.slope_range()
    x = torch.cat([torch.linspace(-9, 9, 90001), torch.tensor([-700.0, 700.0])]).double()[:, None].repeat(1, 6)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(function(x).sum(), x)
    room = 2e-3 * constant
    assert low * (1 + 1e-9) - 1e-9 <= float(gradient.min()) <= low + room
    assert high - room <= float(gradient.max()) <= high * (1 + 1e-9) + 1e-9


def test_values_stay_what_they_were() -> None:
    functions = {name: function for name, (function, _) in FINITE.items()}
    graph = capture(Many(functions).eval(), {"x": torch.zeros(1, 6)})
    recognised = recognise(graph)
    assert sum(n.op == ELEMENTWISE for n in recognised) >= len(FINITE) - 3
    x = {"x": torch.randn(1, 6, generator=torch.Generator().manual_seed(0))}
    for dtype in (None, torch.float64):
        before, after = (list(interpret(g, x, dtype=dtype).values()) for g in (graph, recognised))
        for name, a, b in zip(functions, before, after, strict=True):
            torch.testing.assert_close(a, b, msg=name)


JUMPING = {
    "x (x > 1/2)": (lambda x: x * (x > 0.5), "jumps by 0.5 where its operand is 0.5"),
    "where": (lambda x: torch.where(x > 1, x, 2 * x), "jumps by 1 where its operand is 1"),
    "step": (lambda x: (x > 0).float(), "jumps"),
    "square": (lambda x: x * x, "grows beyond every bound"),
    "x exp(x)": (lambda x: x * torch.exp(x), "grows beyond every bound"),
}


@pytest.mark.parametrize("name", JUMPING)
def test_reasons(name: str) -> None:
    function, reason = JUMPING[name]
    report = lipaudit.audit(OfOneInput(function), input_shape={"x": (1, 6)})
    assert report.network.status == "unbounded"
    assert any(reason in (layer.reason or "") for layer in report.layers)


NOT_DEFINED: dict[str, Function] = {
    "x + atan(1 / x)": lambda x: x + torch.atan(1 / x),
    "x + atan(1 / (x - 1))": lambda x: x + torch.atan(1 / (x - 1)),
    "x - atan(-1 / x)": lambda x: x - torch.atan(-1 / x),
    "2 x + tanh(1 / x)": lambda x: 2 * x + torch.tanh(x.reciprocal()),
    "fmax": lambda x: torch.fmax(x.sqrt() * x.sqrt() + 1, torch.zeros_like(x)),
    "fmin": lambda x: torch.fmin(x.sqrt() ** 2 - 1, torch.ones_like(x)),
    "where": lambda x: torch.where(x.sqrt() ** 2 > -1, x + 1, torch.zeros_like(x)),
    "where, cancelled": lambda x: torch.where(x.log() - x.log() + 1 > 0, x + 1, torch.zeros_like(x)),
    "nan_to_num": lambda x: torch.nan_to_num(x.sqrt() * x.sqrt() + 1),
    "nan_to_num of a power": lambda x: torch.nan_to_num(x.pow(0.5).pow(4) / (1 + x.pow(0.5).pow(4)), nan=5.0),
    "nan_to_num, cancelled": lambda x: torch.nan_to_num(x + 1 + x.log() - x.log()),
    "gem": lambda x: torch.fmax(x.pow(0.5).pow(2), torch.full_like(x, -1.0)),
}


@pytest.mark.parametrize("name", NOT_DEFINED)
def test_no_bound_across_what_is_not_defined(name: str) -> None:
    assert audited(NOT_DEFINED[name])[0] != "finite"
    assert audited(NOT_DEFINED[name], domain="ball", around=torch.zeros(1, 6), radius=2.0)[0] != "finite"


def test_where_the_operand_stays_away_from_what_is_not_defined() -> None:
    around = {"domain": "ball", "around": torch.full((1, 6), 3.0), "radius": 1.0}
    for name, constant in {"fmax": 1.0, "gem": 1.0, "x + atan(1 / x)": 1 - 1 / 17}.items():
        status, upper = audited(NOT_DEFINED[name], **around)
        if status == "finite":
            assert upper is not None
            assert upper >= constant * (1 - 1e-6), name


STEPS: dict[str, Function] = {
    "softplus": lambda x: torch.where(x < 20, torch.log1p(torch.exp(x)), x),
    "small step": lambda x: torch.sigmoid(torch.where(x > 1e-8, x, 4 * x)),
    "cosine": lambda x: torch.where(x > 0, torch.cos(x) + 1e-9, torch.cos(x)),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_rounding_only_where_the_type_hides_them(name: str) -> None:
    report = lipaudit.audit(OfOneInput(STEPS[name]), input_shape={"x": (1, 6)})
    assert (report.network.status, report.network.rigor) == ("finite", "numerical")
    assert any("is below float32 rounding" in layer.note for layer in report.layers)
    module = nn.Sequential(nn.Linear(6, 6), OfOneInput(STEPS[name])).double()
    wide = lipaudit.audit(module, input_shape={"input": (1, 6)})
    assert wide.network.status == "unbounded"
    assert any("jumps by" in (layer.reason or "") for layer in wide.layers)


def test_on_a_ball() -> None:
    around = {"domain": "ball", "around": torch.zeros(1, 6), "radius": 1.0}
    cases: dict[str, tuple[Function, float]] = {
        "1 / e^x": (lambda x: 1 / torch.exp(x), math.e),
        "x^2 (x > 2)": (lambda x: x * x * (x > 2), 0.0),
        "x e^x": (lambda x: x * torch.exp(x), 2 * math.e),
        "softsign": (lambda x: x / (1 + x.abs()), 1.0),
    }
    for name, (function, constant) in cases.items():
        status, upper = audited(function, **around)
        assert status == "finite", name
        assert upper is not None
        assert constant * (1 - 1e-9) <= upper <= constant * (1 + 1e-6) + 1e-12, name


KEPT: dict[str, Function] = {
    "activation": lambda x: x * torch.sigmoid(x),
    "one operation": torch.tanh,
    "chain": lambda x: torch.relu(torch.tanh(2 * x + 1)),
    "residual": lambda x: x + torch.tanh(x),
    "two tensors": lambda x: x * x.flip(1),
    "broadcast": lambda x: (x[:, :, None] * torch.sigmoid(x[:, None, :])).sum(1),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name: str) -> None:
    graph = simplify(capture(OfOneInput(KEPT[name]), {"x": torch.zeros(1, 6)}))
    assert ELEMENTWISE not in {n.op for n in graph}


def test_constants_that_differ_beyond_counting_are_left_to_the_pieces() -> None:
    many = torch.linspace(0.1, 9, 100)

    class Wide(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x / (many + x.abs())

    graph = capture(Wide(), {"x": torch.zeros(1, 100)})
    assert ELEMENTWISE not in {n.op for n in replace_patterns(graph, matcher)}


def bytes_of(condition: Tensor) -> Tensor:
    return condition.to(torch.uint8)


OTHER_ARITHMETIC: dict[str, Function] = {
    "a cast to whole numbers": lambda x: x * (2 + x.to(torch.int64).to(x.dtype)),
    "a cast to booleans": lambda x: x * (2 + x.bool().to(x.dtype)) - 3 * x,
    "a cast under a root": lambda x: x / (x.square().mean(-1, keepdim=True) + 1).to(torch.int64).to(x.dtype).sqrt(),
    "the sum of booleans": lambda x: x * ((x > 0) + (x > 0)) - 2 * torch.relu(x),
    "the sum of booleans of a pair": lambda x: torch.cat([x * ((x > 0) + (x > 0)) - 2 * torch.relu(x), torch.relu(x)]),
    "bytes that wrap": lambda x: x * (200 * bytes_of(x > 0) + 100 * bytes_of(x > 0)) - 300 * torch.relu(x),
    "not of a number": lambda x: x * torch.logical_not(x - 1) - x * (2 - x),
    "and of numbers": lambda x: torch.where(torch.logical_and(x - 2, x + 2), x, 1.0),
    "or of numbers": lambda x: x * torch.logical_or(x - 2, x + 2) - x * (x - 2) * (x + 2),
}


@pytest.mark.parametrize("name", OTHER_ARITHMETIC)
@pytest.mark.parametrize("radius", [None, 1.0])
def test_other_types_have_another_arithmetic(name: str, radius: float | None) -> None:
    function = OTHER_ARITHMETIC[name]
    centre = torch.linspace(-0.9, 2.3, 6)[None]
    ball = {} if radius is None else {"domain": "ball", "around": centre, "radius": radius}
    network = lipaudit.audit(OfOneInput(function), input_shape=(1, 6), **ball).network
    generator = torch.Generator().manual_seed(0)
    x = (centre + 0.4 * (2 * torch.rand(400, 1, 6, generator=generator) - 1)).double()
    y = x + 1e-6 * torch.randn(400, 1, 6, generator=generator, dtype=torch.float64)
    steepest = max(float((function(a) - function(b)).norm() / (a - b).norm()) for a, b in zip(x, y, strict=True))
    assert network.upper_bound is None or steepest <= network.upper_bound * (1 + 1e-6)
