"""Empirical lower bound of a network: the largest quotient ||f(x) - f(y)|| / ||x - y|| found, measured at two given inputs.

The search moves a point x and a direction v together. With unit vectors w and v that maximise <w, J v>, ||J|| = <w, J v>: in the
l-infinity norm w picks the row of the Jacobian with the largest sum of moduli and v has its signs, in the l1 norm v picks a column. Most
networks are piecewise linear, where the derivative of ||J(x)|| is zero, so that secants take the place of derivatives,

    s(x) = <w, f(x + h v) - f(x - h v)> / 2h,    grad s = (J(x + h v) - J(x - h v))^T w / 2h,

and x follows grad s with momentum while v becomes the direction that (J(x + h v) + J(x - h v))^T w grows fastest in, a step of a power
iteration. h and the steps shrink, from half of the size of the start to a 50th. Starts are drawn in several sizes, since many networks
are steepest at inputs smaller than those that they are made for.

The search proves nothing: autograd's Jacobian is not the function's where a network detaches a tensor. What is reported is measured
(:mod:`lipaudit.network.stretch`). The graph has its weights as constants, and the network itself is not run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch

from lipaudit.graph.evaluate import can_interpret
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.table import IDENTITIES
from lipaudit.network.domain import GLOBAL, Domain
from lipaudit.network.function import Function, Point
from lipaudit.network.function import norm as norm_of
from lipaudit.network.jacobian_norm import steepest_of_rows
from lipaudit.network.stretch import Pair, measure
from lipaudit.rules.norm import Norm

# Sizes of the random points, and how many are drawn of each.
SIZES, DRAWS = (0.1, 0.3, 1.0, 3.0), 2
# The steepest points from which the ascent starts: of the random ones, and of a user's.
CLIMBS, GIVEN_POINTS = 2, 3
POWER_STEPS = 4
# The steps of an ascent, the first one relative to the root mean square of the point, what is left of it after each, and the momentum.
STEPS, STEP, DECAY, MOMENTUM = 40, 0.2, 0.92, 0.8
# Half lengths of the secants, first and last, relative to the same.
SECANTS = (0.5, 0.02)
# Of a difference, relative to the point's own norm.
DIFFERENCE = 1e-3
# A gradient of which so little is left is rounding: the network is linear there.
_FLAT = 1e-5


def measured_lower_bound(
    graph: Graph,
    inputs: Mapping[str, torch.Tensor],
    seed: int = 0,
    domain: Domain = GLOBAL,
    near: Sequence[Pair] = (),
    norm: Norm = Norm.L2,
) -> Pair | None:
    """The two inputs between which the network was found to stretch most, starting at ``inputs``, random ones (seeded) and pairs.

    On a domain only its points count: every point is moved to the nearest one of the domain, the first to its centre.
    Several inputs and outputs count as one vector each; inputs that are not made of floating-point numbers stay as given.
    What is found stretches at least as much as each of the pairs in ``near``. ``norm`` is that of inputs and outputs.

    Returns:
        the pair and its quotient, a plain number with rounding subtracted: 0 for a network whose outputs do not depend on its
        inputs. None where the graph is not one of operations that can be evaluated.
    """
    if not can_interpret(graph):
        return None
    plain = IDENTITIES.run(graph)  # among them detach, which hides a gradient
    wide = any(x.dtype == torch.float64 for x in inputs.values())
    search = _Search(Function(plain, inputs, torch.float64 if wide else torch.float32, norm), domain)
    generator = torch.Generator().manual_seed(seed)
    trials = [search.steepest(x, generator) for x in _starts(search, inputs, domain, generator)]
    trials.sort(key=lambda trial: trial[0], reverse=True)
    starts = [(v, x) for _, v, x in trials[:CLIMBS]]
    steepest = sorted(near, key=lambda pair: pair.quotient, reverse=True)[:GIVEN_POINTS]
    function = Function(plain, inputs, torch.float64, norm)
    for pair in steepest:
        x, y = (function.moving(end) for end in (pair.x, pair.y))
        v = search.cast(function.steepest([b.double() - a.double() for a, b in zip(x, y, strict=True)]))
        starts.append((v, search.inside(x)))
    pairs = [measure(function, *search.ascend(v, x, generator), domain) for v, x in starts]
    return max((*pairs, *steepest), key=lambda pair: pair.quotient)


def _starts(
    search: _Search, inputs: Mapping[str, torch.Tensor], domain: Domain, generator: torch.Generator
) -> Iterator[Point]:
    """The given point, or the centre of the domain, unless it is the origin of all inputs; then random points."""
    start = search.function.moving({**inputs, **domain.centres})
    if bool(domain.centres) or any(bool(t.any()) for t in start):
        yield search.inside(start)
    for size in SIZES:
        for _ in range(DRAWS):
            yield search.inside([size * torch.randn(t.shape, generator=generator) for t in start])


class _Search:
    """Where a function stretches most, among points of a domain."""

    def __init__(self, function: Function, domain: Domain) -> None:
        self.function = function
        self.domain = domain

    def cast(self, x: Sequence[torch.Tensor]) -> Point:
        return [t.to(device=self.function.place, dtype=self.function.dtype) for t in x]

    def inside(self, x: Sequence[torch.Tensor]) -> Point:
        named = dict(zip(self.function.names, self.cast(x), strict=True))
        return self.cast(list(self.domain.nearest(named).values()))

    def steepest(self, x: Point, generator: torch.Generator) -> tuple[float, Point, Point]:
        """The quotient and the direction that is stretched most at ``x``, and ``x``."""
        v = self.function.steepest(self.cast([torch.randn(t.shape, generator=generator) for t in x]))
        if self.function.norm is not Norm.L2:
            v = steepest_of_rows(self.function, x) or v
        return (*self.power_iteration(x, v, POWER_STEPS), x)

    def ascend(self, v: Point, x: Point, generator: torch.Generator) -> tuple[Point, Point]:
        """A point and a direction that are stretched at least as ``v`` is at ``x``."""
        best, steep, top = 0.0, v, x
        unit, momentum = max(1e-3, _mean_square(x)), [torch.zeros_like(t) for t in x]
        for step in range(STEPS):
            first, last = SECANTS
            width = _mean_square(v)
            if not width:
                break
            h = unit * first * (last / first) ** (step / (STEPS - 1)) / width
            below, pull_below = self.function.with_gradient(_moved(x, v, -h))
            above, pull_above = self.function.with_gradient(_moved(x, v, h))
            change = [b - a for a, b in zip(below, above, strict=True)]
            size = self.function.size(change) / (2 * h)
            if not math.isfinite(size):
                break
            if size > best:
                best, steep, top = size, v, x
            witness = self.function.witness(change)
            ends = list(zip(pull_below(witness), pull_above(witness), strict=True))
            gradient, mean = [b - a for a, b in ends], [b + a for a, b in ends]
            v = self.function.steepest(mean)
            if not _mean_square(gradient) > _FLAT * _mean_square(mean):
                gradient = self.cast([torch.randn(t.shape, generator=generator) for t in x])
            momentum = [MOMENTUM * m + g for m, g in zip(momentum, gradient, strict=True)]
            length = _mean_square(momentum)
            if not (math.isfinite(length) and length > 0):
                break
            x = self.inside(_moved(x, momentum, unit * STEP * DECAY**step / length))
        return top, self.power_iteration(top, steep, POWER_STEPS)[1]

    def power_iteration(self, x: Point, v: Point, steps: int) -> tuple[float, Point]:
        """The largest quotient for directions met on the way, and its direction."""
        best, kept = 0.0, v
        length = DIFFERENCE * max(1e-3, self.function.size(x))
        value, pull = self.function.with_gradient(x)
        for _ in range(steps):
            there = self.function([a + length * d for a, d in zip(x, v, strict=True)])
            image = [(b - a) / length for a, b in zip(value, there, strict=True)]
            size = self.function.size(image)
            if not math.isfinite(size):
                break
            if size > best:
                best, kept = size, v
            pulled = pull(self.function.witness(image))
            back = self.function.size(pulled)
            if not math.isfinite(back) or back == 0:
                break
            v = self.function.steepest(pulled)
        return best, kept


def _moved(x: Point, v: Point, length: float) -> Point:
    return [a + length * b for a, b in zip(x, v, strict=True)]


def _mean_square(parts: Point) -> float:
    """The root of the mean square of all entries."""
    return norm_of(parts) / math.sqrt(max(1, sum(t.numel() for t in parts)))
