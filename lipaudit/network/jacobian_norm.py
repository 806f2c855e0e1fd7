"""How far a network stretches near one input x: the norm of its Jacobian, measured.

The largest singular value of J(x) is found with its right singular vector v: from the Gram matrix J J^T where the outputs are few (one
vector-Jacobian product for each), else by power iteration, in which the difference quotient (f(x + h v) - f(x)) / h stands for J v. In the
l-infinity norm v has the signs of the row with the largest sum of moduli, in the l1 norm it is the entry whose column has.
What is reported is ||f(x + h v) - f(x)|| / h in float64, with rounding subtracted (:mod:`lipaudit.network.stretch`): a lower bound of
the Lipschitz constant even where autograd's Jacobian is not the function's (a kink of ReLU, a detached tensor), and the norm of the
Jacobian up to O(h) where f is smooth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from lipaudit.graph.node import Graph
from lipaudit.graph.passes.table import IDENTITIES
from lipaudit.network.domain import Domain
from lipaudit.network.function import Function, Point
from lipaudit.network.function import norm as norm_of
from lipaudit.network.stretch import Pair, measure, placed
from lipaudit.rules.norm import Norm

# Distances of the second point, and of a difference, relative to the norm of the first; double precision has 1e-16.
DISTANCES = (1e-5, 1e-6)
DIFFERENCE = 1e-6
# Outputs up to which every row of the Jacobian is looked at: in the l2 norm, and in others, where a power iteration has many ends.
FEW_OUTPUTS, FEW_ROWS = 16, 256
STEPS = 30
# The power iteration ends where a step changes the norm by less than this part.
CHANGE = 1e-4


def jacobian_norms(
    graph: Graph,
    inputs: Mapping[str, torch.Tensor],
    named: Sequence[tuple[str, torch.Tensor]],
    domain: Domain,
    seed: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
    norm: Norm = Norm.L2,
) -> Iterator[Pair]:
    """The measured norm at every one of several values of the one floating-point input, which have names for ``progress``.

    ``graph`` is one that can be evaluated, ``inputs`` has the values of the other inputs. ``norm`` is that of inputs and outputs.
    """
    function = Function(IDENTITIES.run(graph), inputs, torch.float64, norm)
    for number, (name, value) in enumerate(named):
        if progress is not None:
            progress(number, len(named), name)
        generator = torch.Generator().manual_seed(seed)
        yield jacobian_norm(function, [value.to(function.place, torch.float64)], domain, generator)


def jacobian_norm(function: Function, x: Point, domain: Domain, generator: torch.Generator) -> Pair:
    """The point of the domain nearest to ``x``, and one close to it in the direction that is stretched most.

    ``function`` evaluates in float64. The pair's quotient is the norm that is reported.

    >>> from lipaudit.graph.capture.export import capture
    >>> from lipaudit.network.domain import GLOBAL
    >>> inputs = {"x": torch.ones(1, 2)}
    >>> plane = Function(capture(torch.nn.PReLU(init=3.0), inputs), inputs, torch.float64)
    >>> [round(jacobian_norm(plane, [torch.tensor([[a, 2.0]])], GLOBAL, torch.Generator()).quotient, 6) for a in (1.0, -1.0)]
    [1.0, 3.0]
    """
    start = placed(function, domain, x)
    return measure(function, start, steepest_direction(function, start, generator), domain, DISTANCES, narrow=False)


def steepest_direction(function: Function, x: Point, generator: torch.Generator) -> Point:
    """The unit vector v that maximises ||J(x) v||; among those that a power iteration meets where the outputs are many."""
    if (v := steepest_of_rows(function, x)) is not None:
        return v
    value, pull = function.with_gradient(x)
    v = function.steepest([torch.randn(t.shape, generator=generator).to(t) for t in x])
    length = DIFFERENCE * (function.size(x) or 1.0)
    last = 0.0
    for _ in range(STEPS):
        there = function([a + length * d for a, d in zip(x, v, strict=True)])
        image = [(b - a) / length for a, b in zip(value, there, strict=True)]
        size, pulled = function.size(image), pull(function.witness(image))
        back = function.size(pulled)
        if not math.isfinite(size) or not math.isfinite(back) or back == 0 or abs(size - last) <= CHANGE * size:
            break
        last, v = size, function.steepest(pulled)
    return v


def steepest_of_rows(function: Function, x: Point) -> Point | None:
    """The unit vector v that maximises ||J(x) v||, from all rows of the Jacobian; None where the outputs are many."""
    value, pull = function.with_gradient(x)
    if not 0 < sum(t.numel() for t in value) <= (FEW_OUTPUTS if function.norm is Norm.L2 else FEW_ROWS):
        return None
    if function.norm is Norm.L2:
        return _singular_vector(value, pull, x)
    rows = _jacobian_rows(value, pull)
    if function.norm is Norm.LINF:
        return function.steepest(max(rows, key=lambda row: math.fsum(float(t.abs().sum()) for t in row)))
    return function.steepest([torch.stack(parts).abs().sum(0) for parts in zip(*rows, strict=True)])


def _singular_vector(value: Point, pull: Callable[[Point], Point], x: Point) -> Point:
    """The right singular vector J^T u, where u is the eigenvector of J J^T of the largest eigenvalue."""
    jacobian = torch.stack([torch.cat([t.reshape(-1) for t in row]) for row in _jacobian_rows(value, pull)])
    u = torch.linalg.eigh(jacobian @ jacobian.T).eigenvectors[:, -1]
    parts = (jacobian.T @ u).split([t.numel() for t in x])
    v = [part.reshape(t.shape) for part, t in zip(parts, x, strict=True)]
    length = norm_of(v)
    return [t / length for t in v] if length else v


def _jacobian_rows(value: Point, pull: Callable[[Point], Point]) -> list[Point]:
    """The row of every entry of the outputs, by one vector-Jacobian product each."""
    rows = []
    for i, output in enumerate(value):
        for j in range(output.numel()):
            unit = [torch.zeros_like(t) for t in value]
            unit[i].view(-1)[j] = 1.0
            rows.append(pull(unit))
    return rows
