"""What is printed must still hold: checked against the exact decimal value of every float."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lipaudit.text import (
    numbers,
)

POSITIVE = st.floats(min_value=5e-324, allow_infinity=False, allow_nan=False)
LOGS = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False)


@given(POSITIVE)
@example(4.51441)
@example(9.9991)
@example(9999.5)
@example(2.0000000000000004)
@example(1.7976931348623157e308)
@example(5e-324)
def test_shown_upper_bound_is_at_least_the_value_and_close(x: float) -> None:
    shown = Decimal(numbers.upper_text(x))
    assert Decimal(x) <= shown <= Decimal(x) * Decimal("1.001")


@given(POSITIVE)
@example(4.51449)
@example(1.0)
@example(0.99999)
def test_shown_lower_bound_is_at_most_the_value_and_close(x: float) -> None:
    shown = Decimal(numbers.lower_text(x))
    assert Decimal(x) * Decimal("0.999") <= shown <= Decimal(x)


@given(st.floats(min_value=1.0, max_value=1.001, exclude_min=True, exclude_max=True))
@example(1.0000000000000002)
@example(1.00099999)
def test_how_little_a_bound_is_above_one_is_shown(x: float) -> None:
    shown = Decimal(numbers.upper_text(x))
    assert Decimal(x) <= shown <= 1 + max(2 * (Decimal(x) - 1), Decimal("1e-7"))


@given(POSITIVE.filter(lambda x: not numbers.is_slightly_above_one(x)))
def test_at_most_four_significant_digits_are_shown(x: float) -> None:
    for text in (numbers.upper_text(x), numbers.lower_text(x)):
        assert len(Decimal(text).normalize().as_tuple().digits) <= numbers.DIGITS
        assert len(text) <= 11


@given(LOGS)
@example(10.3908)
@example(-3.14159)
@example(0.0)
@example(-1e-9)
@example(99.999)
def test_shown_logarithms_are_on_the_safe_side(x: float) -> None:
    up, down = Decimal(numbers.log10_upper_text(x)), Decimal(numbers.log10_lower_text(x))
    assert down <= Decimal(x) <= up
    assert up - down <= max(Decimal("0.01"), abs(Decimal(x)) / 10_000)


@given(LOGS)
def test_bounds_beyond_floats_are_shown_through_their_logarithm(x: float) -> None:
    upper, lower = numbers.upper_bound_text(None, x), numbers.lower_bound_text(None, x)
    assert re.fullmatch(r"10\^-?[0-9]+(\.[0-9]+)?", upper)
    assert Decimal(lower.removeprefix("10^")) <= Decimal(x) <= Decimal(upper.removeprefix("10^"))


@given(POSITIVE)
@example(3.0)
@example(5e-324)
def test_reciprocal_never_promises_too_much(upper: float) -> None:
    shown = Decimal(numbers.reciprocal_text(upper, None))
    assert shown * Decimal(upper) <= 1
    assert shown * Decimal(upper) >= Decimal("0.999")


@given(LOGS)
def test_reciprocal_of_a_logarithm_never_promises_too_much(log10: float) -> None:
    assert Decimal(numbers.reciprocal_text(None, log10).removeprefix("10^")) <= -Decimal(log10)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_what_is_no_number_is_never_shown_as_one(bad: float) -> None:
    for show in (numbers.upper_text, numbers.lower_text, numbers.log10_upper_text, numbers.log10_lower_text):
        with pytest.raises(ValueError, match="can be shown"):
            show(bad)


def test_zero_is_shown_plainly() -> None:
    assert (numbers.upper_text(0.0), numbers.lower_text(0.0), numbers.log10_upper_text(-0.0)) == ("0", "0", "0.000")


@given(POSITIVE)
@example(9.9995)
@example(4.51450)
def test_a_shown_estimate_is_marked_and_is_the_nearest(x: float) -> None:
    text = numbers.estimate_text(x, None)
    assert text.startswith("~")
    shown = Decimal(text[1:])
    others = [Decimal(numbers.upper_text(x)), Decimal(numbers.lower_text(x))]
    assert shown in others
    assert abs(shown - Decimal(x)) == min(abs(other - Decimal(x)) for other in others)


@given(LOGS)
def test_a_logarithm_of_an_estimate_lies_between_those_of_bounds(x: float) -> None:
    shown = Decimal(numbers.estimate_text(None, x).removeprefix("~10^"))
    assert Decimal(numbers.log10_lower_text(x)) <= shown <= Decimal(numbers.log10_upper_text(x))
