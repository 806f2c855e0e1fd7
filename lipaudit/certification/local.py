"""Radii from constants on balls: the largest r found with L(r) r <= margin, L(r) a constant on the ball of radius r around the image.

A constant on a ball says nothing of inputs outside, so that it certifies min(r, margin / L(r)). L grows with r: where margin / L(r) is
less than r, the largest radius that can be had this way lies between the two, and the search goes on there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lipaudit.certification.constants import LocalConstants, PairConstants, ordered
from lipaudit.certification.margins import Margins
from lipaudit.network.domain import ball

# a first try that gains less than this part is the last one: on larger balls constants are larger
_GAIN = 1e-3
_WIDEST = 2.0**6  # of an image without a known limit, relative to what is certified
_NARROW = 2.0**-10


@dataclass(frozen=True)
class LocalRadius:
    """A certified radius, the class that limits it, and the constant of the pair that it rests on."""

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
    best = LocalRadius(0.0, None, None)
    size = float(image.norm()) or 1.0
    high = limit if limit is not None else (_WIDEST * known if known else size)
    low = known or high * _NARROW
    radius = low
    for step in range(steps):
        found = _certified(constants, image, margins, radius)
        if found.radius > best.radius:
            best = found
        if found.radius < radius:  # L(r) r is above the margin
            high = radius
            low = max(low if low < radius else 0.0, found.radius)
        else:
            low = radius
        if step == 0 and known and found.constant is not None and _reach(found, margins) <= known * (1 + _GAIN):
            break
        if not high > low * (1 + _GAIN):
            break
        radius = math.sqrt(low * high) if low > 0 else high / 8
    return best


def _reach(found: LocalRadius, margins: Margins) -> float:
    """margin / L of the pair that limits a radius, however large the ball is that it was found on."""
    if not found.constant or found.limited_by is None:
        return math.inf
    return margins.sure(found.limited_by) / found.constant


def _certified(constants: PairConstants, image: torch.Tensor, margins: Margins, radius: float) -> LocalRadius:
    """min(r, min_j margin_j / L_j(r)) on the ball of radius r."""
    (name,) = constants.classifier.simple.inputs
    local = constants.on(ball({name: image}, radius))
    return least_radius(_ratios(local, margins, radius), radius)


def _ratios(local: LocalConstants, margins: Margins, radius: float) -> Sequence[tuple[int, float, float]]:
    assert margins.decision is not None
    ratios = []
    for j in margins.others:
        margin = margins.sure(j)
        bound = local.find(ordered(margins.decision, j), margin / radius)
        ratios.append((j, quotient(margin, bound.upper), bound.upper))
    return ratios


def least_radius(ratios: Sequence[tuple[int, float, float]], most: float) -> LocalRadius:
    """The least of ``most`` and the ratios margin / L, with the class and the constant of the least ratio."""
    j, ratio, constant = min(ratios, key=lambda entry: entry[1])
    return LocalRadius(min(most, ratio), j, constant)


def quotient(margin: float, constant: float) -> float:
    """margin / L rounded down: 0 for an infinite constant, the largest float for a constant of 0."""
    if margin <= 0 or math.isinf(constant):
        return 0.0
    return min(margin / constant * (1 - 2.0**-50), _LARGEST) if constant > 0 else _LARGEST


_LARGEST = 1e300
