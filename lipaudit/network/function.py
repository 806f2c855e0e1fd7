"""A captured graph as a function from lists of tensors to lists of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch

from lipaudit.graph.capture.rounding_noise import Change
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.node import Graph

Point: TypeAlias = list[torch.Tensor]


class Function:
    """The floating-point and complex outputs of a graph, evaluated in ``dtype``, as a function of its floating-point inputs.

    ``names`` are those of these inputs; the others stay at their given values. A complex output counts as its real and
    imaginary parts.
    """

    def __init__(self, graph: Graph, inputs: Mapping[str, torch.Tensor], dtype: torch.dtype) -> None:
        self.graph = graph
        self.dtype = dtype
        self.given = dict(inputs)
        self.names = [name for name, x in inputs.items() if x.is_floating_point()]
        self.place = next((x.device for x in inputs.values()), torch.device("cpu"))
        infos = {node.name: node.outputs[0].dtype for node in graph}
        self.outputs = [n for n in graph.outputs if infos[n].is_floating_point or infos[n].is_complex]

    def moving(self, inputs: Mapping[str, torch.Tensor]) -> Point:
        """The inputs that vary."""
        return [inputs[name].detach() for name in self.names]

    def __call__(self, x: Sequence[torch.Tensor], change: Change | None = None) -> Point:
        """The outputs at ``x``."""
        with torch.no_grad():
            return self._evaluate(x, change)

    def with_gradient(self, x: Sequence[torch.Tensor]) -> tuple[Point, Callable[[Point], Point]]:
        """The outputs at ``x``, and the function w -> J^T w by autograd, which is zero where autograd has no derivative."""
        leaves = [t.detach().clone().requires_grad_() for t in x]
        with torch.enable_grad():
            outputs = self._evaluate(leaves, None)
        pairs = [(i, y) for i, y in enumerate(outputs) if y.requires_grad]

        def pull(image: Point) -> Point:
            if not pairs:
                return [torch.zeros_like(t) for t in leaves]
            read, weights = [y for _, y in pairs], [image[i] for i, _ in pairs]
            try:
                gradients = torch.autograd.grad(read, leaves, weights, retain_graph=True, allow_unused=True)
            except (
                RuntimeError
            ):  # an operation without a derivative: no direction, and what is found is measured anyway
                return [torch.zeros_like(t) for t in leaves]
            return [torch.zeros_like(t) if g is None else g for g, t in zip(gradients, leaves, strict=True)]

        return [y.detach() for y in outputs], pull

    def _evaluate(self, x: Sequence[torch.Tensor], change: Change | None) -> Point:
        inputs = {**self.given, **dict(zip(self.names, x, strict=True))}
        values = interpret(self.graph, inputs, self.outputs, self.dtype, change)
        # an output that is returned twice counts twice
        outputs = [values[name] for name in self.outputs]
        return [
            torch.view_as_real(y.resolve_conj()) if y.is_complex() else y
            for y in outputs
            if isinstance(y, torch.Tensor)
        ]


def norm(parts: Sequence[torch.Tensor]) -> float:
    """The l2 norm of all parts as one vector, summed in float64."""
    return math.sqrt(math.fsum(float(t.detach().double().square().sum()) for t in parts))
