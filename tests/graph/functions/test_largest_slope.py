"""The supremum of |slope| by branch and bound: against closed forms, a dense search in 40-digit arithmetic, and proven jumps."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.largest_slope import FLOAT32_HALF_ULP, Slopes, steepest
from lipaudit.graph.functions.ranges import range_over
from lipaudit.graph.functions.terms import HALF, ONE, NotElementaryError
from lipaudit.rules.ops import (
    activation_slopes,
)

Build = Callable[[Tape, int], int]
K = Fraction(math.sqrt(2 / math.pi))


def exp(t: Tape, a: int) -> int:
    return t.function("exp", a)


def plus(t: Tape, a: int, number: Fraction | int) -> int:
    return t.sum([(ONE, a)], number)


def relu(t: Tape, a: int) -> int:
    return t.maximum(a, t.constant(0))


def found(build: Build, low: float = -math.inf, high: float = math.inf) -> Slopes:
    tape = Tape()
    return steepest(tape, build(tape, tape.variable()), low, high)


def gelu_tanh(t: Tape, x: int) -> int:
    inner = t.sum([(K, x), (K * Fraction(0.044715), t.power(x, 3))])
    return t.scale(HALF, t.multiply(x, plus(t, t.tanh(inner), 1)))


def elu(t: Tape, x: int, alpha: Fraction, scale: Fraction) -> int:
    positive = t.step(x, 0)
    below = t.scale(alpha, plus(t, exp(t, x), -1))
    return t.scale(scale, t.add(t.multiply(positive, t.subtract(x, below)), below))


# every activation whose constant is known by name, written out, and others with a closed form
CLOSED: dict[str, tuple[Build, float]] = {
    "relu": (lambda t, x: relu(t, x), 1.0),
    "leaky relu": (lambda t, x: t.add(relu(t, x), t.scale(-3, relu(t, t.scale(-1, x)))), 3.0),
    "relu6": (lambda t, x: t.minimum(relu(t, x), t.constant(6)), 1.0),
    "abs": (lambda t, x: t.absolute(x), 1.0),
    "tanh": (lambda t, x: t.tanh(x), 1.0),
    "tanh by exponentials": (
        lambda t, x: t.divide(t.subtract(exp(t, x), exp(t, t.scale(-1, x))), t.add(exp(t, x), exp(t, t.scale(-1, x)))),
        1.0,
    ),
    "sigmoid": (lambda t, x: t.power(plus(t, exp(t, t.scale(-1, x)), 1), -1), 0.25),
    "hardsigmoid": (lambda t, x: t.scale(Fraction(1, 6), t.minimum(relu(t, plus(t, x, 3)), t.constant(6))), 1 / 6),
    "hardswish": (
        lambda t, x: t.scale(Fraction(1, 6), t.multiply(x, t.minimum(relu(t, plus(t, x, 3)), t.constant(6)))),
        1.5,
    ),
    "silu": (lambda t, x: t.divide(x, plus(t, exp(t, t.scale(-1, x)), 1)), activation_slopes.SILU.high),
    "gelu": (
        lambda t, x: t.scale(
            HALF, t.multiply(x, plus(t, t.function("erf", t.multiply(t.power(t.constant(2), -HALF), x)), 1))
        ),
        activation_slopes.GELU_ERF.high,
    ),
    "gelu (tanh)": (gelu_tanh, activation_slopes.GELU_TANH.high),
    "mish": (lambda t, x: t.multiply(x, t.tanh(t.function("log", plus(t, exp(t, x), 1)))), activation_slopes.MISH.high),
    "selu": (
        lambda t, x: elu(t, x, Fraction(1.6732632423543772), Fraction(1.0507009873554805)),
        activation_slopes.SELU.high,
    ),
    "elu": (lambda t, x: elu(t, x, ONE, ONE), 1.0),
    "elu by maxima": (
        lambda t, x: t.add(relu(t, x), t.minimum(plus(t, exp(t, x), -1), t.constant(0))),
        1.0,
    ),
    "erf": (lambda t, x: t.function("erf", x), 2 / math.sqrt(math.pi)),
    "softplus": (lambda t, x: t.function("log", plus(t, exp(t, x), 1)), 1.0),
    "log-sigmoid": (lambda t, x: t.function("log", t.power(plus(t, exp(t, t.scale(-1, x)), 1), -1)), 1.0),
    "softsign": (lambda t, x: t.divide(x, plus(t, t.absolute(x), 1)), 1.0),
    "x / sqrt(1 + x^2)": (lambda t, x: t.divide(x, t.power(plus(t, t.power(x, 2), 1), HALF)), 1.0),
    "x (x > 0)": (lambda t, x: t.multiply(x, t.step(x, 0)), 1.0),
    "tanhshrink": (lambda t, x: t.subtract(x, t.tanh(x)), 1.0),
    "log cosh": (lambda t, x: t.function("log", t.add(exp(t, x), exp(t, t.scale(-1, x)))), 1.0),
    "x atan x": (lambda t, x: t.multiply(x, t.function("atan", x)), math.pi / 2),
    "x + sin^2 x": (lambda t, x: t.add(x, t.power(t.function("sin", x), 2)), 2.0),
    "x e^(-x^2)": (lambda t, x: t.multiply(x, exp(t, t.scale(-1, t.power(x, 2)))), 1.0),
    "e^(-x^2)": (lambda t, x: exp(t, t.scale(-1, t.power(x, 2))), math.sqrt(2 / math.e)),
    "1 / (1 + x^2)": (lambda t, x: t.power(plus(t, t.power(x, 2), 1), -1), 3 * math.sqrt(3) / 8),
    "log(1 + x^2)": (lambda t, x: t.function("log", plus(t, t.power(x, 2), 1)), 1.0),
    "asinh": (lambda t, x: t.function("asinh", x), 1.0),
    "huber": (
        lambda t, x: t.sum(
            [
                (HALF, t.power(t.minimum(t.absolute(x), t.constant(2)), 2)),
                (Fraction(2), relu(t, plus(t, t.absolute(x), -2))),
            ]
        ),
        2.0,
    ),
}


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name: str) -> None:
    build, constant = CLOSED[name]
    slope = found(build)
    assert constant * (1 - 1e-15) <= slope.upper <= constant * (1 + 1e-6)
    assert constant * (1 - 1e-6) <= slope.lower <= constant * (1 + 1e-15)
    assert not slope.steps


@pytest.mark.parametrize("steepness", [1e-4, 0.03, 1.702, 1e4])
def test_any_scale_of_the_argument(steepness: float) -> None:
    slope = found(lambda t, x: t.multiply(x, t.function("sigmoid", t.scale(Fraction(steepness), x))))
    assert activation_slopes.SILU.high * (1 - 1e-15) <= slope.upper <= activation_slopes.SILU.high * (1 + 1e-6)


UNBOUNDED: dict[str, Build] = {
    "x^2": lambda t, x: t.power(x, 2),
    "x |x|": lambda t, x: t.multiply(x, t.absolute(x)),
    "x e^x": lambda t, x: t.multiply(x, exp(t, x)),
    "x^2 sigmoid(x)": lambda t, x: t.multiply(t.power(x, 2), t.function("sigmoid", x)),
    "sqrt |x|": lambda t, x: t.power(t.absolute(x), HALF),
    "sqrt(x)": lambda t, x: t.power(x, HALF),
    "1 / x": lambda t, x: t.power(x, -1),
    "log(1 + x)": lambda t, x: t.function("log", plus(t, x, 1)),
    "x log |x|": lambda t, x: t.multiply(x, t.function("log", t.absolute(x))),
    "max(x, x / (x - 3))": lambda t, x: t.maximum(x, t.divide(x, plus(t, x, -3))),
    "atan(1 / x)": lambda t, x: t.function("atan", t.power(x, -1)),
    "tanh(x / x)": lambda t, x: t.tanh(t.divide(x, x)),
    "sigmoid(log x)": lambda t, x: t.function("sigmoid", t.function("log", x)),
    "tanh(x / |x|)": lambda t, x: t.tanh(t.divide(x, t.absolute(x))),
    "sin(x^2)": lambda t, x: t.function("sin", t.power(x, 2)),
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_without_a_bound(name: str) -> None:
    assert found(UNBOUNDED[name]).upper == math.inf


JUMPS: dict[str, tuple[Build, float, float]] = {
    "x (x > 1/2)": (lambda t, x: t.multiply(x, t.step(plus(t, x, -HALF), 0)), 0.5, 0.5),
    "sign": (lambda t, x: t.sum([(Fraction(2), t.step(x, HALF))], -1), 0.0, 2.0),
    "at the joint alone": (lambda t, x: t.add(t.step(x, 1), t.step(t.scale(-1, x), 1)), 0.0, 1.0),
    "softplus above 1": (
        lambda t, x: t.add(
            t.multiply(t.step(plus(t, x, -1), 0), t.subtract(x, t.function("softplus", x))), t.function("softplus", x)
        ),
        1.0,
        math.log(1 + math.exp(-1)),
    ),
}


@pytest.mark.parametrize("name", JUMPS)
def test_jumps_are_found_and_named(name: str) -> None:
    build, at, size = JUMPS[name]
    slope = found(build)
    assert slope.upper == math.inf
    (jump,) = slope.jumps
    assert (float(jump.at), jump.size) == (at, pytest.approx(size))
    assert found(build, at + 0.01, at + 3).upper <= 1.0 + 1e-9
    assert found(build, at - 3, at + 3).upper == math.inf


def test_a_step_below_rounding_is_kept_in_mind() -> None:
    def build(t: Tape, x: int) -> int:
        above = t.step(plus(t, x, -20), 0)
        return t.add(t.multiply(above, t.subtract(x, t.function("softplus", x))), t.function("softplus", x))

    tape = Tape()
    slope = steepest(tape, build(tape, tape.variable()), hidden=FLOAT32_HALF_ULP)
    (step,) = slope.steps
    assert (step.small, float(step.at), step.size) == (True, 20.0, pytest.approx(math.exp(-20)))
    assert slope.upper == pytest.approx(1.0)
    assert not found(build).jumps[0].small  # float64 shows it


@pytest.mark.parametrize(("size", "jumps"), [(2.0**-55, False), (2.0**-52, True), (1e-12, True)])
def test_steps_that_float64_hides(size: float, jumps: bool) -> None:
    slope = found(lambda t, x: t.sum([(ONE, t.function("cos", x)), (Fraction(size), t.step(x, 0))]))
    assert (len(slope.steps), len(slope.jumps)) == (1, int(jumps))


HOLES: dict[str, Build] = {
    "sqrt(x)^2": lambda t, x: t.power(t.power(x, HALF), 2),
    "sqrt(x) sqrt(x)": lambda t, x: t.multiply(t.power(x, HALF), t.power(x, HALF)),
    "x^(1/4) x^(3/4)": lambda t, x: t.multiply(t.power(x, Fraction(1, 4)), t.power(x, Fraction(3, 4))),
    "1 / (1 / sqrt(x))^2": lambda t, x: t.power(t.power(t.power(x, -HALF), 2), -1),
    "sqrt(x^3) / sqrt(x)": lambda t, x: t.divide(t.power(t.power(x, 3), HALF), t.power(x, HALF)),
    "sin(sqrt(x) sqrt(x))": lambda t, x: t.function("sin", t.power(t.power(x, HALF), 2)),
    "x + log(x) - log(x)": lambda t, x: t.subtract(t.add(x, t.function("log", x)), t.function("log", x)),
    "x + 0 / x": lambda t, x: t.add(x, t.scale(0, t.power(x, -1))),
    "exp(1 / x) exp(x - 1 / x)": lambda t, x: t.multiply(exp(t, t.power(x, -1)), exp(t, t.subtract(x, t.power(x, -1)))),
    "1 / (1 / x)": lambda t, x: t.power(t.power(x, -1), -1),
    "cos(x) sin(x) / sin(2 x)": lambda t, x: t.multiply(
        t.multiply(t.power(t.function("sin", t.scale(2, x)), -1), t.function("sin", x)), t.function("cos", x)
    ),
    "step of sqrt(x)^2 + 1": lambda t, x: t.multiply(x, t.step(plus(t, t.power(t.power(x, HALF), 2), 1), 0)),
    "max(sqrt(x)^2, -1)": lambda t, x: t.maximum(t.power(t.power(x, HALF), 2), t.constant(-1)),
    "max(log(x) - log(x) + 1, 0)": lambda t, x: t.maximum(
        plus(t, t.subtract(t.function("log", x), t.function("log", x)), 1), t.constant(0)
    ),
    "x + atan(1 / x)": lambda t, x: t.add(x, t.function("atan", t.power(x, -1))),
    "x + atan(1 / (x - 1/3))": lambda t, x: t.add(x, t.function("atan", t.power(plus(t, x, -Fraction(1, 3)), -1))),
    "x + tanh(1 / x) / 4": lambda t, x: t.sum([(ONE, x), (Fraction(1, 4), t.tanh(t.power(x, -1)))]),
    "sigmoid(x + 1 / |x|)": lambda t, x: t.function("sigmoid", t.add(x, t.power(t.absolute(x), -1))),
    "erf(1 / x)": lambda t, x: t.function("erf", t.power(x, -1)),
    "1 / (1 + exp(1 / x))": lambda t, x: t.power(plus(t, exp(t, t.power(x, -1)), 1), -1),
    "atan(x^2 / (x + x))": lambda t, x: t.function("atan", t.divide(t.power(x, 2), t.add(x, x))),
    "max(-x, x + atan(1 / x))": lambda t, x: t.maximum(t.scale(-1, x), t.add(x, t.function("atan", t.power(x, -1)))),
    "|x| + atan(1 / |x|)": lambda t, x: t.add(t.absolute(x), t.function("atan", t.power(t.absolute(x), -1))),
}


@pytest.mark.parametrize("name", HOLES)
def test_no_bound_across_what_is_not_defined(name: str) -> None:
    assert found(HOLES[name]).upper == math.inf
    assert found(HOLES[name], -0.5, 2.0).upper == math.inf


def test_powers_merge_where_the_base_is_not_negative() -> None:
    tape = Tape()
    x = tape.variable()
    for base in (
        tape.absolute(x),
        exp(tape, x),
        plus(tape, tape.power(x, 2), 1),
        tape.add(tape.absolute(x), tape.power(x, 4)),
        tape.maximum(x, tape.constant(0)),
        tape.function("softplus", x),
    ):
        root = tape.power(base, HALF)
        assert tape.multiply(root, root) == tape.power(root, 2) == base
        assert tape.subtract(root, root) == tape.constant(0)


def test_a_lower_bound_counts_only_where_the_function_is_defined() -> None:
    slope = found(lambda t, x: t.function("exp", t.scale(-1, t.power(t.power(x, HALF), 2))), -5.0, 2.0)
    assert slope.lower <= 1.0  # e^-x for x >= 0, nothing for x < 0
    assert found(lambda t, x: t.function("softplus", t.scale(-1, t.power(t.power(x, HALF), 2)))).lower <= 0.5


def test_branches_that_are_not_taken_may_be_undefined() -> None:
    def build(t: Tape, x: int) -> int:
        return t.select(plus(t, t.step(x, 0), -HALF), t.function("log", plus(t, x, 1)), x)

    assert found(build).upper == 1.0


def test_constants_with_no_float_of_their_own() -> None:
    third = found(lambda t, x: t.absolute(plus(t, t.scale(3, x), -1)))  # the joint is at 1/3
    assert (third.lower, third.upper) == (3.0, 3.0)
    with pytest.raises(NotElementaryError):
        found(lambda t, x: t.divide(x, t.constant(0)))


@pytest.mark.parametrize(("low", "high"), [(-3.0, 2.0), (0.25, 0.5), (-1e-3, 1e-3), (0.0, math.inf), (-math.inf, -7.0)])
def test_on_an_interval(low: float, high: float) -> None:
    slope = found(lambda t, x: exp(t, t.scale(-1, x)), low, high)
    exact = math.exp(-low) if low > -math.inf else math.inf
    assert slope.upper == math.inf if exact == math.inf else exact * (1 - 1e-15) <= slope.upper <= exact * (1 + 1e-8)


def test_one_point() -> None:
    assert found(lambda t, x: t.power(x, 2), 3.0, 3.0).upper == 0.0


UNARY: dict[str, tuple[Build, Callable[[mpmath.mpf], mpmath.mpf]]] = {
    "sigmoid": (lambda t, a: t.function("sigmoid", a), lambda v: 1 / (1 + mpmath.exp(-v))),
    "tanh": (lambda t, a: t.tanh(a), mpmath.tanh),
    "softplus": (lambda t, a: t.function("softplus", a), lambda v: mpmath.log1p(mpmath.exp(v))),
    "erf": (lambda t, a: t.function("erf", a), mpmath.erf),
    "atan": (lambda t, a: t.function("atan", a), mpmath.atan),
    "asinh": (lambda t, a: t.function("asinh", a), mpmath.asinh),
    "sin": (lambda t, a: t.function("sin", a), mpmath.sin),
    "abs": (lambda t, a: t.absolute(a), abs),
    "relu": (relu, lambda v: max(v, mpmath.mpf(0))),
    "exp": (exp, mpmath.exp),
    "bell": (lambda t, a: exp(t, t.scale(-1, t.power(a, 2))), lambda v: mpmath.exp(-v * v)),
    "root": (lambda t, a: t.power(plus(t, t.power(a, 2), 1), HALF), lambda v: mpmath.sqrt(v * v + 1)),
    "witch": (lambda t, a: t.power(plus(t, t.power(a, 2), 1), -1), lambda v: 1 / (1 + v * v)),
    "cube": (lambda t, a: t.power(a, 3), lambda v: v**3),
}


def composition(generator: random.Random) -> tuple[Build, Callable[[mpmath.mpf], mpmath.mpf], str]:
    """A function of three to five operations drawn at random, in both arithmetics."""
    build: Build = lambda t, x: x  # noqa: E731
    value: Callable[[mpmath.mpf], mpmath.mpf] = lambda v: v  # noqa: E731
    text = "x"
    for _ in range(generator.randint(2, 4)):
        inner_build, inner = build, value
        number = Fraction(generator.choice([-2.0, -0.5, 0.3, 1.0, 1.5]))
        c = mpmath.mpf(number.numerator) / number.denominator
        match generator.choice(["unary", "unary", "times x", "plus", "scale", "divide"]):
            case "unary":
                name = generator.choice(list(UNARY))
                f, g = UNARY[name]
                build, value = (lambda t, x, b=inner_build, f=f: f(t, b(t, x))), (lambda v, i=inner, g=g: g(i(v)))
                text = f"{name}({text})"
            case "times x":
                build, value = (lambda t, x, b=inner_build: t.multiply(x, b(t, x))), (lambda v, i=inner: v * i(v))
                text = f"x ({text})"
            case "plus":
                build = lambda t, x, b=inner_build, n=number: t.sum([(ONE, b(t, x)), (n, x)])  # noqa: E731
                value = lambda v, i=inner, c=c: i(v) + c * v  # noqa: E731
                text = f"{text} + {c} x"
            case "scale":
                build = lambda t, x, b=inner_build, n=number: plus(t, t.scale(n, b(t, x)), 1)  # noqa: E731
                value = lambda v, i=inner, c=c: c * i(v) + 1  # noqa: E731
                text = f"{c} ({text}) + 1"
            case "divide":
                build = lambda t, x, b=inner_build: t.divide(b(t, x), plus(t, t.absolute(b(t, x)), 1))  # noqa: E731
                value = lambda v, i=inner: i(v) / (abs(i(v)) + 1)  # noqa: E731
                text = f"softsign({text})"
    return build, value, text


def test_random_compositions_never_exceed_the_constant() -> None:
    generator = random.Random(23)
    points = np.concatenate([np.linspace(-6, 6, 41), [-300.0, -40.0, -15.0, 15.0, 40.0, 300.0]])
    finite = 0
    with mpmath.workdps(40):
        for _ in range(60):
            build, value, text = composition(generator)
            try:
                slope = found(build)
            except NotElementaryError:
                continue
            if math.isinf(slope.upper):
                continue
            finite += 1
            h = mpmath.mpf(10) ** -12
            steep = max(abs(value(mpmath.mpf(p) + h) - value(mpmath.mpf(p) - h)) / (2 * h) for p in points)
            assert steep <= slope.upper * (1 + mpmath.mpf(10) ** -15), text
            assert slope.lower <= slope.upper, text
    assert finite > 25


def test_values_on_intervals() -> None:
    tape = Tape()
    root = tape.divide(tape.variable(), plus(tape, tape.absolute(tape.variable()), 1))
    values = range_over(tape, root, -3.0, 1.0)
    assert values.low <= -0.75
    assert values.high >= 0.5
