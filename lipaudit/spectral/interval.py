"""Intervals of real numbers with arithmetic and functions rounded outwards.

``f(X)`` holds f(x) for every real x of X, whatever the floating-point arithmetic of the machine did: the exact ends of sums, products,
quotients and roots are rounded outwards correctly, those of exp, log and the like by more than the error of the C library
(:mod:`lipaudit.spectral.directed_rounding`). An infinite end says that nothing is known on that side; where a function is not defined
on all of an interval nothing is claimed of its values: the result is (-inf, inf).

Source: Moore, Kearfott, Cloud, *Introduction to Interval Analysis*, chapters 2 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from lipaudit.spectral import directed_rounding


@dataclass(frozen=True)
class Interval:
    """The real numbers x with low <= x <= high; plain units, infinite where nothing is known.

    >>> third = Interval.point(1.0) / 3
    >>> third.low < third.high, 3 * third
    (True, Interval(low=0.9999999999999999, high=1.0000000000000002))
    >>> (Interval(-1.0, 2.0) ** 2, Interval(0.0, 4.0).sqrt())
    (Interval(low=0.0, high=4.0), Interval(low=0.0, high=2.0))
    """

    low: float = -math.inf
    high: float = math.inf

    @staticmethod
    def point(value: float) -> Interval:
        """The interval of one float; of a NaN nothing is known."""
        return Interval() if math.isnan(value) else Interval(value, value)

    @staticmethod
    def of(value: Fraction | int) -> Interval:
        """The smallest interval that holds a rational number.

        >>> Interval.of(Fraction(1, 2)), Interval.of(Fraction(1, 3)).low < Interval.of(Fraction(1, 3)).high
        (Interval(low=0.5, high=0.5), True)
        """
        try:
            nearest = float(value)
        except OverflowError:
            return (
                Interval(directed_rounding.MAX, math.inf) if value > 0 else Interval(-math.inf, -directed_rounding.MAX)
            )
        low = nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
        return Interval(low, nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf))

    @property
    def largest(self) -> float:
        """max |x|."""
        return max(abs(self.low), abs(self.high))

    @property
    def smallest(self) -> float:
        """min |x|."""
        return max(0.0, self.low, -self.high)

    def holds(self, value: float) -> bool:
        """Whether a number is in it."""
        return self.low <= value <= self.high

    def union(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def within(self, other: Interval) -> Interval:
        """The part of it that lies in another; low > high where they do not meet."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __add__(self, other: Operand) -> Interval:
        right = _operand(other)
        return _checked(
            directed_rounding.add(self.low, right.low, up=False), directed_rounding.add(self.high, right.high, up=True)
        )

    def __sub__(self, other: Operand) -> Interval:
        return self + -_operand(other)

    def __mul__(self, other: Operand) -> Interval:
        right = _operand(other)
        return _corners(directed_rounding.multiply, self, right)

    def __truediv__(self, other: Operand) -> Interval:
        right = _operand(other)
        return Interval() if right.holds(0.0) else _corners(directed_rounding.divide, self, right)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Operand) -> Interval:
        return _operand(other) - self

    def __rtruediv__(self, other: Operand) -> Interval:
        return _operand(other) / self

    def __pow__(self, exponent: float) -> Interval:
        """x^p for a fixed p: of any x where p is a non-negative integer, of x != 0 where p is an integer, of x > 0 otherwise."""
        if exponent == 0:
            return Interval(1.0, 1.0)
        if exponent == 1:
            return self
        if math.isnan(exponent) or math.isinf(exponent):
            return Interval()
        if exponent == int(exponent):
            if exponent < 0 and self.holds(0.0):
                return Interval()
            if exponent % 2 == 0:
                return _power(abs(self), exponent)
            if self.low >= 0:
                return _power(self, exponent)
            low, high = (_odd_power(x, exponent) for x in (self.low, self.high))
            return low.union(high)
        return Interval() if self.low < 0 or (self.low == 0 and exponent < 0) else _power(self, exponent)

    def __abs__(self) -> Interval:
        return Interval(self.smallest, self.largest)

    def maximum(self, other: Operand) -> Interval:
        """max(x, y)."""
        right = _operand(other)
        return Interval(max(self.low, right.low), max(self.high, right.high))

    def minimum(self, other: Operand) -> Interval:
        """min(x, y)."""
        right = _operand(other)
        return Interval(min(self.low, right.low), min(self.high, right.high))

    def sqrt(self) -> Interval:
        """The square root of x >= 0."""
        if self.low < 0:
            return Interval()
        return Interval(
            directed_rounding.square_root(self.low, up=False), directed_rounding.square_root(self.high, up=True)
        )

    def exp(self) -> Interval:
        """e^x."""
        return _rising(math.exp, self, 0.0)

    def expm1(self) -> Interval:
        """e^x - 1, without cancellation at 0."""
        return _rising(math.expm1, self, -1.0)

    def log(self) -> Interval:
        """log x for x > 0; -inf stands for the limit at 0."""
        return _logarithm(math.log, self, 0.0)

    def log1p(self) -> Interval:
        """log(1 + x) for x > -1; -inf stands for the limit at -1."""
        return _logarithm(math.log1p, self, -1.0)

    def tanh(self) -> Interval:
        """The hyperbolic tangent."""
        return _rising(math.tanh, self, -1.0, 1.0)

    def sigmoid(self) -> Interval:
        """1 / (1 + e^-x)."""
        return 1.0 / (1.0 + (-self).exp())

    def softplus(self) -> Interval:
        """log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which rises."""
        low, high = (Interval.point(x) for x in (self.low, self.high))
        return Interval(_softplus(low).low, _softplus(high).high)

    def sinh(self) -> Interval:
        """The hyperbolic sine, an odd function."""
        return Interval(_sinh(self.low).low, _sinh(self.high).high)

    def cosh(self) -> Interval:
        """The hyperbolic cosine."""
        return _rising(math.cosh, abs(self), 1.0)

    def asinh(self) -> Interval:
        """The inverse of sinh."""
        return _rising(math.asinh, self)

    def atan(self) -> Interval:
        """The arc tangent."""
        return _rising(math.atan, self, -HALF_PI.high, HALF_PI.high)

    def erf(self) -> Interval:
        """The error function."""
        return _rising(math.erf, self, -1.0, 1.0)

    def erfc(self) -> Interval:
        """1 - erf(x), without cancellation for large x; it falls."""
        return _rising(lambda x: math.erfc(-x), -self, 0.0, 2.0)

    def sin(self) -> Interval:
        """The sine."""
        return _wave(math.sin, self, 0.5)

    def cos(self) -> Interval:
        """The cosine."""
        return _wave(math.cos, self, 0.0)

    def tan(self) -> Interval:
        """The tangent, where no pole is near."""
        if not self.largest <= _LARGEST_ANGLE or _has_multiple(self, 0.5, math.pi):
            return Interval()
        return _rising(math.tan, self)


