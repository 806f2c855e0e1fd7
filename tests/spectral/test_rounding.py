"""Margins of inner products against the worst order of summation, in exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from lipaudit.spectral.rounding import UNIT_ROUNDOFF, gamma, product_error

Complex = tuple[float, float]


def one_by_one(a: list[Complex], b: list[Complex]) -> Complex:
    """sum conj(a_k) b_k, each part summed product by product from the left, as some orders of a library's blocks may."""
    real = imaginary = 0.0
    for (p, q), (r, s) in zip(a, b, strict=True):
        real, imaginary = (real + p * r) + q * s, (imaginary + p * s) - q * r
    return real, imaginary


def exact(a: list[Complex], b: list[Complex]) -> tuple[Fraction, Fraction]:
    real = imaginary = Fraction(0)
    for (p, q), (r, s) in zip(
        ((Fraction(x), Fraction(y)) for x, y in a), ((Fraction(x), Fraction(y)) for x, y in b), strict=True
    ):
        real, imaginary = real + p * r + q * s, imaginary + p * s - q * r
    return real, imaginary


@pytest.mark.parametrize("length", [16, 100, 1000])
def test_a_complex_inner_product_is_a_sum_of_twice_as_many_terms(length: int) -> None:
    # 1 + 2^-53 rounds to 1: after the first term of the real part every product is lost
    small = 2.0**-26
    a = [(1.0, 0.0), *[(small, small)] * (length - 1)]
    b = [(1.0, 0.0), *[(small / 2, small / 2)] * (length - 1)]
    found, true = one_by_one(a, b), exact(a, b)
    error = math.hypot(*(float(Fraction(x) - y) for x, y in zip(found, true, strict=True)))
    lengths = math.sqrt(math.fsum(p * p + q * q for p, q in a) * math.fsum(p * p + q * q for p, q in b))
    assert (
        math.sqrt(2) * gamma(length + 4) * lengths < error
    )  # what complex products finished before the sum would allow
    assert error <= product_error(length, complex_entries=True) * lengths


def test_the_margin_covers_both_parts_and_underflow() -> None:
    for n in (1, 7, 4096):
        assert product_error(n, complex_entries=True) >= math.sqrt(2) * 2 * n * UNIT_ROUNDOFF
        assert product_error(n, complex_entries=False) >= n * UNIT_ROUNDOFF
