"""Empirical lower bound of a network: the largest quotient ||f(x) - f(y)|| / ||x - y|| found, measured at two given inputs.

The search is a power iteration: a difference quotient in the direction v stands for J v, a vector-Jacobian product of the captured graph
for J^T, and the point moves along its own direction while the quotient grows. (Most networks are piecewise linear, so that the
gradient of ||J v|| in the point is zero and steps of finite length are needed.) The search proves nothing: autograd's Jacobian is not
the function's where a network detaches a tensor. What is reported is measured (:mod:`lipaudit.network.stretch`). The graph
has its weights as constants, and the network itself is not run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from lipaudit.graph.evaluate import can_interpret
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.table import IDENTITIES
from lipaudit.network.domain import GLOBAL, Domain
from lipaudit.network.function import Function, Point, norm
from lipaudit.network.stretch import Pair, measure

POINTS = 2
POWER_STEPS = 5
ASCENT_STEPS = 3
# Length of the first uphill step, and of a difference, relative to the point's own norm.
STEP = 0.1
DIFFERENCE = 1e-3


def measured_lower_bound(
    graph: Graph, inputs: Mapping[str, torch.Tensor], seed: int = 0, domain: Domain = GLOBAL
) -> Pair | None:
    """The two inputs between which the network was found to stretch most, starting at ``inputs`` and at random ones (seeded).

    On a domain only its points count: every point is moved to the nearest one of the domain, the first to its centre.
    Several inputs and outputs count as one vector each; inputs that are not made of floating-point numbers stay as given.

    Returns:
        the pair and its quotient, a plain number with rounding subtracted: 0 for a network whose outputs do not depend on its
        inputs. None where the graph is not one of operations that can be evaluated.
    """
    if not can_interpret(graph):
        return None
    plain = IDENTITIES.run(graph)  # among them detach, which hides a gradient
    wide = any(x.dtype == torch.float64 for x in inputs.values())
    search = _Search(Function(plain, inputs, torch.float64 if wide else torch.float32), domain)
    generator = torch.Generator().manual_seed(seed)
    trials = []
    for point in range(POINTS):
        start = search.function.moving({**inputs, **domain.centres})
        given = point == 0 and (bool(domain.centres) or any(bool(t.any()) for t in start))
        drawn = [torch.randn(t.shape, generator=generator) for t in start]
        x = search.inside(start if given else drawn)
        v = _normalised(search.cast([torch.randn(t.shape, generator=generator) for t in x]))
        trials.append((*search.power_iteration(x, v, POWER_STEPS), x))
    best, v, x = trials[0]
    for trial in trials[1:]:
        if trial[0] > best * (1 + DIFFERENCE):  # what rounding decides is decided in favour of what was given
            best, v, x = trial
    x, v = search.ascend(best, v, x)
    return measure(Function(plain, inputs, torch.float64), x, v, domain)


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

    def ascend(self, best: float, v: Point, x: Point) -> tuple[Point, Point]:
        step = STEP * max(1e-3, norm(x))
        for _ in range(ASCENT_STEPS):
            trials = []
            for sign in (1, -1):
                moved = self.inside([a + sign * step * d for a, d in zip(x, v, strict=True)])
                trials.append((*self.power_iteration(moved, v, 2), moved))
            size, direction, moved = max(trials, key=lambda trial: trial[0])
            if size > best:
                best, v, x = size, direction, moved
            else:
                step /= 4
        return x, v

    def power_iteration(self, x: Point, v: Point, steps: int) -> tuple[float, Point]:
        """The largest quotient for directions met on the way, and its direction."""
        best, kept = 0.0, v
        length = DIFFERENCE * max(1e-3, norm(x))
        value, pull = self.function.with_gradient(x)
        for _ in range(steps):
            there = self.function([a + length * d for a, d in zip(x, v, strict=True)])
            image = [(b - a) / length for a, b in zip(value, there, strict=True)]
            size = norm(image)
            if not math.isfinite(size):
                break
            if size > best:
                best, kept = size, v
            pulled = pull(image)
            back = norm(pulled)
            if not math.isfinite(back) or back == 0:
                break
            v = [t / back for t in pulled]
        return best, kept


def _normalised(parts: Point) -> Point:
    length = norm(parts)
    return [t / length for t in parts] if length else parts
