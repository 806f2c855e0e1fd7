"""Supremum of |slope| of phi(x) = c_0 + c_1 x + c_2 x h(q(x)) + c_3 h(q(x)), the normal form of written-out activations.

**Smooth h, q(x) = t = k x + d.** phi' = c_1 + c_2 m(t) + w h'(t) with m(t) = (t h(t))' = h + t h' and w = k c_3 - d c_2.
With m in [m_low, m_high] and |h'| <= H, the supremum is at most max |c_1 + c_2 m| over both ends, plus |w| H; it is
attained where w = 0, whatever k is. Odd h have m_low = -m_high; sigmoid(-t) = 1 - sigmoid(t) gives m_low = 1 - m_high.

**Clamp to [l, u], q(x) = t = k x + d.** phi is linear outside l <= t <= u with slopes c_1 + c_2 l and c_1 + c_2 u, and
phi' = c_1 + c_2 (2 t - d) + k c_3 is linear inside: the supremum is the largest of four values.

**tanh, q(x) = k x + p x^3.** With t = k x, q = t + g t^3, g = p / k^3: phi' = c_1 + c_2 m_g(t), m_g(t) = tanh q +
t q'(t) (1 - tanh^2 q), which is odd in t. GELU's approximation has k = sqrt(2/pi), p = 0.044715 k and hence g_0 =
0.044715 pi / 2; stored constants are rounded. |d m_g / d g| = (1 - tanh^2 q) |4 t^3 - 2 t^3 (t + 3 g t^3) tanh q| < 0.81
for all t and all g within 1 % of g_0, so that sup m_g differs from sup m_{g_0} by less than 0.81 |g - g_0|. Only g
within 0.1 % of g_0 are accepted, which admits constants typed with four digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from lipaudit.graph.functions.normal_form import Expression, Inner
from lipaudit.spectral.bracket import Bracket, log_down, log_up


@dataclass(frozen=True)
class _Range:
    """m_low, m_high and H of a smooth function: each the float nearest to the exact value, which lies within one ulp."""

    low: float
    high: float
    steepest: float


_RANGES = {
    "sigmoid": _Range(-0.09983932012886691, 1.099839320128867, 0.25),  # at t = -+2.3993573
    "tanh": _Range(-1.1996786402577337, 1.1996786402577337, 1.0),  # at t = -+1.1996786
    "erf": _Range(-1.2578082903703096, 1.2578082903703096, 1.1283791670955126),  # at t = -+1: erf(1) + 2 / (e sqrt(pi))
    "tanh_softplus": _Range(
        -0.11252612238946255, 1.088498161251728, 0.3218699976371768
    ),  # at t = -2.2563764, 1.4905712
}
_CUBIC = 1.2579861373175435  # sup of m_g for g = g_0, at t = 1.1318024
_CUBIC_G = Fraction(0.044715) * Fraction(math.pi) / 2  # g_0 to within 1e-17
_CUBIC_SLOPE = Fraction(81, 100)
_CUBIC_TOLERANCE = Fraction(1, 1000)


def slope_bound(phi: Expression) -> Bracket | None:
    """The bracket of sup |phi'|, None where phi is not of the form above or its slope has no bound.

    >>> from lipaudit.graph.functions.normal_form import apply
    >>> x = Expression.variable()
    >>> bound = slope_bound(x * apply("sigmoid", x))
    >>> 1.0998393 < bound.lower < bound.upper < 1.0998394
    True
    """
    c1, c2, c3 = phi.coefficient(1, 0), phi.coefficient(1, 1), phi.coefficient(0, 1)
    inner = phi.inner
    if inner is None or set(phi.terms) - {(0, 0), (1, 0), (0, 1), (1, 1)} or c2 == 0:
        return None
    d, k, square, cube = inner.argument
    if k == 0 or square != 0:
        return None
    if cube != 0:
        return _cubic(inner, c1, c2) if c3 == 0 and d == 0 else None
    if inner.function == "clamp":
        return _clamp(inner, c1, c2, c3)
    if inner.function not in _RANGES:
        return None
    m = _RANGES[inner.function]
    excess = abs(k * c3 - d * c2) * Fraction(math.nextafter(m.steepest, math.inf))
    outer = _largest(c1, c2, math.nextafter(m.low, -math.inf), math.nextafter(m.high, math.inf))
    within = _largest(c1, c2, math.nextafter(m.low, math.inf), math.nextafter(m.high, -math.inf))
    return _bracket(within - excess, outer + excess)


def _largest(c1: Fraction, c2: Fraction, *m: float | Fraction) -> Fraction:
    return max(abs(c1 + c2 * Fraction(value)) for value in m)


def _clamp(inner: Inner, c1: Fraction, c2: Fraction, c3: Fraction) -> Bracket | None:
    d, k = inner.argument[:2]
    if math.isinf(inner.low) or math.isinf(inner.high):
        return None  # quadratic growth
    ends = [Fraction(inner.low), Fraction(inner.high)]
    slopes = [c1 + c2 * t for t in ends] + [c1 + c2 * (2 * t - d) + k * c3 for t in ends]
    exact = max(abs(slope) for slope in slopes)
    return _bracket(exact, exact)


def _cubic(inner: Inner, c1: Fraction, c2: Fraction) -> Bracket | None:
    k, cube = inner.argument[1], inner.argument[3]
    distance = abs(cube / k**3 - _CUBIC_G)
    if inner.function != "tanh" or distance > _CUBIC_TOLERANCE * _CUBIC_G:
        return None
    # 2^-50 covers the rounding of both constants of this file
    margin = _CUBIC_SLOPE * distance + Fraction(1, 2**50)
    top, bottom = Fraction(_CUBIC) + margin, Fraction(_CUBIC) - margin
    return _bracket(_largest(c1, c2, bottom, -bottom), _largest(c1, c2, top, -top))


def _bracket(lower: Fraction, upper: Fraction) -> Bracket:
    if lower == upper == Fraction(float(upper)):
        return Bracket.exact(float(upper))
    below = max(0.0, math.nextafter(float(lower), -math.inf))
    return Bracket(log_down(below), log_up(math.nextafter(float(upper), math.inf)))
