"""Domains: the inputs over which a bound is claimed.

``global`` is the whole space. ``pixels`` is the box of images with pixels in [0, 1], as the network sees it after its own
normalisation: centre (1/2 - mean) / std, every entry within 1 / (2 std) of it. ``ball`` is {x : ||x - x_0|| <= r}, in the l2 norm or, as a
cube, in the l-infinity norm. All are convex, so that a bound of the Jacobian on the domain is a Lipschitz constant on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from lipaudit.rules.region.radii import Radii
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

# Norms and roots round a few times.
_SLACK = 1 + 1e-12
_PIXELS = Interval(0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Domain:
    """A set of inputs: for every network input a centre and radii around it; nothing is known of an input without.

    ``reach`` has the half widths of a box, ``radius`` is that of a ball whose points all belong to the domain; both are
    empty for the whole space.
    """

    name: str
    centres: Mapping[str, torch.Tensor] = field(default_factory=dict)
    radii: Mapping[str, Radii] = field(default_factory=dict)
    reach: Mapping[str, torch.Tensor] = field(default_factory=dict)
    radius: float | None = None

    def nearest(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The point of the domain (of a box or ball in it) nearest to the given one."""
        away = {
            name: x.to(torch.float64) - self.centres[name].to(x.device)
            for name, x in inputs.items()
            if name in self.centres
        }
        for name, half in self.reach.items():
            away[name] = torch.clamp(away[name], -half.to(away[name].device), half.to(away[name].device))
        length = math.sqrt(math.fsum(float(a.square().sum()) for a in away.values()))
        shrink = min(1.0, self.radius / length) if self.radius is not None and length else 1.0
        return {
            name: (self.centres[name].to(x.device) + shrink * away[name]).to(x.dtype) if name in away else x
            for name, x in inputs.items()
        }


GLOBAL = Domain("global")


def pixel_box(shapes: Mapping[str, Sequence[int]], mean: Sequence[float], std: Sequence[float]) -> Domain:
    """Images with pixels in [0, 1], normalised by (pixel - mean) / std per channel (axis 1).

    ``shapes`` are full shapes with a batch axis; ``mean`` and ``std`` have one entry per channel, or one for all.

    >>> box = pixel_box({"x": (1, 1, 2, 2)}, (0.5,), (0.25,))
    >>> round(box.radii["x"].over(()).upper, 6), round(box.radii["x"].total.upper, 6)
    (2.0, 4.0)
    """
    centres, radii, half = {}, {}, {}
    for name, shape in shapes.items():
        channels = shape[1]
        middles = [(0.5 - m) / s for m, s in zip(mean, std, strict=True)]
        middle = torch.tensor(middles, dtype=torch.float64)
        ends = [(_PIXELS - m) / s for m, s in zip(mean, std, strict=True)]
        reach = torch.tensor([(e - c).largest for e, c in zip(ends, middles, strict=True)], dtype=torch.float64)
        column = (1, -1, *(1,) * (len(shape) - 2))
        centres[name] = middle.expand(channels).reshape(column).expand(tuple(shape)).clone()
        reach = reach.expand(channels)
        half[name] = reach.reshape(column).expand(tuple(shape)).clone()
        positions = math.prod(shape[2:])
        pixel = float(torch.linalg.vector_norm(reach)) * _SLACK
        radii[name] = Radii.of(
            tuple(shape),
            {
                (): float(reach.max()),
                (1,): pixel,
                tuple(range(len(shape))): pixel * math.sqrt(positions * shape[0]) * _SLACK,
            },
        )
    return Domain("pixels", centres, radii, half)


def ball(centres: Mapping[str, torch.Tensor], radius: float, inner: float | None = None) -> Domain:
    """All inputs within ``radius`` of the given ones, in the l2 norm over all inputs taken as one vector.

    ``inner`` is given where this ball only encloses the domain: all points within ``inner`` belong to it.
    """
    radii = {
        name: Radii.of(tuple(x.shape), {tuple(range(x.dim())): Bracket.at_most(radius)}) for name, x in centres.items()
    }
    middle = {name: x.detach().to(torch.float64) for name, x in centres.items()}
    return Domain("ball", middle, radii, radius=radius if inner is None else inner)


def cube(centres: Mapping[str, torch.Tensor], half: Mapping[str, torch.Tensor]) -> Domain:
    """All inputs of which every entry is within its ``half`` width of the given ones: a ball in the l-infinity norm.

    >>> square = cube({"x": torch.zeros(1, 4)}, {"x": torch.full((1, 4), 0.5)})
    >>> round(square.radii["x"].over(()).upper, 6), round(square.radii["x"].total.upper, 6)
    (0.5, 1.0)
    """
    reach = {name: width.to(torch.float64).expand(centres[name].shape).clone() for name, width in half.items()}
    radii = {
        name: Radii.of(
            tuple(width.shape),
            {(): float(width.max()), tuple(range(width.dim())): float(torch.linalg.vector_norm(width)) * _SLACK},
        )
        for name, width in reach.items()
    }
    return Domain("ball", {name: x.detach().to(torch.float64) for name, x in centres.items()}, radii, reach)
