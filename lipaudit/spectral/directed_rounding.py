"""Arithmetic of float64 with directed rounding: the largest float below, or the smallest above, the exact result.

Sums, products, quotients and square roots are rounded correctly: the error of the nearest float is found exactly (TwoSum of
Knuth for a sum, integers for the others), so that a result that is a float itself is kept. Functions of the C library are
accurate to a few units in the last place only; :func:`library` takes as many steps. An infinite operand stands for
"without bound", so that 0 times it is 0. Results that overflow are the largest float or infinity, whichever is safe.

Source: Knuth, TAOCP 2, section 4.2.2 (TwoSum); Zimmermann, "Accuracy of Mathematical Functions in Single, Double, Extended Double and
Quadruple Precision" (2021), a search for the largest errors of the C libraries in use: no proof, hence the generous allowance.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from lipaudit.spectral.bracket import round_down, round_up

# The functions of the C library are taken to be accurate to 6 units in the last place; twice as many steps, because floats below a
# power of two are twice as dense.
LIBRARY_ULPS = 12
MAX = sys.float_info.max
# C11, annex F.10: the values at 0 are exact, as are log 1 and the powers of 1
_EXACT_AT_ZERO = {
    math.exp, math.expm1, math.log1p, math.sinh, math.cosh, math.tanh, math.asinh, math.atan, math.sin, math.cos, math.tan, math.erf
}  # fmt: skip


def add(a: float, b: float, *, up: bool) -> float:
    """a + b, rounded up or down.

    >>> add(1.0, 2.0**-80, up=True), add(1.0, 2.0**-80, up=False), add(1.0, 2.0, up=True)
    (1.0000000000000002, 1.0, 3.0)
    """
    total = a + b
    if math.isinf(total):
        return _overflowed(total, math.isinf(a) or math.isinf(b), up)
    virtual = total - a
    return _next(total, (a - (total - virtual)) + (b - virtual), up)


def multiply(a: float, b: float, *, up: bool | None = None) -> float:
    """a b, rounded up, down or, by default, to nearest; 0 times infinity is 0.

    >>> multiply(0.1, 0.1, up=False) < multiply(0.1, 0.1, up=True), multiply(0.5, 3.0, up=True)
    (True, 1.5)
    """
    if a == 0 or b == 0:
        return 0.0
    product = a * b
    if up is None:
        return product
    if math.isinf(product):
        return _overflowed(product, math.isinf(a) or math.isinf(b), up)
    (n, d), (m, e), (p, q) = a.as_integer_ratio(), b.as_integer_ratio(), product.as_integer_ratio()
    return _next(product, n * m * q - p * d * e, up)


def divide(a: float, b: float, *, up: bool | None = None) -> float:
    """a / b for b != 0, rounded up, down or, by default, to nearest; anything by infinity is 0, the limit of finite numbers.

    >>> divide(1.0, 3.0, up=False) < divide(1.0, 3.0, up=True), divide(1.0, 4.0, up=True)
    (True, 0.25)
    """
    if a == 0 or math.isinf(b):
        return 0.0
    if math.isinf(a):
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    quotient = a / b
    if up is None:
        return quotient
    if math.isinf(quotient):
        return _overflowed(quotient, False, up)
    (n, d), (m, e), (p, q) = a.as_integer_ratio(), b.as_integer_ratio(), quotient.as_integer_ratio()
    return _next(quotient, (n * e * q - p * d * m) * (1 if m > 0 else -1), up)


def square_root(x: float, *, up: bool) -> float:
    """sqrt(x) for x >= 0, rounded up or down.

    >>> square_root(2.0, up=False) < square_root(2.0, up=True), square_root(9.0, up=True)
    (True, 3.0)
    """
    root = math.sqrt(x)
    if x == 0 or math.isinf(x):
        return root
    (n, d), (p, q) = x.as_integer_ratio(), root.as_integer_ratio()
    return _next(root, n * q * q - p * p * d, up)


def library(function: Callable[..., float], *arguments: float, up: bool) -> float:
    """A function of the C library, rounded up or down by more than its error.

    >>> library(math.exp, 1.0, up=False) < library(math.exp, 1.0, up=True)
    True
    >>> library(math.exp, 1000.0, up=False) < library(math.exp, 1000.0, up=True) == math.inf
    True
    """
    try:
        value = function(*arguments)
    except OverflowError:  # of a positive result
        value = math.inf
    if (arguments == (0.0,) and function in _EXACT_AT_ZERO) or (arguments[0] == 1 and function in (math.log, math.pow)):
        return value
    if math.isinf(value):
        return _overflowed(value, any(math.isinf(x) for x in arguments), up)
    return round_up(value, LIBRARY_ULPS) if up else round_down(value, LIBRARY_ULPS)


def _next(nearest: float, error: float, up: bool) -> float:
    """The float itself where it is on the right side of the exact result ``nearest + error``, else the next one."""
    if up:
        return math.nextafter(nearest, math.inf) if error > 0 else nearest
    return math.nextafter(nearest, -math.inf) if error < 0 else nearest


def _overflowed(value: float, infinite: bool, up: bool) -> float:
    """An infinite result as it is where an operand is infinite; the largest float where that is the safe end."""
    return value if infinite or (value > 0) == up else math.copysign(MAX, value)
