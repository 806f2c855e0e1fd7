"""What rounding does to the values of a graph: every value is moved by up to one rounding, at random, and the outputs move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch

from lipaudit.graph.node import Node

# Differences of so many times the noise are rounding: sums of many terms round more than once.
FACTOR = 64.0
Change = Callable[[Node, torch.Tensor], torch.Tensor]


def perturbations(places: Iterable[torch.device], unit: Callable[[Node], float]) -> Iterator[Change]:
    """Two ways to change the values of nodes (``then`` of :func:`lipaudit.graph.evaluate.interpret`) by up to ``unit``, relative."""
    for seed in (0, 1):
        generators = {place: torch.Generator(place).manual_seed(seed) for place in set(places)}

        def perturb(
            node: Node, value: torch.Tensor, generators: dict[torch.device, torch.Generator] = generators
        ) -> torch.Tensor:
            if not value.is_floating_point():
                return value
            draws = torch.rand(value.shape, generator=generators[value.device], device=value.device)
            return value * (1 + unit(node) * (2 * draws.to(value.dtype) - 1))

        yield perturb
