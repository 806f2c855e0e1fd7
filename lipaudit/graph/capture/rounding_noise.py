"""What rounding does to the values of a graph: every value is moved by up to one rounding, at random, and the outputs move.

The graph is evaluated in a precision of its own, in which a value can be moved by its own roundings only: a rounding that is not far above
these is taken for several of them. That moves may cancel each other remains, and no output is known better than to its own rounding:
its size times the unit counts as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import torch

from lipaudit.graph.constant_errors import LARGEST
from lipaudit.graph.node import Constant, Graph, Node
from lipaudit.spectral.rounding import UNIT_ROUNDOFF

# Differences of so many times the noise are rounding: sums of many terms round more than once.
FACTOR = 64.0
# A move of less than so many roundings of the evaluation itself would often be none.
_ROUNDINGS = 16
# What the relative error of a constant is taken for that the network computes by operations of which no error is known.
_UNKNOWN = 2.0**-40
Change = Callable[[Node, torch.Tensor], torch.Tensor]


def perturbations(places: Iterable[torch.device], unit: Callable[[Node], float]) -> Iterator[Change]:
    """Two ways to change the values of nodes (``then`` of :func:`lipaudit.graph.evaluate.interpret`) by up to ``unit``, relative.

    Where ``unit`` is less than 16 roundings of the values' dtype, these take its place.
    """
    for seed in (0, 1):
        generators = {place: torch.Generator(place).manual_seed(seed) for place in set(places)}

        def perturb(
            node: Node, value: torch.Tensor, generators: dict[torch.device, torch.Generator] = generators
        ) -> torch.Tensor:
            if not value.is_floating_point():
                return value
            draws = torch.rand(value.shape, generator=generators[value.device], device=value.device)
            largest = max(unit(node), _ROUNDINGS * torch.finfo(value.dtype).eps / 2)
            return value * (1 + largest * (2 * draws.to(value.dtype) - 1))

        yield perturb


def unit_of(graph: Graph) -> float:
    """The relative error of the values of a graph in float64: one rounding, or the largest error of a constant where that is more.

    Infinite where a constant is the rest of a sum that cancelled: nothing is known of it then.
    """
    errors = [a.error for node in graph for a in node.arguments.values() if isinstance(a, Constant)]
    if any(LARGEST < error < math.inf for error in errors):
        return math.inf
    return max([UNIT_ROUNDOFF, *(_UNKNOWN if error == math.inf else error for error in errors)])
