"""Domains: the inputs over which a bound is claimed.

``global`` is the whole space. ``pixels`` is the box of images with pixels in [0, 1], as the network sees it after its own
normalisation: centre (1/2 - mean) / std, every entry within 1 / (2 std) of it. ``ball`` is {x : ||x - x_0|| <= r}. All
are convex, so that a bound of the Jacobian on the domain is a Lipschitz constant on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from lipaudit.graph.node import Graph
from lipaudit.rules.radii import Radii
from lipaudit.spectral.bracket import Bracket

# (1/2 - mean) / std and 1 / (2 std) round a few times.
_SLACK = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class Domain:
    """A set of inputs: for every network input a centre and radii around it; nothing is known of an input without."""

    name: str
    centres: Mapping[str, torch.Tensor] = field(default_factory=dict)
    radii: Mapping[str, Radii] = field(default_factory=dict)


GLOBAL = Domain("global")


def pixel_box(shapes: Mapping[str, Sequence[int]], mean: Sequence[float], std: Sequence[float]) -> Domain:
    """Images with pixels in [0, 1], normalised by (pixel - mean) / std per channel (axis 1).

    ``shapes`` are full shapes with a batch axis; ``mean`` and ``std`` have one entry per channel, or one for all.

    >>> box = pixel_box({"x": (1, 1, 2, 2)}, (0.5,), (0.25,))
    >>> round(box.radii["x"].over(()).upper, 6), round(box.radii["x"].total.upper, 6)
    (2.0, 4.0)
    """
    centres, radii = {}, {}
    for name, shape in shapes.items():
        channels = shape[1]
        middle = torch.tensor([(0.5 - m) / s for m, s in zip(mean, std, strict=True)], dtype=torch.float64)
        reach = torch.tensor([0.5 / abs(s) for s in std], dtype=torch.float64) * _SLACK
        column = (1, -1, *(1,) * (len(shape) - 2))
        centres[name] = middle.expand(channels).reshape(column).expand(tuple(shape)).clone()
        reach = reach.expand(channels)
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
    return Domain("pixels", centres, radii)


def ball(centres: Mapping[str, torch.Tensor], radius: float) -> Domain:
    """All inputs within ``radius`` of the given ones, in the l2 norm over all inputs taken as one vector."""
    radii = {
        name: Radii.of(tuple(x.shape), {tuple(range(x.dim())): Bracket.at_most(radius)}) for name, x in centres.items()
    }
    return Domain("ball", {name: x.detach().to(torch.float64) for name, x in centres.items()}, radii)


def described(domain: Domain, graph: Graph) -> bool:
    """Whether the domain says something of every input of the graph."""
    return all(name in domain.radii for name in graph.inputs)
