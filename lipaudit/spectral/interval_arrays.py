"""Interval arithmetic for many intervals at once, rounded outwards.

An array of n intervals is a float64 tensor of shape (2, n): lower ends, upper ends. Where a function is not defined on all of an
interval the result is (-inf, inf). Sums, products and quotients of floats are rounded once by the machine; :data:`_ROUNDING` covers
that, :data:`_LIBRARY` the error of functions of torch, which its vector libraries keep below 4 units in the last place.
:mod:`lipaudit.spectral.interval` is the same for single intervals, with the last digit right, and the reference in the tests.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from lipaudit.spectral.interval import PI

_ROUNDING = 2.0**-52
_LIBRARY = 2.0**-48
_TINY = 1e-320  # what a product may lose to underflow
# Beyond that the position of an angle within its period is not looked for.
_LARGEST_ANGLE = 2.0**20


def of(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """Intervals from their ends."""
    return torch.stack((low, high))


def _outward(low: torch.Tensor, high: torch.Tensor, relative: float, tiny: float = _TINY) -> torch.Tensor:
    """Ends moved apart by a part of their size; NaN becomes no knowledge at all."""
    ends = torch.stack((torch.nan_to_num(low, nan=-math.inf, posinf=math.inf, neginf=-math.inf),
                        torch.nan_to_num(high, nan=math.inf, posinf=math.inf, neginf=-math.inf)))  # fmt: skip
    error = ends.abs() * relative + tiny
    # an overflow of a lower end to +inf, or of an upper one to -inf, claims nothing
    low_end = (ends[0] - error[0]).nan_to_num(nan=-math.inf, posinf=_MAX, neginf=-math.inf)
    high_end = (ends[1] + error[1]).nan_to_num(nan=math.inf, posinf=math.inf, neginf=-_MAX)
    return torch.stack((low_end, high_end))


_MAX = torch.finfo(torch.float64).max


def linear(constant: tuple[float, float], terms: list[tuple[tuple[float, float], torch.Tensor]]) -> torch.Tensor:
    """constant + sum_i c_i X_i for numbers between two floats."""
    total = torch.tensor(constant, dtype=torch.float64)[:, None]
    for c, x in terms:
        part = x if c == (1.0, 1.0) else times(torch.tensor(c, dtype=torch.float64)[:, None], x)
        added = total + part
        total = _outward(added[0], added[1], _ROUNDING, 0.0)
    return total


def times(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """X Y; 0 times infinity is 0, because an infinite end stands for no bound."""
    corners = a[:, None] * b[None]
    underflow = ((corners.abs() < 1e-290) & (a[:, None] != 0) & (b[None] != 0)).flatten(0, 1).any(0)
    corners = torch.where(corners.isnan(), 0.0, corners).flatten(0, 1)
    bounds = _outward(corners.amin(0), corners.amax(0), _ROUNDING, 0.0)
    if bool(underflow.any()):
        bounds = bounds + _TINY * torch.stack((-underflow.to(a.dtype), underflow.to(a.dtype)))
    same = (a[0] >= 0) & (b[0] >= 0)
    return torch.stack((torch.where(same, bounds[0].clamp_min(0.0), bounds[0]), bounds[1]))


def power(x: torch.Tensor, exponent: Fraction) -> torch.Tensor:
    """X^p for a fixed p: of any x for a positive integer p, of x != 0 for a negative one, of x >= 0 otherwise."""
    if exponent == 1:
        return x
    p = float(exponent)
    low, high = x[0], x[1]
    if exponent.denominator == 1 and exponent.numerator % 2 == 0:
        crosses = (low <= 0) & (high >= 0)
        low, high = (
            torch.where(crosses, 0.0, torch.minimum(low.abs(), high.abs())),
            torch.maximum(low.abs(), high.abs()),
        )
        return _positive_power(low, high, p, torch.zeros_like(low, dtype=torch.bool))
    if exponent.denominator == 1:
        if exponent > 0:
            signed = torch.sign(x) * x.abs() ** p
            return _outward(signed[0], signed[1], _LIBRARY * max(1.0, p))
        negative = high < 0
        flipped_low, flipped_high = torch.where(negative, -high, low), torch.where(negative, -low, high)
        bounds = _positive_power(flipped_low, flipped_high, p, flipped_low < 0)
        return torch.stack((torch.where(negative, -bounds[1], bounds[0]), torch.where(negative, -bounds[0], bounds[1])))
    inexact = Fraction(p) != exponent
    return _positive_power(low, high, p, low < 0, inexact)


def _positive_power(
    low: torch.Tensor, high: torch.Tensor, p: float, undefined: torch.Tensor, inexact: bool = False
) -> torch.Tensor:
    if p < 0:
        low, high = high, low
    low, high = low.clamp_min(0.0), high.clamp_min(0.0)
    error = _LIBRARY * max(1.0, abs(p))
    if p == 0.5:
        bounds = _outward(low.sqrt(), high.sqrt(), _ROUNDING)
    elif p == 2:
        bounds = _outward(low * low, high * high, _ROUNDING)
    elif p == -1:
        bounds = _outward(1 / low, 1 / high, _ROUNDING)
    else:
        bounds = _outward(low**p, high**p, error)
        if inexact:  # x^(p (1 + e)) = x^p exp(p e log x), |log x| < 750
            bounds = _outward(bounds[0], bounds[1], abs(p) * 2.0**-42)
    return torch.stack(
        (torch.where(undefined, -math.inf, bounds[0].clamp_min(0.0)), torch.where(undefined, math.inf, bounds[1]))
    )


def exp(x: torch.Tensor) -> torch.Tensor:
    """e^X."""
    return _outward(x[0].exp(), x[1].exp(), _LIBRARY).clamp_min(0.0)


def log(x: torch.Tensor) -> torch.Tensor:
    """log X for X >= 0."""
    bounds = _outward(x[0].clamp_min(0.0).log(), x[1].clamp_min(0.0).log(), _LIBRARY)
    return _where_defined(x[0] >= 0, bounds)


def _where_defined(defined: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    return torch.stack((torch.where(defined, bounds[0], -math.inf), torch.where(defined, bounds[1], math.inf)))


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    """1 / (1 + e^-X), with small values to their last digits."""
    small = (-x.abs()).exp()
    values = torch.where(x >= 0, 1.0, small) / (1 + small)
    return _outward(values[0], values[1], _LIBRARY).clamp(0.0, 1.0)


def softplus(x: torch.Tensor) -> torch.Tensor:
    """log(1 + e^X)."""
    values = x.clamp_min(0.0) + torch.log1p((-x.abs()).exp())
    return _outward(values[0], values[1], _LIBRARY).clamp_min(0.0)


def erf(x: torch.Tensor) -> torch.Tensor:
    """The error function."""
    return _outward(torch.erf(x[0]), torch.erf(x[1]), _LIBRARY).clamp(-1.0, 1.0)


def atan(x: torch.Tensor) -> torch.Tensor:
    """The arc tangent."""
    return _outward(torch.atan(x[0]), torch.atan(x[1]), _LIBRARY)


def asinh(x: torch.Tensor) -> torch.Tensor:
    """log(x + sqrt(x^2 + 1)), an odd function; of |x|, because that does not cancel."""
    size = x.abs()
    values = torch.sign(x) * torch.where(size < 1e150, torch.asinh(size), torch.log(size) + math.log(2))
    return _outward(values[0], values[1], _LIBRARY)


def sin(x: torch.Tensor) -> torch.Tensor:
    """The sine."""
    return _wave(x, 0.5)


def cos(x: torch.Tensor) -> torch.Tensor:
    """The cosine."""
    return _wave(x, 0.0)


def _wave(x: torch.Tensor, crest: float) -> torch.Tensor:
    values = torch.sin(x) if crest else torch.cos(x)
    # absolute margin: near a zero crossing the argument's reduction counts
    bounds = _outward(values.amin(0), values.amax(0), _LIBRARY, 2.0**-50)
    wide = x.abs().amax(0) > _LARGEST_ANGLE
    period = 2 * PI.low
    top = wide | _has_multiple(x, crest / 2, period)
    bottom = wide | _has_multiple(x, (crest + 1) / 2, period)
    return torch.stack(
        (torch.where(bottom, -1.0, bounds[0].clamp_min(-1.0)), torch.where(top, 1.0, bounds[1].clamp_max(1.0)))
    )


def _has_multiple(x: torch.Tensor, shift: float, period: float) -> torch.Tensor:
    """Whether (k + shift) period may lie in the interval, for an integer k; angles this small are right to 1e-9 periods."""
    return torch.floor(x[1] / period - shift + 1e-9) >= torch.ceil(x[0] / period - shift - 1e-9)


def absolute(x: torch.Tensor) -> torch.Tensor:
    """|X|."""
    size = x.abs()
    return torch.stack((torch.where((x[0] <= 0) & (x[1] >= 0), 0.0, size.amin(0)), size.amax(0)))


def hull(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The smallest intervals that hold both."""
    return torch.stack((torch.minimum(a[0], b[0]), torch.maximum(a[1], b[1])))
