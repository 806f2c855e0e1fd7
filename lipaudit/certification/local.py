"""Radii from bounds on balls around the image: the largest r found with K(r) r <= margin.

On the ball of radius r every g = f_i - f_j has a Lipschitz constant L, and falls at most by k ||x - c|| + e within ||x - c|| of the image
(:class:`lipaudit.certification.constants.BallBound`). Neither says anything of inputs outside the ball, so that it certifies

    min(r, max(margin / L, (margin - e) / k)),

which is r itself where K(r) r <= margin with K(r) = min(L, k + e / r). K grows with r, as a rule, so that the largest radius to be had is
where margin / K(r) falls below r. It is searched by bisection and interpolation of the logarithms; every ball that is tried certifies what
it certifies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lipaudit.certification.constants import LARGEST, PairConstants, quotient
from lipaudit.certification.margins import Margins

_GAIN = 1e-2  # radii that differ by less than this part are not told apart
_WIDEST = 2.0**10  # of an image without a known limit, relative to what is certified
_NARROW = 2.0**-6  # the first ball, relative to the largest radius in question
# how far off the ends of an interval of logarithms a next radius is kept: a part of it, and at most
_MARGIN, _NEAR = 0.1, 0.01
_FAR = 700.0  # the logarithm of a quotient that has no number
# how far a next radius is below one that fails, and from where on an excess says no more than its sign; both as logarithms
_DROP, _STEEP = math.log(32.0), 4.0


@dataclass(frozen=True)
class LocalRadius:
    """A certified radius, the class that limits it, and the bound of the slope of the pair that it rests on."""

    radius: float
    limited_by: int | None
    constant: float | None


def local_radius(
    constants: PairConstants, image: torch.Tensor, margins: Margins, known: float, limit: float | None, steps: int
) -> LocalRadius:
    """The largest radius that ``steps`` balls around an image certify.

    Args:
        constants: of the pairs of classes.
        image: the centre, (1, ...).
        margins: at the centre.
        known: a radius that is certified already; balls are at least as large, where it is above 0.
        limit: a radius at which the decision changes, so that none is certified beyond it; None where none is known.
        steps: how many balls are tried.
    """
    size = float(image.norm()) or 1.0
    high = limit if limit is not None else (_WIDEST * known if known else size)
    search = _Search(max(known, high * _NARROW), known, high)
    best = LocalRadius(0.0, None, None)
    for _ in range(steps):
        radius = search.radius
        found, reach = _certified(constants, image, margins, radius)
        if found.radius > best.radius:
            best = found
        if not search.goes_on(reach, found.radius):
            break
    return best


class _Search:
    """Where margin / K(r) crosses r, between two radii."""

    def __init__(self, first: float, low: float, high: float) -> None:
        self.radius = first
        self._low, self._high = low, high
        # log r and log of (margin / K) / r, of the last two radii; on both sides of 0 as soon as both are known
        self._points: list[tuple[float, float]] = []

    def goes_on(self, reach: float, certified: float) -> bool:
        """Choose the next radius, given margin / K at the last one and what it certified; False where nothing more can be gained."""
        radius = self.radius
        excess = math.log(reach / radius) if 0 < reach < LARGEST else math.copysign(_FAR, reach - radius)
        if excess >= 0:
            self._low = max(self._low, radius)
            self._high = min(self._high, max(reach, radius))  # on a larger ball the slope is not smaller
        else:
            self._high = min(self._high, radius)
            self._low = max(self._low, certified)
        opposite = [point for point in self._points if (point[1] >= 0) != (excess >= 0)]
        self._points = [*(opposite or self._points)[-1:], (math.log(radius), max(-_STEEP, min(_STEEP, excess)))]
        if not self._high > self._low * (1 + _GAIN):
            return False
        self.radius = self._next(radius, reach)
        return True

    def _next(self, radius: float, reach: float) -> float:
        """By the line through two points, else half way to what is reached, or less far down; kept off the ends."""
        guess = 0.5 * (math.log(radius) + math.log(min(max(reach, self._low, 1e-300), self._high)))
        guess = max(guess, math.log(radius) - _DROP)  # where bounds explode, the crossing is not far below
        if len(self._points) == 2:
            (x, up), (y, down) = self._points
            if (up - down) * (y - x) > 0:  # the excess falls
                guess = x + (y - x) * up / (up - down)
        if self._low <= 0:
            return math.exp(min(guess, math.log(self._high) - 1))
        low, high = math.log(self._low), math.log(self._high)
        kept = min(_MARGIN * (high - low), _NEAR)
        return math.exp(min(max(guess, low + kept), high - kept))


def _certified(
    constants: PairConstants, image: torch.Tensor, margins: Margins, radius: float
) -> tuple[LocalRadius, float]:
    """What the ball of radius r certifies, and min_j margin_j / K_j with K_j the bound of the slope of f_i - f_j up to r."""
    assert margins.decision is not None
    bounds = constants.around(image, radius, margins.decision)
    ratios = [(j, bound.reach(margins.sure(j)), bound) for j, bound in bounds.items()]
    j, reach, bound = min(ratios, key=lambda entry: entry[1])
    certified = min(radius, reach)
    steepest = min(quotient(min(margins.sure(j), bound.least), bound.slope(radius)) for j, bound in bounds.items())
    return LocalRadius(certified, j, bound.slope(certified)), steepest


def least_radius(ratios: Sequence[tuple[int, float, float]], most: float) -> LocalRadius:
    """The least of ``most`` and the ratios margin / L, with the class and the constant of the least ratio."""
    j, ratio, constant = min(ratios, key=lambda entry: entry[1])
    return LocalRadius(min(most, ratio), j, constant)
