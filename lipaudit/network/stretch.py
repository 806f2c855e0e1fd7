"""What is measured between two inputs: ||f(x) - f(y)|| / ||x - y|| in the norm of the function, with rounding subtracted.

The inputs are numbers of the network's own input precision where the domain allows it, else of float64, so that they are given
exactly; the function is the captured graph with the weights that the stored numbers define, evaluated in float64. How far rounding
moves its outputs is found by moving every value inside by one rounding (:mod:`lipaudit.graph.capture.rounding_noise`), and 64 times
that is subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from lipaudit.graph.capture.rounding_noise import FACTOR, perturbations, unit_of
from lipaudit.network.domain import Domain
from lipaudit.network.function import Function, Point, norm

# Distances of two points, relative to the norm of one.
DISTANCES = (1e-1, 1e-2, 1e-3, 1e-4)
# What norms and differences of two points may round, generously.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Pair:
    """Two inputs by name, their distance, and a number that the distance of their outputs is at least."""

    x: Mapping[str, torch.Tensor]
    y: Mapping[str, torch.Tensor]
    distance: float
    change: float

    @property
    def quotient(self) -> float:
        """A lower bound of the network's Lipschitz constant."""
        return self.change / (self.distance * (1 + _ROUNDING)) if self.distance else 0.0


def measure(
    function: Function,
    x: Point,
    direction: Point,
    domain: Domain,
    distances: Sequence[float] = DISTANCES,
    narrow: bool = True,
) -> Pair:
    """The largest quotient between ``x`` and points along ``direction``, which is a unit vector; all of them in the domain.

    ``function`` evaluates in float64. ``distances`` are relative to the norm of ``x``. The second point has numbers of the inputs' own
    precision where it may be ``narrow``, and of float64 where points are too close to one another for that.
    """
    start = placed(function, domain, x)
    here = function(start)
    noise = _noise(function, start, here)
    best, end = -math.inf, start
    for step in _steps(function.size(start), distances):
        there = placed(function, domain, [a + step * d.double() for a, d in zip(start, direction, strict=True)], narrow)
        distance = function.size(_difference(start, there))
        change = function.size(_difference(here, function(there)))
        if distance and math.isfinite(change) and (change - 2 * noise) / distance > best:
            best, end = (change - 2 * noise) / distance, there
    changed = function(end)
    change = function.size(_difference(here, changed)) * (1 - _ROUNDING) - noise - _noise(function, end, changed)
    change = max(0.0, change) if math.isfinite(change) else 0.0
    return Pair(_named(function, start), _named(function, end), function.size(_difference(start, end)), change)


def _named(function: Function, x: Point) -> dict[str, torch.Tensor]:
    """A point as the network's inputs, in their own dtypes where those hold its numbers."""
    named = dict(function.given)
    for name, t in zip(function.names, x, strict=True):
        narrow = t.to(named[name].dtype)
        named[name] = narrow if torch.equal(narrow.double(), t) else t
    return named


def _steps(size: float, distances: Sequence[float]) -> Iterator[float]:
    for distance in distances:
        yield distance * (size or 1.0)
        yield -distance * (size or 1.0)


def _difference(first: Point, second: Point) -> Point:
    return [b.double() - a.double() for a, b in zip(first, second, strict=True)]


def _noise(function: Function, x: Point, value: Point) -> float:
    """How far rounding moves the outputs at ``x``."""
    unit = unit_of(function.graph)
    changes = perturbations([function.place], lambda _: unit)
    moved = max(function.size(_difference(value, function(x, change))) for change in changes)
    return FACTOR * (moved + unit * function.size(value))


def placed(function: Function, domain: Domain, x: Point, narrow: bool = True) -> Point:
    """The point of the domain nearest to ``x``, in float64.

    If ``narrow``, it has numbers of the inputs' own dtypes where those lie in the domain.
    """
    named = {name: t.double() for name, t in zip(function.names, x, strict=True)}
    near = domain.nearest(named)
    for name, centre in domain.centres.items():
        if name in near:
            middle = centre.to(near[name].device)
            near[name] = middle + (1 - 2.0**-30) * (near[name] - middle)
    if not narrow:
        return [near[name] for name in function.names]
    rounded = {name: t.to(function.given[name].dtype).double() for name, t in near.items()}
    chosen = rounded if _holds(domain, rounded) else near
    return [chosen[name] for name in function.names]


def _holds(domain: Domain, point: Mapping[str, torch.Tensor]) -> bool:
    away = {name: t - domain.centres[name].to(t.device) for name, t in point.items() if name in domain.centres}
    if any(bool((away[n].abs() > half.to(away[n].device) * (1 - 1e-11)).any()) for n, half in domain.reach.items()):
        return False
    return domain.radius is None or norm(list(away.values())) <= domain.radius * (1 - _ROUNDING)
