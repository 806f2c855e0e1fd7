"""Outward rounding of brackets against 400-bit arithmetic."""

from __future__ import annotations

import math
import sys

import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

from lipaudit.spectral.bracket import Bracket, Rigor, log_down, log_up, round_down, round_up
from tests.spectral.reference import precise

plain = st.floats(min_value=0.0, max_value=sys.float_info.max, allow_subnormal=True)
logs = st.one_of(
    st.floats(-50.0, 50.0),
    st.floats(-1e6, 1e6),
    st.floats(-1e-12, 1e-12),
    st.just(-math.inf),
    st.sampled_from([0.0, math.log(0.5), math.log(2.0), -math.log(3.0), 709.78, -745.1, 1e15]),
)


@st.composite
def brackets(draw: st.DrawFn) -> Bracket:
    low, high = sorted((draw(logs), draw(logs)))
    return Bracket(low, high)


def exact(log: float) -> arb:
    return arb(0) if log == -math.inf else arb(log).exp()


def ends(bracket: Bracket) -> tuple[arb, arb]:
    return exact(bracket.log_lower), exact(bracket.log_upper)


def encloses(outer: Bracket, lower: arb, upper: arb) -> bool:
    low, high = ends(outer)
    return not low > lower and not high < upper


def width(outer: Bracket, lower: arb, upper: arb) -> float:
    """How far the logarithms of the ends moved, relative to max(1, |log|)."""
    low, high = ends(outer)
    moved = [
        abs(a.log() - b.log()) / max(1.0, abs(float(b.log().mid()))) for a, b in ((low, lower), (high, upper)) if b > 0
    ]
    return max((float(m.mid()) for m in moved), default=0.0)


@given(plain)
def test_exact_and_at_most(value: float) -> None:
    bracket, above = Bracket.exact(value), Bracket.at_most(value)
    with precise():
        assert encloses(bracket, arb(value), arb(value))
        assert encloses(above, arb(0), arb(value))
        assert width(bracket, arb(value), arb(value)) < 1e-14
    assert above.log_lower == -math.inf
    assert above.log_upper == bracket.log_upper
    assert bracket.lower <= value <= bracket.upper
    assert above.lower == 0.0
    assert value <= above.upper


@given(plain)
def test_logarithms_are_on_their_sides(value: float) -> None:
    low, high = log_down(value), log_up(value)
    if value == 0:
        assert low == high == -math.inf
        return
    with precise():
        log = arb(value).log()
        assert arb(low) < log < arb(high)
        assert arb(high) - arb(low) < 1e-14 * max(1.0, abs(high))


@given(brackets())
def test_plain_units_are_rounded_outward(bracket: Bracket) -> None:
    with precise():
        low, high = ends(bracket)
        assert not arb(bracket.lower) > low
        assert bracket.upper == math.inf or not arb(bracket.upper) < high
    assert 0.0 <= bracket.lower <= bracket.upper
    assert bracket.lower < math.inf
    assert bracket.tightness >= 1.0


@given(brackets(), brackets())
def test_products(a: Bracket, b: Bracket) -> None:
    with precise():
        lower, upper = (x * y for x, y in zip(ends(a), ends(b), strict=True))
        assert encloses(a * b, lower, upper)
        assert width(a * b, lower, upper) < 1e-9  # cancelling logarithms of 1e6 leave their spacing


@given(st.lists(brackets(), min_size=1, max_size=6))
def test_sums(terms: list[Bracket]) -> None:
    with precise():
        lower = sum((exact(t.log_lower) for t in terms), arb(0))
        upper = sum((exact(t.log_upper) for t in terms), arb(0))
        assert encloses(Bracket.sum(terms), lower, upper)
        assert width(Bracket.sum(terms), lower, upper) < 1e-14


@given(st.lists(brackets(), min_size=1, max_size=6))
def test_root_of_the_sum_of_squares(terms: list[Bracket]) -> None:
    with precise():
        lower = sum((exact(t.log_lower) ** 2 for t in terms), arb(0)).sqrt()
        upper = sum((exact(t.log_upper) ** 2 for t in terms), arb(0)).sqrt()
        assert encloses(Bracket.root_sum_squares(terms), lower, upper)
        assert width(Bracket.root_sum_squares(terms), lower, upper) < 1e-14


@given(st.lists(brackets(), min_size=1, max_size=6))
def test_maximum_is_exact(terms: list[Bracket]) -> None:
    largest = Bracket.maximum(terms)
    assert largest.log_upper == max(t.log_upper for t in terms)
    assert largest.log_lower == max(t.log_lower for t in terms)


def test_a_thousand_terms_and_a_thousand_factors() -> None:
    term = Bracket.exact(0.1)
    total, product = Bracket.sum([term] * 1000), Bracket.exact(1.0)
    for _ in range(1000):
        product = product * term
    with precise():
        assert encloses(total, arb(0.1) * 1000, arb(0.1) * 1000)
        assert encloses(product, arb(0.1) ** 1000, arb(0.1) ** 1000)
        assert width(product, arb(0.1) ** 1000, arb(0.1) ** 1000) < 1e-11


def test_empty_combinations_are_zero_and_certified() -> None:
    for combine in (Bracket.sum, Bracket.root_sum_squares, Bracket.maximum):
        empty = combine([])
        assert empty.log_lower == empty.log_upper == -math.inf
        assert empty.rigor is Rigor.CERTIFIED


def test_zero_annihilates_and_infinity_stays() -> None:
    zero, infinite, two = Bracket.exact(0.0), Bracket(0.0, math.inf), Bracket.exact(2.0)
    assert (zero * infinite).log_upper == -math.inf
    assert (two * infinite).log_upper == math.inf
    assert Bracket.sum([two, infinite]).log_upper == math.inf
    assert Bracket.root_sum_squares([zero, infinite]).log_upper == math.inf
    assert infinite.upper == math.inf
    assert infinite.tightness == math.inf
    assert zero.tightness == 1.0
    assert zero.lower == 0.0


def test_constants_beyond_floats() -> None:
    large = Bracket(1000.0, 1000.1)
    assert large.upper == math.inf
    assert large.lower == sys.float_info.max
    assert Bracket(-2000.0, -1999.0).lower == 0.0
    assert Bracket(-2000.0, -1999.0).upper > 0.0, "a positive constant may not be shown as zero"


def test_a_combination_is_as_good_as_its_worst_part() -> None:
    certified, numerical, estimate = (Bracket.exact(1.0, rigor) for rigor in Rigor)
    assert (certified * numerical).rigor is Rigor.NUMERICAL
    for combine in (Bracket.sum, Bracket.root_sum_squares, Bracket.maximum):
        assert combine([certified, estimate, numerical]).rigor is Rigor.ESTIMATE
        assert combine([certified, certified]).rigor is Rigor.CERTIFIED


@pytest.mark.parametrize("arguments", [(math.nan, 1.0), (0.0, math.nan)])
def test_nan_is_refused(arguments: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="NaN"):
        Bracket(*arguments)


@pytest.mark.parametrize("value", [math.nan, -1.0, -5e-324])
def test_a_norm_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(ValueError):
        Bracket.exact(value)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 5))
def test_steps_of_the_last_place(x: float, ulps: int) -> None:
    above, below = round_up(x, ulps), round_down(x, ulps)
    assert below < x < above
    if math.isfinite(above) and math.isfinite(below):
        assert round_down(above, ulps) == x == round_up(below, ulps)
