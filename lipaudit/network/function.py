"""A captured graph as a function from lists of tensors to lists of tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch

from lipaudit.graph.capture.rounding_noise import Change
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.node import Graph
from lipaudit.rules.norm import Norm

Point: TypeAlias = list[torch.Tensor]


class Function:
    """The floating-point and complex outputs of a graph, evaluated in ``dtype``, as a function of its floating-point inputs.

    ``names`` are those of these inputs; the others stay at their given values. A complex output counts as its real and
    imaginary parts. ``norm`` is that of inputs and outputs.
    """

    def __init__(
        self, graph: Graph, inputs: Mapping[str, torch.Tensor], dtype: torch.dtype, norm: Norm = Norm.L2
    ) -> None:
        self.graph = graph
        self.dtype = dtype
        self.norm = norm
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

    def size(self, parts: Sequence[torch.Tensor]) -> float:
        """The norm of all parts as one vector, summed in float64."""
        if self.norm is Norm.L2:
            return norm(parts)
        moduli = [t.detach().double().abs() for t in parts if t.numel()]
        if self.norm is Norm.LINF:
            return max((float(t.max()) for t in moduli), default=0.0)
        return math.fsum(float(t.sum()) for t in moduli)

    def witness(self, image: Point) -> Point:
        """A vector w with <w, image> = ||image||, of norm 1 in the dual norm; in the l2 norm a multiple of it."""
        if self.norm is Norm.L2:
            return image
        return _one_hot(image) if self.norm is Norm.LINF else [t.sign() for t in image]

    def steepest(self, gradient: Point) -> Point:
        """The vector v with ||v|| <= 1 for which <gradient, v> is largest; zeros for a gradient of zeros."""
        if self.norm is Norm.L2:
            length = norm(gradient)
            return [t / length for t in gradient] if length else gradient
        return [t.sign() for t in gradient] if self.norm is Norm.LINF else _one_hot(gradient)

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


def _one_hot(parts: Point) -> Point:
    """The sign of the largest entry in modulus at its place, zeros elsewhere."""
    place = max(range(len(parts)), key=lambda i: float(parts[i].abs().max()) if parts[i].numel() else -1.0)
    chosen = [torch.zeros_like(t) for t in parts]
    entry = int(parts[place].abs().argmax())
    chosen[place].view(-1)[entry] = parts[place].reshape(-1)[entry].sign()
    return chosen


def norm(parts: Sequence[torch.Tensor]) -> float:
    """The l2 norm of all parts as one vector, summed in float64."""
    return math.sqrt(math.fsum(float(t.detach().double().square().sum()) for t in parts))
