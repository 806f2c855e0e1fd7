"""Figures: both numbers are bounds, an exact value stays exact, and one comparison serves all."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipaudit.records.figure import CERTIFIED, EMPIRICAL, ESTIMATE, NUMERICAL, Figure
from lipaudit.spectral.bracket import Bracket, Rigor

logs = st.floats(min_value=-2000, max_value=2000)
positive = st.floats(min_value=1e-300, max_value=1e300)


def exp(log: float) -> Decimal:
    with localcontext(prec=50):
        return Decimal(log).exp()


def power_of_ten(log10: float) -> Decimal:
    with localcontext(prec=50):
        return Decimal(10) ** Decimal(log10)


@given(logs)
def test_both_numbers_of_an_upper_bound_are_at_least_the_bound(log: float) -> None:
    figure = Figure.upper(Bracket(-math.inf, log))
    assert power_of_ten(figure.log10) >= exp(log)
    assert figure.value is None or Decimal(figure.value) >= exp(log)
    assert (figure.value is None) == (log > math.log(1.7976931348623157e308))


@given(logs)
def test_both_numbers_of_a_lower_bound_are_at_most_the_bound(log: float) -> None:
    figure = Figure.lower(Bracket(log, math.inf))
    assert figure is not None
    assert figure.value is not None
    assert power_of_ten(figure.log10) <= exp(log)
    assert Decimal(figure.value) <= exp(log)


@given(positive, st.booleans())
def test_the_logarithm_of_a_plain_number_is_rounded_outward(value: float, upwards: bool) -> None:
    figure = Figure.of(value, upwards=upwards)
    assert figure.value == value
    assert (power_of_ten(figure.log10) >= Decimal(value)) if upwards else (power_of_ten(figure.log10) <= Decimal(value))


@pytest.mark.parametrize("power", [0, 1, 2, 22])
def test_powers_of_ten_have_whole_logarithms(power: int) -> None:
    for upwards in (True, False):
        assert Figure.of(10.0**power, upwards=upwards).log10 == power


@pytest.mark.parametrize("value", [1.0, 0.25, 3.0, 5e-324])
def test_a_constant_known_to_the_last_bit_keeps_its_value(value: float) -> None:
    bracket = Bracket.exact(value)
    lower = Figure.lower(bracket)
    assert lower is not None
    assert Figure.upper(bracket).value == lower.value == value
    assert lower.log10 <= Figure.upper(bracket).log10


def test_one_and_zero_are_exact() -> None:
    assert Figure.upper(Bracket(-math.inf, 0.0)) == Figure(0.0, CERTIFIED, 1.0)
    assert Figure.upper(Bracket.exact(0.0)) == Figure.lower(Bracket.exact(0.0)) == Figure(-math.inf, CERTIFIED, 0.0)
    assert Figure.lower(Bracket(-math.inf, 1.0)) is None


def test_the_lower_end_beside_an_estimate_is_no_estimate() -> None:
    bracket = Bracket(0.5, 0.75, Rigor.ESTIMATE)
    lower = Figure.lower(bracket)
    assert lower is not None
    assert (Figure.upper(bracket).rigor, lower.rigor) == (ESTIMATE, NUMERICAL)


@given(positive, positive, positive)
def test_plain_values_are_compared_exactly(value: float, other: float, times: float) -> None:
    above = Fraction(value) > Fraction(times) * Fraction(other)
    assert Figure.of(value).is_above(Figure.of(other), times) is above
    assert Figure.of(value).exceeds(other) is (value > other)


def test_what_fits_no_float_is_compared_by_its_logarithm() -> None:
    large, larger, zero = Figure(400.0), Figure(400.5), Figure.of(0.0)
    assert larger.is_above(large)
    assert larger.is_above(large, 3.0)
    assert not larger.is_above(large, 3.2)
    assert large.is_above(Figure.of(1e300))
    assert not zero.is_above(zero)
    assert large.is_above(zero)
    assert large.exceeds(1.7976931348623157e308)
    # the plain value of a bound far below all floats says nothing of its size
    assert not Figure(-360.0, CERTIFIED, 5e-324).is_above(Figure(-350.0, CERTIFIED, 5e-324))


def test_only_theorems_are_bounds() -> None:
    assert {rigor: Figure(0.0, rigor).is_bound for rigor in (CERTIFIED, NUMERICAL, ESTIMATE, EMPIRICAL)} == {
        CERTIFIED: True,
        NUMERICAL: True,
        ESTIMATE: False,
        EMPIRICAL: False,
    }
