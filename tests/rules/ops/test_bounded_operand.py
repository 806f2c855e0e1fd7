"""Slopes on an interval, the lower ends of exact constants, and the rigor of what rests on a computed centre."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import flint
import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.node import Argument, Node, Ref, TensorInfo
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.ops.bounded_operand import FUNCTIONS
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import apply_rule
from lipaudit.spectral.bracket import Rigor
from lipaudit.spectral.interval import Interval
from tests.spectral.test_interval import arb, precision  # noqa: F401  the precision of arb

INFO = TensorInfo((1, 2), torch.float64)
DERIVATIVES: dict[str, Callable[[flint.arb], flint.arb]] = {
    "square": lambda x: 2 * x,
    "exp": lambda x: x.exp(),
    "exp2": lambda x: arb(2).log() * (x * arb(2).log()).exp(),
    "expm1": lambda x: x.exp(),
    "log": lambda x: 1 / x,
    "log2": lambda x: 1 / (x * arb(2).log()),
    "log10": lambda x: 1 / (x * arb(10).log()),
    "log1p": lambda x: 1 / (1 + x),
    "sqrt": lambda x: 1 / (2 * x.sqrt()),
    "rsqrt": lambda x: 1 / (2 * x * x.sqrt()),
    "reciprocal": lambda x: 1 / (x * x),
    "sinh": lambda x: x.cosh(),
    "cosh": lambda x: x.sinh(),
    "tan": lambda x: 1 + x.tan() ** 2,
}
INTERVALS = [
    (1e-300, 1.0),
    (1e-17, 1e-16),
    (0.1, 1 / 3),
    (1 / 3, 1.5),
    (0.7, 0.7),
    (1.0, 1.0),
    (0.3, 300.0),
    (-0.5, -0.25),
    (-1.5, 1.0),
]


def on(interval: Interval, name: str, **arguments: Argument) -> Effect:
    node = Node("y", f"aten.{name}", {"self": Ref("x", INFO), **arguments}, (INFO,))
    effect = apply_rule(node, Settings())
    assert effect.given is not None
    return effect.given((Magnitude(Radii(INFO.shape), interval, lambda: None),))


def test_every_function_is_tried() -> None:
    assert set(DERIVATIVES) == set(FUNCTIONS)


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("ends", INTERVALS)
def test_slope_on_an_interval(name: str, ends: tuple[float, float]) -> None:
    effect = on(Interval(*ends), f"{name}.default")
    if effect.status is not Status.FINITE:
        assert ends[0] <= 0 or (name == "tan" and ends[1] > 1.5) or ends == (1e-300, 1.0)
        return
    true = max(abs(DERIVATIVES[name](arb(end))) for end in ends)
    assert not arb(effect.constant.upper) < true
    assert effect.constant.upper < float(true) * (1 + 1e-12)
    assert effect.constant.log_lower == -math.inf  # the ends of the interval need not occur
    assert effect.rigor is Rigor.CERTIFIED


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, 1.5, -1.0, -2.0, 2.7, 1.1])
def test_slope_of_a_power(exponent: float) -> None:
    for low, high in ((0.1, 1 / 3), (0.7, 1e5), (1e-17, 2.0)):
        effect = on(Interval(low, high), "pow.Tensor_Scalar", exponent=exponent)
        true = max(abs(arb(exponent)) * (arb(end).log() * (arb(exponent) - 1)).exp() for end in (low, high))
        assert not arb(effect.constant.upper) < true
        assert effect.constant.upper < float(true) * (1 + 1e-12)
        assert effect.constant.log_lower == -math.inf


class Module(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor], *parts: nn.Module):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, *self.parts)


def cancelling() -> tuple[nn.Module, nn.Module]:
    first, second = (nn.Linear(*size, bias=False, dtype=torch.float64) for size in ((1, 2), (2, 1)))
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[0.1], [0.3]], dtype=torch.float64))
        second.weight.copy_(torch.tensor([[3e17, -1e17]], dtype=torch.float64))
    return first, second


BEHIND = {
    "exp": lambda x, a, b: torch.exp(b(a(x))),
    "pow": lambda x, a, b: b(a(x)) ** 3,
    "square": lambda x, a, b: torch.square(b(a(x))),
    "log": lambda x, a, b: torch.log(b(a(x)) + 1000),
    "reciprocal": lambda x, a, b: torch.reciprocal(b(a(x)) + 1000),
    "sqrt": lambda x, a, b: torch.sqrt(b(a(x)) + 1000),
    "div": lambda x, a, b: torch.full((1, 1), 2.0, dtype=torch.float64) / (b(a(x)) + 1000),
    "mul": lambda x, a, b: x * b(a(x)),
}


@pytest.mark.parametrize("op", BEHIND)
def test_nothing_behind_a_computed_centre_is_certified(op: str) -> None:
    report = lipaudit.audit(
        Module(BEHIND[op], *cancelling()).eval(),
        input_shape={"x": (1, 1)}, domain="ball", around=torch.tensor([[1.7]], dtype=torch.float64), radius=1e-22,
    )  # fmt: skip
    (row,) = [layer for layer in report.layers if layer.op == op]
    assert row.upper_bound is not None
    assert row.rigor == "numerical"
    assert report.network.rigor == "numerical"
    assert row.lower_bound is None


def test_what_holds_for_every_input_stays_certified_on_a_ball() -> None:
    report = lipaudit.audit(
        Module(lambda x: torch.exp(torch.softmax(x, 1))).eval(),
        input_shape={"x": (1, 4)}, domain="ball", around=torch.full((1, 4), 9.0), radius=100.0,
    )  # fmt: skip
    (row,) = [layer for layer in report.layers if layer.op == "exp"]
    assert row.rigor == "certified"
    assert (
        Fraction(math.nextafter(math.e, 0)) < Fraction(row.upper_bound) < Fraction(math.e) * (1 + Fraction(1, 10**12))
    )


LOWER_ENDS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[], flint.arb]]] = {
    "hardsigmoid": (nn.Hardsigmoid(), lambda: arb(Fraction(1, 6))),
    "erf": (torch.erf, lambda: 2 / flint.arb.pi().sqrt()),
    "gelu": (nn.GELU(), lambda: (1 + arb(1).erf()) / 2 + 1 / (arb(1).exp() * flint.arb.pi().sqrt())),
    "selu": (nn.SELU(), lambda: arb(Fraction("1.0507009873554804934193349852946")) * arb(Fraction("1.6732632423543772848170429916717"))),
    "elu": (nn.ELU(1.7), lambda: arb(1.7)),
    "rrelu": (nn.RReLU(1.1, 1.3), lambda: (arb(1.1) + arb(1.3)) / 2),
    "mean": (lambda x: x.mean(1), lambda: 1 / arb(3).sqrt()),
    "sum": (lambda x: x.sum(1), lambda: arb(3).sqrt()),
    "mul": (lambda x: x * 0.3 * 0.7, lambda: arb(0.3) * arb(0.7)),
    "div": (lambda x: x / 0.3, lambda: 1 / arb(0.3)),
    "addcmul": (
        lambda x: torch.addcmul(torch.zeros(3), x, torch.tensor([0.1]), value=0.7), lambda: arb(0.7) * arb(float(torch.tensor(0.1)))
    ),
    "log_softmax": (lambda x: torch.log_softmax(x, 1), lambda: arb(3).sqrt()),
    "batch_norm": (nn.BatchNorm1d(3), lambda: 1 / (1 + arb(1e-5)).sqrt()),
}  # fmt: skip


@pytest.mark.parametrize("op", LOWER_ENDS)
def test_both_ends_of_a_constant_hold(op: str) -> None:
    function, true = LOWER_ENDS[op]
    (row,) = lipaudit.audit(Module(function).eval(), input_shape=(1, 3)).layers
    assert row.lower_bound is not None
    assert not arb(row.lower_bound) > true()
    assert not arb(row.upper_bound) < true()
    assert row.upper_bound / row.lower_bound < 1 + 1e-11


@pytest.mark.parametrize(
    ("dtype", "threshold", "rigor"),
    [
        (torch.float32, 20.0, "certified"),
        (torch.float16, 20.0, "certified"),
        (torch.float64, 20.0, "numerical"),
        (torch.float64, 40.0, "certified"),
        (torch.float32, 10.0, None),
        (torch.float64, 10.0, None),
    ],
)
def test_the_step_of_softplus_counts(dtype: torch.dtype, threshold: float, rigor: str | None) -> None:
    info = TensorInfo((1, 2), dtype)
    node = Node("y", "aten.softplus.default", {"self": Ref("x", info), "beta": 2.0, "threshold": threshold}, (info,))
    effect = apply_rule(node, Settings())
    if rigor is None:
        assert effect.status is Status.UNBOUNDED
        return
    assert effect.rigor == rigor
    assert f"{math.exp(-threshold) / 2:.2g}" in effect.note
    # the step that the note names is at least that of the formula
    step = arb(Fraction(f"{math.exp(-threshold) / 2:.2g}")) * arb(Fraction(21, 20))
    assert (-arb(threshold)).exp().log1p() / 2 < step
