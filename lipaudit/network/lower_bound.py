"""Empirical lower bound of a network: the largest quotient ||f(x) - f(y)|| / ||x - y|| found, measured at two given inputs.

The search is a power iteration, in which a difference quotient in the direction v stands for J v and a vector-Jacobian product of the
captured graph for J^T, and a gradient ascent in the point x: g = (J(x + h v) - J(x))^T u is the gradient of ||f(x + h v) - f(x)||, u
being the unit vector of that difference. (Most networks are piecewise linear, so that the gradient of ||J v|| is zero and h is of finite
length. The point also moves along v itself.) The search proves nothing: autograd's Jacobian is not the function's where a network
detaches a tensor. What is reported is measured (:mod:`lipaudit.network.stretch`). The graph has its weights as constants, and the
network itself is not run.
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
from lipaudit.network.jacobian_norm import jacobian_rows
from lipaudit.network.stretch import Pair, measure
from lipaudit.rules.norm import Norm

POINTS = 2
# Outputs up to which every row of the Jacobian is looked at, in the norms other than l2.
FEW_OUTPUTS = 256
POWER_STEPS = 5
ASCENT_STEPS = 3
# The points of a user from which the ascent starts, and its steps from each.
GIVEN_POINTS = 3
GIVEN_STEPS = 12
# Lengths relative to the point's own norm: of the first uphill step, of a difference, and of those whose gradient is followed.
STEP = 0.1
DIFFERENCE = 1e-3
GRADIENT_DIFFERENCES = (1e-2, 1e-1)


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
    trials = []
    for point in range(POINTS):
        start = search.function.moving({**inputs, **domain.centres})
        given = point == 0 and (bool(domain.centres) or any(bool(t.any()) for t in start))
        drawn = [torch.randn(t.shape, generator=generator) for t in start]
        x = search.inside(start if given else drawn)
        v = search.function.steepest(search.cast([torch.randn(t.shape, generator=generator) for t in x]))
        if norm is not Norm.L2:
            v = search.steepest_row(x) or v
        trials.append((*search.power_iteration(x, v, POWER_STEPS), x))
    best, v, x = trials[0]
    for trial in trials[1:]:
        if trial[0] > best * (1 + DIFFERENCE):  # what rounding decides is decided in favour of what was given
            best, v, x = trial
    function = Function(plain, inputs, torch.float64, norm)
    pairs = [measure(function, *search.ascend(best, v, x, ASCENT_STEPS), domain)]
    steepest = sorted(near, key=lambda pair: pair.quotient, reverse=True)[:GIVEN_POINTS]
    for pair in steepest:
        x, y = (function.moving(end) for end in (pair.x, pair.y))
        v = search.cast(function.steepest([b.double() - a.double() for a, b in zip(x, y, strict=True)]))
        raised = search.ascend(pair.quotient, v, search.inside(x), GIVEN_STEPS)
        pairs.append(measure(function, *raised, domain))
    return max((*pairs, *steepest), key=lambda pair: pair.quotient)


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

    def ascend(self, best: float, v: Point, x: Point, steps: int) -> tuple[Point, Point]:
        """A point and a direction that are stretched at least by ``best``, as ``v`` is at ``x``."""
        step = STEP * max(1e-3, self.function.size(x))
        for _ in range(steps):
            trials = []
            for direction in (v, [-t for t in v], *self.gradients(x, v)):
                moved = self.inside([a + step * d for a, d in zip(x, direction, strict=True)])
                trials.append((*self.power_iteration(moved, v, 2), moved))
            size, direction, moved = max(trials, key=lambda trial: trial[0])
            if size > best:
                best, v, x = size, direction, moved
                step *= 1.5
            else:
                step /= 2
        return x, v

    def gradients(self, x: Point, v: Point) -> Iterator[Point]:
        """The directions in which ||f(x + h v) - f(x)|| grows fastest with x, for differences of several lengths h."""
        value, pull = self.function.with_gradient(x)
        for length in GRADIENT_DIFFERENCES:
            h = length * max(1e-3, self.function.size(x))
            there, pull_there = self.function.with_gradient([a + h * d for a, d in zip(x, v, strict=True)])
            change = [b - a for a, b in zip(value, there, strict=True)]
            witness = self.function.witness(change)
            gradient = [b - a for a, b in zip(pull(witness), pull_there(witness), strict=True)]
            size = self.function.size(gradient)
            if math.isfinite(size) and size > 0:
                yield [t / size for t in gradient]

    def steepest_row(self, x: Point) -> Point | None:
        """The direction that is stretched most at ``x``, from all rows of the Jacobian; None where the outputs are many.

        In the l-infinity norm it has the signs of the row with the largest sum of moduli, in the l1 norm it is the entry whose column has.
        """
        value, pull = self.function.with_gradient(x)
        if not 0 < sum(t.numel() for t in value) <= FEW_OUTPUTS:
            return None
        rows = jacobian_rows(value, pull)
        if self.function.norm is Norm.LINF:
            return self.function.steepest(max(rows, key=lambda row: math.fsum(float(t.abs().sum()) for t in row)))
        return self.function.steepest([torch.stack(parts).abs().sum(0) for parts in zip(*rows, strict=True)])

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
