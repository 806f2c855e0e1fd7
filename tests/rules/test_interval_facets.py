"""Every rule of intervals against arb with 60 digits, at the ends of the interval: tiny, huge, subnormal, next to an extreme."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction

import flint
import pytest
import torch

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.node import Argument, Constant, Node, Ref, TensorInfo
from lipaudit.graph.ops import ALIASES
from lipaudit.rules.rule import all_rules, interval_of
from lipaudit.spectral.interval import Interval
from tests.spectral.test_interval import arb, holds, precision  # noqa: F401  the precision of arb

INFO = TensorInfo((1, 3), torch.float64)
ENDS = [0.0, 5e-324, 1e-310, 1e-17, 0.1, 1 / 3, 1.0, 2 / 3, math.pi / 2, 2.5, 20.0, 700.0, 1e18]
ENDS = sorted({*ENDS, *(-x for x in ENDS)})

TRUE: dict[str, Callable[[flint.arb], flint.arb]] = {
    "relu": lambda x: max(x, arb(0)),
    "relu6": lambda x: min(max(x, arb(0)), arb(6)),
    "abs": abs,
    "neg": lambda x: -x,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "sqrt": lambda x: x.sqrt(),
    "rsqrt": lambda x: 1 / x.sqrt(),
    "exp": lambda x: x.exp(),
    "expm1": lambda x: x.expm1(),
    "log": lambda x: x.log(),
    "log1p": lambda x: x.log1p(),
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "log_sigmoid": lambda x: -(-x).exp().log1p() if x > -100 else x - x.exp().log1p(),
    "tanh": lambda x: x.tanh(),
    "sinh": lambda x: x.sinh(),
    "cosh": lambda x: x.cosh(),
    "asinh": lambda x: x.asinh(),
    "atan": lambda x: x.atan(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "erf": lambda x: x.erf(),
    "erfc": lambda x: x.erfc(),
    "hardsigmoid": lambda x: min(max(x / 6 + arb(0.5), arb(0)), arb(1)),
    "softplus": lambda x: x.exp().log1p() if x < 100 else x + (-x).exp(),
    "positive": lambda x: x,
    "nan_to_num": lambda x: x,
    "exp2": lambda x: (x * arb(2).log()).exp(),
    "log2": lambda x: x.log() / arb(2).log(),
    "log10": lambda x: x.log() / arb(10).log(),
    "tan": lambda x: x.tan(),
    "hardswish": lambda x: x * min(max(x + 3, arb(0)), arb(6)) / 6,
    "silu": lambda x: x / (1 + (-x).exp()),
    "gelu": lambda x: x * (-x / arb(2).sqrt()).erfc() / 2,
    "mish": lambda x: x * x.exp().log1p().tanh() if x < 100 else x,
    "selu": lambda x: SELU_SCALE * (x if x > 0 else SELU_ALPHA * x.expm1()),
    "elu": lambda x: arb(3) * (x if x > 0 else 2 * (x / 2).expm1()),
    "celu": lambda x: x if x > 0 else 2 * (x / 2).expm1(),
    "leaky_relu": lambda x: x if x > 0 else -x / 4,
    "rrelu": lambda x: x if x > 0 else x / 4,
    "clamp": lambda x: min(max(x, arb(-0.5)), arb(2)),
    "softshrink": lambda x: x - min(max(x, arb(-0.5)), arb(0.5)),
    "hardshrink": lambda x: x if abs(x) > 0.5 else arb(0),
    "threshold": lambda x: x if x > 0.5 else arb(-3),
}
SELU_SCALE, SELU_ALPHA = flint.arb("1.0507009873554804934193349852946"), flint.arb("1.6732632423543772848170429916717")
ARGUMENTS: dict[str, dict[str, Argument]] = {
    "softplus": {"beta": 1.0, "threshold": 20.0},
    "gelu": {"approximate": "none"},
    "elu": {"alpha": 2.0, "scale": 3.0, "input_scale": 0.5},
    "celu": {"alpha": 2.0},
    "leaky_relu": {"negative_slope": -0.25},
    "rrelu": {"lower": 0.125, "upper": 0.375, "training": False},
    "clamp": {"min": -0.5, "max": 2},
    "softshrink": {"lambd": 0.5},
    "hardshrink": {"lambd": 0.5},
    "threshold": {"threshold": 0.5, "value": -3.0},
}
POSITIVE = {"sqrt", "rsqrt", "log", "log2", "log10"}
STEEP = {"exp", "expm1", "exp2", "sinh", "cosh", "softplus"}
# Functions of each entry that are no function of one number by itself, or that have tests of their own.
OTHERS = {"prelu", "pow"}
# Least values lie inside the intervals: x s(x) is least where s(x) + x s'(x) = 0.
LEAST = {"silu": -1.2784645427610738, "gelu": -0.7517915246935644, "mish": -1.1924312188, "hardswish": -1.5}


def node(op: str, **arguments: Argument) -> Node:
    return Node("y", f"aten.{op}", arguments, (INFO,))


def x(name: str = "x") -> Ref:
    return Ref(name, INFO)


def test_every_entrywise_function_is_tried() -> None:
    entrywise = {
        op.split(".")[1]
        for op, rule in all_rules().items()
        if rule.family in ("activation", "piecewise_linear", "bounded_operand")
        and op.startswith("aten.")
        and op not in ALIASES
    }
    assert entrywise - OTHERS | {"relu6"} == set(TRUE)


@pytest.mark.parametrize("name", TRUE)
def test_entrywise_functions(name: str) -> None:
    operation = node(f"{name}.default", self=x(), **ARGUMENTS.get(name, {}))
    for low in ENDS:
        for high in (low, *(end for end in ENDS if end > low)):
            image = interval_of(operation, (Interval(low, high),))
            for end in (low, high, *(least for least in [LEAST.get(name, low)] if low <= least <= high)):
                if (
                    (name in POSITIVE and end <= 0)
                    or (name == "reciprocal" and end == 0)
                    or (name == "log1p" and end <= -1)
                    or (name == "tan" and abs(end) > 1e6)
                ):
                    continue
                if abs(end) < 1e6 or name not in STEEP:
                    assert holds(image, TRUE[name](arb(end))), (name, low, high, end)


@pytest.mark.parametrize("name", LEAST)
def test_least_values_are_close_to_what_is_claimed(name: str) -> None:
    low = interval_of(node(f"{name}.default", self=x(), **ARGUMENTS.get(name, {})), (Interval(),)).low
    true = float(TRUE[name](arb(LEAST[name])).mid())
    assert low <= true < low + 1e-4


def test_least_value_of_the_tanh_form_of_gelu() -> None:
    """min of x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), attained near -0.7525."""
    claimed = interval_of(node("gelu.default", self=x(), approximate="tanh"), (Interval(),)).low
    points = torch.linspace(-0.76, -0.74, 20001, dtype=torch.float64)
    assert claimed < float(torch.nn.functional.gelu(points, approximate="tanh").min()) < claimed + 1e-6


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, 1.5, -1.0, -2.0, -0.5, 2.7, 0.0, 1.0])
def test_powers(exponent: float) -> None:
    for end in ENDS:
        if (end <= 0 and exponent != int(exponent)) or (end == 0 and exponent < 0):
            continue
        base = arb(abs(end))
        true = (base.log() * arb(exponent)).exp() if end else arb(float(exponent == 0))
        sign = -1 if end < 0 and exponent % 2 == 1 else 1
        operation = node("pow.Tensor_Scalar", self=x(), exponent=exponent)
        assert holds(interval_of(operation, (Interval.point(end),)), sign * true)
        assert holds(interval_of(operation, (Interval(min(end, 1.0), max(end, 1.0)),)), sign * true)


def pairs() -> list[tuple[float, float]]:
    largest = sys.float_info.max
    return [(a, b) for a in (*ENDS, largest, -largest) for b in (*ENDS, 1e-200, largest)]


BINARY: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add.Tensor": lambda a, b: a + 3 * b,
    "sub.Tensor": lambda a, b: a - 3 * b,
    "rsub.Tensor": lambda a, b: b - 3 * a,
    "mul.Tensor": lambda a, b: a * b,
    "div.Tensor": lambda a, b: a / b,
    "maximum.default": max,
    "minimum.default": min,
    "clamp_min.Tensor": max,
    "clamp_max.Tensor": min,
}


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("constant", [False, True])
def test_functions_of_two_numbers(op: str, constant: bool) -> None:
    key = {"clamp_min.Tensor": "min", "clamp_max.Tensor": "max"}.get(op, "other")
    extra: dict[str, Argument] = {"alpha": 3} if op.split(".")[0] in ("add", "sub", "rsub") else {}
    for a, b in pairs():
        if op == "div.Tensor" and b == 0:
            continue
        true = BINARY[op](Fraction(a), Fraction(b))
        second = Constant(torch.tensor([b], dtype=torch.float64)) if constant else x("z")
        operation = node(op, self=x(), **{key: second}, **extra)
        for left, right in ((a, a), (min(a, 1.0), max(a, 1.0))):
            image = interval_of(operation, (Interval(left, right), *(() if constant else (Interval.point(b),))))
            assert image.low == -math.inf or Fraction(image.low) <= true, (op, a, b)
            assert image.high == math.inf or true <= Fraction(image.high), (op, a, b)


def test_sums_of_entries_and_integers_beyond_float() -> None:
    total = Node("y", "aten.sum.dim_IntList", {"self": x(), "dim": (1,)}, (TensorInfo((1,), torch.float64),))
    image = interval_of(total, (Interval(0.1, 1 / 3),))
    assert Fraction(image.low) <= 3 * Fraction(0.1)
    assert 3 * Fraction(1 / 3) <= Fraction(image.high)
    big = 2**60 + 1
    for other in (big, Constant(torch.tensor([big]))):
        shifted = interval_of(node("add.Tensor", self=x(), other=other, alpha=1), (Interval.point(0.0),))
        assert Fraction(shifted.low) <= big <= Fraction(shifted.high)
    clamped = interval_of(node("clamp.default", self=x(), min=big, max=None), (Interval(),))
    assert Fraction(clamped.low) <= big
    unknown = node("add.Tensor", self=x(), other=1.0, alpha=Constant(torch.tensor([1.0, 2.0])))
    assert interval_of(unknown, (Interval.point(0.0),)) == Interval()


def test_atan_reaches_beyond_the_float_next_to_half_pi() -> None:
    image = interval_of(node("atan.default", self=x()), (Interval(),))
    assert arb(image.low) < -flint.arb.pi() / 2
    assert flint.arb.pi() / 2 < arb(image.high)
