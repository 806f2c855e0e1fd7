"""Intervals against arb, which encloses every value in 60 digits: at ends that are tiny, huge, subnormal or near an extremum."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import flint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipaudit.spectral import directed_rounding
from lipaudit.spectral.interval import HALF_PI, PI, Interval

TINY, HUGE = 5e-324, sys.float_info.max
SPECIAL = [
    *(0.0, TINY, 1e-310, sys.float_info.min, 1e-200, 1e-17, 2.0**-53, 0.1, 1 / 3, 0.5),
    *(
        math.nextafter(1.0, 0.0),
        1.0,
        math.nextafter(1.0, 2.0),
        math.pi / 4,
        math.pi / 2,
        math.nextafter(math.pi / 2, 2.0),
    ),
    *(2.0, math.pi, 5.9, 26.5, 37.0, 100.0, 709.7, 709.9, 745.2, 1e5, 2.0**60, 1e154, 1e300, HUGE),
]
NUMBERS = [*SPECIAL, *(-x for x in SPECIAL if x)]
finite = st.floats(allow_nan=False, allow_infinity=False)
DIGITS = 60


def arb(x: float | Fraction) -> flint.arb:
    """A rational number as a ball around it."""
    x = Fraction(x)
    return flint.arb(x.numerator) / flint.arb(x.denominator)


def holds(interval: Interval, value: flint.arb) -> bool:
    """Whether the interval certainly holds the true value: the ball lies in it, but for its own tiny radius."""
    slack = abs(value) * flint.arb(2) ** -180 + flint.arb(2) ** -3000
    low = interval.low == -math.inf or not (arb(interval.low) > value + slack)
    return low and (interval.high == math.inf or not (arb(interval.high) < value - slack))


def between(low: float, value: Fraction, high: float) -> bool:
    """low <= value <= high, exactly, for ends that may be infinite."""
    return (low == -math.inf or Fraction(low) <= value) and (high == math.inf or value <= Fraction(high))


@pytest.fixture(autouse=True)
def precision():
    before, flint.ctx.prec = flint.ctx.prec, 4 * DIGITS
    yield
    flint.ctx.prec = before


UNARY = {
    "exp": (Interval.exp, lambda x: x.exp()),
    "expm1": (Interval.expm1, lambda x: x.expm1()),
    "tanh": (Interval.tanh, lambda x: x.tanh()),
    "sigmoid": (Interval.sigmoid, lambda x: 1 / (1 + (-x).exp())),
    "softplus": (Interval.softplus, lambda x: x + (-x).exp().log1p() if x > 0 else x.exp().log1p()),
    "sinh": (Interval.sinh, lambda x: x.sinh()),
    "cosh": (Interval.cosh, lambda x: x.cosh()),
    "asinh": (Interval.asinh, lambda x: x.asinh()),
    "atan": (Interval.atan, lambda x: x.atan()),
    "erf": (Interval.erf, lambda x: x.erf()),
    "erfc": (Interval.erfc, lambda x: x.erfc()),
    "sin": (Interval.sin, lambda x: x.sin()),
    "cos": (Interval.cos, lambda x: x.cos()),
    "tan": (Interval.tan, lambda x: x.tan()),
    "abs": (abs, abs),
    "square": (lambda x: x**2, lambda x: x * x),
    "cube": (lambda x: x**3, lambda x: x * x * x),
}
POSITIVE = {
    "log": (Interval.log, lambda x: x.log()),
    "log1p": (Interval.log1p, lambda x: x.log1p()),
    "sqrt": (Interval.sqrt, lambda x: x.sqrt()),
    "power 0.3": (lambda x: x**0.3, lambda x: (x.log() * arb(0.3)).exp()),
    "power -1.5": (lambda x: x**-1.5, lambda x: 1 / (x * x.sqrt())),
    "power -3": (lambda x: x**-3, lambda x: 1 / (x * x * x)),
    "power -0.5": (lambda x: x**-0.5, lambda x: 1 / x.sqrt()),
}


@pytest.mark.parametrize("name", [*UNARY, *POSITIVE])
def test_functions_of_one_number_hold_the_true_value(name: str) -> None:
    function, true = (UNARY | POSITIVE)[name]
    for x in NUMBERS:
        # e^(1e300) has no digits in arb; beyond a hundred thousand the exponential overflows or underflows all the same
        if (name in POSITIVE and x <= 0) or (
            name in UNARY and abs(x) > 1e5 and name not in ("abs", "square", "cube", "atan", "asinh")
        ):
            continue
        assert holds(function(Interval.point(x)), true(arb(x))), (name, x)


@pytest.mark.parametrize("name", [*UNARY, *POSITIVE])
@given(ends=st.tuples(st.floats(-800, 800), st.floats(-800, 800)), part=st.floats(0, 1))
@settings(max_examples=60)
def test_functions_of_an_interval_hold_the_values_of_its_numbers(
    name: str, ends: tuple[float, float], part: float
) -> None:
    low, high = sorted(ends)
    inner = min(high, max(low, low + part * (high - low)))
    function, true = (UNARY | POSITIVE)[name]
    image = function(Interval(low, high))
    for x in (low, inner, high):
        if name not in POSITIVE or x > 0:
            assert holds(image, true(arb(x))), (name, low, high, x)


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "erf", "atan", "sin", "cos", "log1p"])
def test_ends_are_tight_away_from_extremes(name: str) -> None:
    function, true = (UNARY | POSITIVE)[name]
    for x in (0.1, 1 / 3, 0.7, 1.3):
        image, value = function(Interval.point(x)), float(true(arb(x)))
        assert 0 < image.high - image.low < 1e-14 * abs(value)


def test_infinite_ends_are_limits() -> None:
    everything = Interval()
    assert everything.tanh() == Interval(-1.0, 1.0) == everything.erf() == everything.sin() == everything.cos()
    assert everything.sigmoid() == Interval(0.0, 1.0)
    assert everything.exp() == Interval(0.0, math.inf) == everything.softplus()
    assert everything.atan() == Interval(-HALF_PI.high, HALF_PI.high)
    assert everything.tan() == everything == everything.sinh()
    assert everything**2 == Interval(0.0, math.inf)
    assert Interval(0.0, 1.0).log().low == -math.inf
    assert Interval(1.0) ** -2 == Interval(0.0, 1.0)


def test_nothing_is_claimed_where_a_function_is_not_defined() -> None:
    across = Interval(-1.0, 1.0)
    for image in (
        across.log(),
        across.sqrt(),
        1 / across,
        across**-1,
        across**0.5,
        Interval(0.0, 1.0) ** -0.5,
        Interval(1.0, 2.0).tan(),
    ):
        assert image == Interval()
    assert Interval.point(math.nan) == Interval() == Interval(math.inf, math.inf) - Interval(math.inf, math.inf)


def test_pi_is_between_its_floats() -> None:
    assert arb(PI.low) < flint.arb.pi() < arb(PI.high)
    assert 2 * Fraction(HALF_PI.high) == Fraction(PI.high)


def test_extremes_of_waves_are_found() -> None:
    for k in range(-9, 10):
        top = math.pi * (2 * k + 0.5)
        for around in (Interval(top - 0.1, top + 0.1), Interval.point(top), Interval(top - 1e-13, top + 1e-13)):
            assert around.sin().high == 1.0
            assert (around + math.pi / 2).cos().low < -0.99
        assert Interval(top + 0.1, top + 0.2).sin().high < 0.996 < Interval(top + 0.05, top + 0.2).sin().high < 1


@given(a=finite, b=finite)
@settings(max_examples=300)
def test_sums_products_and_quotients_are_rounded_to_the_next_float(a: float, b: float) -> None:
    exact = {directed_rounding.add: Fraction(a) + Fraction(b), directed_rounding.multiply: Fraction(a) * Fraction(b)}
    if b:
        exact[directed_rounding.divide] = Fraction(a) / Fraction(b)
    for operation, value in exact.items():
        low, high = (operation(a, b, up=up) for up in (False, True))
        assert low == -math.inf or Fraction(low) <= value
        assert high == math.inf or value <= Fraction(high)
        assert high in (low, math.nextafter(low, math.inf))
        assert (low == high) == (math.isfinite(low) and Fraction(low) == value)


@given(x=st.floats(min_value=0, allow_infinity=False))
@settings(max_examples=200)
def test_roots_are_rounded_to_the_next_float(x: float) -> None:
    low, high = (directed_rounding.square_root(x, up=up) for up in (False, True))
    assert Fraction(low) ** 2 <= Fraction(x) <= Fraction(high) ** 2
    assert high in (low, math.nextafter(low, math.inf))


@pytest.mark.parametrize("a", NUMBERS[::5])
@pytest.mark.parametrize("operation", [directed_rounding.add, directed_rounding.multiply, directed_rounding.divide])
def test_ends_of_the_range_of_floats(operation, a: float) -> None:
    exact = {
        directed_rounding.add: lambda x, y: x + y,
        directed_rounding.multiply: lambda x, y: x * y,
        directed_rounding.divide: lambda x, y: x / y,
    }[operation]
    for b in NUMBERS:
        if b or operation is not directed_rounding.divide:
            low, high = (operation(a, b, up=up) for up in (False, True))
            value = exact(Fraction(a), Fraction(b))
            assert between(low, value, high), (a, b)
            assert low < math.inf
            assert high > -math.inf


def test_rational_numbers() -> None:
    for value in (
        Fraction(1, 6),
        Fraction(-2, 3),
        Fraction(10**400),
        Fraction(-(10**400)),
        Fraction(1, 10**400),
        Fraction(7),
    ):
        interval = Interval.of(value)
        assert between(interval.low, value, interval.high)
    assert Interval.of(Fraction(7)) == Interval(7.0, 7.0)