Operand: TypeAlias = "Interval | float"


def _operand(value: Operand) -> Interval:
    return value if isinstance(value, Interval) else Interval.point(float(value))


def _checked(low: float, high: float) -> Interval:
    return Interval() if math.isnan(low) or math.isnan(high) else Interval(low, high)


def _corners(operation: Callable[..., float], left: Interval, right: Interval) -> Interval:
    """A product or a quotient, which is monotone in each operand: the extremes are among the corners.

    Rounding to nearest keeps their order, so that only corners that share the extreme nearest float are rounded exactly.
    """
    pairs = [(a, b) for a in {left.low, left.high} for b in {right.low, right.high}]
    nearest = [operation(a, b) for a, b in pairs]
    least, most = min(nearest), max(nearest)
    return Interval(
        min(operation(a, b, up=False) for (a, b), x in zip(pairs, nearest, strict=True) if x == least),
        max(operation(a, b, up=True) for (a, b), x in zip(pairs, nearest, strict=True) if x == most),
    )


def _rising(
    function: Callable[[float], float], x: Interval, least: float = -math.inf, most: float = math.inf
) -> Interval:
    """A non-decreasing function of the C library with values between two floats."""
    low = directed_rounding.library(function, x.low, up=False)
    high = directed_rounding.library(function, x.high, up=True)
    return _checked(min(most, max(least, low)), max(least, min(most, high)))


def _logarithm(function: Callable[[float], float], x: Interval, pole: float) -> Interval:
    if x.low < pole:
        return Interval()
    low = -math.inf if x.low == pole else directed_rounding.library(function, x.low, up=False)
    return Interval(low, -math.inf if x.high == pole else directed_rounding.library(function, x.high, up=True))


def _power(x: Interval, exponent: float) -> Interval:
    """x^p of x >= 0, or of x > 0 where p is negative."""
    if exponent == 2:
        return _corners(directed_rounding.multiply, x, x)
    if exponent == 0.5:
        return x.sqrt()
    if exponent in (-0.5, -1.0):
        return 1.0 / (x.sqrt() if exponent == -0.5 else x)
    ends = (x.low, x.high) if exponent > 0 else (x.high, x.low)
    low, high = (
        directed_rounding.library(math.pow, end, exponent, up=up)
        if end and math.isfinite(end)
        else _limit(end, exponent)
        for end, up in zip(ends, (False, True), strict=True)
    )
    return Interval(max(0.0, low), high)


def _limit(end: float, exponent: float) -> float:
    """0^p and inf^p."""
    return math.inf if (end == math.inf) == (exponent > 0) else 0.0


def _odd_power(x: float, exponent: float) -> Interval:
    """The odd power of one number, which is rising on either side of 0 or falling on either side."""
    positive = _power(Interval.point(abs(x)), exponent)
    return positive if x >= 0 else -positive


def _softplus(x: Interval) -> Interval:
    return x.maximum(0.0) + (-abs(x)).exp().log1p()


def _sinh(x: float) -> Interval:
    positive = _rising(math.sinh, Interval.point(abs(x)), 0.0)
    return positive if x >= 0 else -positive


# Beyond that the position of an angle within its period is not looked for.
_LARGEST_ANGLE = 2.0**20


def _wave(function: Callable[[float], float], x: Interval, crest: float) -> Interval:
    """sin and cos, whose crests are at (2 k + crest) pi and whose troughs are at (2 k + 1 + crest) pi."""
    if not x.largest <= _LARGEST_ANGLE:
        return Interval(-1.0, 1.0)
    ends = [directed_rounding.library(function, end, up=up) for end in (x.low, x.high) for up in (False, True)]
    low = -1.0 if _has_multiple(x, (crest + 1) / 2, 2 * math.pi) else max(-1.0, min(ends))
    return Interval(low, 1.0 if _has_multiple(x, crest / 2, 2 * math.pi) else min(1.0, max(ends)))


def _has_multiple(x: Interval, shift: float, period: float) -> bool:
    """Whether (k + shift) period may lie in the interval, for an integer k; angles this small are right to 1e-9 periods."""
    return math.floor(x.high / period - shift + 1e-9) >= math.ceil(x.low / period - shift - 1e-9)


# floats next to the constants, on either side: float(pi) = 3.14159265358979311600 < pi = 3.14159265358979323846
PI = Interval(math.pi, math.nextafter(math.pi, 4.0))
HALF_PI = Interval(PI.low / 2, PI.high / 2)
