"""A linearisation as steps that quadratic forms can be carried through (:mod:`lipaudit.network.forms.steps`).

z = F(u) with derivatives B + diag(scale) E, ||E|| <= 1, has differences

    dz = B du + P w,   P the columns of diag(scale) that are not 0,   w_i = e_i (scale_i du_i) with |e_i| <= 1 for a diagonal E,

and |w| <= |du| for any other. The first is a slope within [-1, 1] behind a linear map: slopes within [a_i, b_i] of every entry by itself,
and no multiplier at all for what cannot switch on the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from lipaudit.graph.evaluate import Value, evaluate
from lipaudit.graph.node import Argument, Node, Ref, TensorInfo
from lipaudit.network.forms.program import NoProgramError
from lipaudit.network.forms.steps import Bounded, Linear, Program, Slopes, Step, Tensor
from lipaudit.network.local.linearise import Linearisation
from lipaudit.network.local.steps import Affine, Moving
from lipaudit.network.local.sums import as_rows
from lipaudit.rules.entry_slopes import EntrySlopes
from lipaudit.rules.movement import Choices, Move
from lipaudit.spectral.rounding import UNIT_ROUNDOFF

_Function = Callable[..., torch.Tensor]
_OP = "lipaudit.local"
# Entries of the derivative of one operation in one operand.
_LARGEST = 2**22
# Multipliers start from no more than so many times the norm of a form.
_MOST = 1e7


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A linear map of tensors, as the payload of a node."""

    function: Callable[..., torch.Tensor]

    def evaluate(self, *operands: torch.Tensor) -> torch.Tensor:
        """The map, applied."""
        return self.function(*operands)


def local_program(lines: Linearisation, outputs: Sequence[str]) -> Program:
    """The steps of a linearised network.

    Raises:
        NoProgramError: if a derivative is too large to be written down.
    """
    builder = _Builder(lines)
    for step in lines.steps:
        if isinstance(step, Affine):
            builder.affine(step.node)
        else:
            builder.moving(step)
    return builder.program(outputs)


class _Builder:
    """Adds the steps of one node after the other."""

    def __init__(self, lines: Linearisation) -> None:
        self._lines = lines
        self._nodes = {node.name: node for node in lines.graph}
        self._inputs = [Tensor(node.name, node.output.shape) for node in lines.graph if node.op == "input"]
        self._tensors = {tensor.name: tensor for tensor in self._inputs}
        self._steps: list[Step] = []

    def program(self, outputs: Sequence[str]) -> Program:
        """The steps so far."""
        return Program(
            tuple(self._inputs), tuple(self._tensor(name) for name in outputs), tuple(self._steps), numerical=True
        )

    def _tensor(self, name: str) -> Tensor:
        """The tensor of a node, through operations that only return their operand."""
        while name not in self._tensors:
            name = self._nodes[name].refs[0].name
        return self._tensors[name]

    def _linear(self, name: str, shape: tuple[int, ...], sources: Sequence[Tensor], function: _Function) -> Tensor:
        refs: dict[str, Argument] = {
            str(i): Ref(source.name, TensorInfo(source.shape, torch.float64)) for i, source in enumerate(sources)
        }
        node = Node(name, _OP, refs, (TensorInfo(shape, torch.float64),), payload=LinearMap(function))
        tensor = self._tensors[name] = Tensor(name, shape)
        self._steps.append(Linear(tensor, tuple(dict.fromkeys(sources)), node))
        return tensor

    def affine(self, node: Node) -> None:
        """A node that is affine; one that returns several tensors is evaluated where one of them is taken."""
        if node.op != "getitem":
            if not isinstance(self._lines.values[node.name], tuple):
                self._affine(node, node)
            return
        parent = self._nodes[node.refs[0].name]
        moved = f"{parent.name}.{node['index']}"
        if moved in self._tensors:
            self._tensors[node.name] = self._tensors[moved]
        else:
            self._affine(node, parent)

    def _affine(self, node: Node, first: Node) -> None:
        """The node ``first``, and ``node`` behind it where that is another one."""
        names = list(dict.fromkeys(ref.name for ref in first.refs))

        def function(*operands: torch.Tensor) -> torch.Tensor:
            values: dict[str, Value] = dict(zip(names, operands, strict=True))
            result = evaluate(first, values, torch.float64)
            if first is not node:
                result = evaluate(node, {first.name: result}, torch.float64)
            assert isinstance(result, torch.Tensor)
            return result

        self._linear(node.name, node.output.shape, [self._tensor(name) for name in names], function)

    def moving(self, step: Moving) -> None:
        """A node with a derivative at the centre, and what it can move by."""
        name = step.node.name if step.index is None else f"{step.node.name}.{step.index}"
        if step.slopes is not None:
            self._entrywise(name, step.slopes, step)
            return
        if step.movement.choices is not None:
            self._chosen(name, step.movement.choices, step)
            return
        maps: list[tuple[Tensor, _Function]] = []
        sizes: dict[str, torch.Tensor] = {}
        if not step.replaced:
            for source, function, size in self._derivatives(step):
                maps.append((self._tensor(source), function))
                sizes[source] = size
        for number, (move, _, source) in enumerate(step.moves):
            size = sizes.get(source, torch.zeros((), dtype=torch.float64))
            maps.append(self._moved(step, f"{name}.moved{number}", move, self._tensor(source), size))
        shape = tuple(step.value.shape)
        if not maps:  # its constants are 0
            maps.append((self._tensor(step.node.refs[0].name), lambda v: (0.0 * v.sum()).expand(shape)))
        functions = [function for _, function in maps]
        self._linear(name, shape, [source for source, _ in maps], _sum(functions, shape))

    def _entrywise(self, name: str, slopes: EntrySlopes, step: Moving) -> None:
        """The middle of the slopes of every entry, and half of their range for what is left."""
        source, shape = self._tensor(step.sources[0]), tuple(step.value.shape)
        middle, half = (slopes.low + slopes.high) / 2, (slopes.high - slopes.low) / 2
        half = (half + 4 * UNIT_ROUNDOFF * middle.abs()) * (half != 0)
        parts = [(source, _times(middle))]
        if bool(half.any()):
            parts.append(self._moved(step, f"{name}.moved", Move(half, ()), source, middle.abs()))
        functions = [function for _, function in parts]
        self._linear(name, shape, [tensor for tensor, _ in parts], _sum(functions, shape))

    def _chosen(self, name: str, choices: Choices, step: Moving) -> None:
        """The winner of every window, half of the differences to the others, and the other half times slopes within [-1, 1]."""
        source, shape, size = self._tensor(step.sources[0]), tuple(step.value.shape), step.value.numel()
        winners, at = choices.winners, choices.outputs

        def halves(v: torch.Tensor) -> torch.Tensor:
            flat = v.flatten()
            return (flat[choices.others] - flat[winners[at]])[None] / 2

        def middle(v: torch.Tensor) -> torch.Tensor:
            return v.flatten()[winners].index_add(0, at, halves(v).flatten())

        parts: list[tuple[Tensor, _Function]] = [(source, middle)]
        if len(at):
            read = self._linear(f"{name}.read", (1, len(at)), [source], halves)
            w = self._tensors[f"{name}.moved"] = Tensor(f"{name}.moved", (1, len(at)))
            self._steps.append(
                Slopes(w, (read,), -1.0, 1.0, step.node, torch.full((len(at),), 2.0, dtype=torch.float64))
            )
            parts.append((w, _scattered(at, torch.ones(len(at), dtype=torch.float64), size)))
        functions = [function for _, function in parts]
        self._linear(name, shape, [tensor for tensor, _ in parts], _sum(functions, shape))

    def _moved(
        self, step: Moving, name: str, move: Move, source: Tensor, size: torch.Tensor
    ) -> tuple[Tensor, _Function]:
        """w of one operand, and P; ``size`` is that of B in it, entry by entry or as a whole."""
        scale = move.scale.expand(step.value.shape).flatten()
        at = scale.nonzero().flatten()
        entries = step.value.numel()
        if move.axes == () and source.size == entries and move.gains is None:
            read = self._linear(f"{name}.read", (1, len(at)), [source], _gathered(at, scale[at]))
            weights = torch.ones(len(at), dtype=torch.float64)
            w = self._tensors[name] = Tensor(name, (1, len(at)))
            raised = (1 + size.flatten().expand(entries)[at] / scale[at]).clamp_max(_MOST)
            self._steps.append(Slopes(w, (read,), -1.0, 1.0, step.node, raised))
        else:
            weights = scale[at]
            w = self._tensors[name] = Tensor(name, (1, len(at)))
            raised = (1 + size.max() / scale[at].max()).clamp_max(_MOST).reshape(1)
            self._steps.append(Bounded(w, (source,), (1.0,), step.node, raised))
        return w, _scattered(at, weights, entries)

    def _derivatives(self, step: Moving) -> list[tuple[str, _Function, torch.Tensor]]:
        """B in every operand of a node, and its size."""
        names = list(dict.fromkeys(ref.name for ref in step.node.refs))
        leaves = {name: self._lines.value(name).clone().requires_grad_() for name in names}
        with torch.enable_grad():
            value = evaluate(step.node, dict(leaves), torch.float64)
            value = value[step.index or 0] if isinstance(value, tuple) else value
            assert isinstance(value, torch.Tensor)
            if any(leaf.numel() * value.numel() > _LARGEST for leaf in leaves.values()):
                raise NoProgramError(f"the derivative of {step.node.name} ({step.node.op}) is too large")
            unit = torch.eye(value.numel(), dtype=torch.float64).reshape(-1, *value.shape)
            rows = torch.autograd.grad(value, list(leaves.values()), unit, is_grads_batched=True)
        matrices = {name: as_rows(row) for name, row in zip(names, rows, strict=True)}
        return [(name, _product(m), torch.linalg.vector_norm(m, dim=1)) for name, m in matrices.items()]


def _sum(functions: Sequence[_Function], shape: tuple[int, ...]) -> _Function:
    def together(*operands: torch.Tensor) -> torch.Tensor:
        parts = [function(operand).reshape(shape) for function, operand in zip(functions, operands, strict=True)]
        return torch.stack(parts).sum(0)

    return together


def _times(slope: torch.Tensor) -> _Function:
    return lambda v: slope * v


def _product(matrix: torch.Tensor) -> _Function:
    return lambda v: matrix @ v.flatten()


def _gathered(at: torch.Tensor, weights: torch.Tensor) -> _Function:
    return lambda v: (v.flatten()[at] * weights)[None]


def _scattered(at: torch.Tensor, weights: torch.Tensor, size: int) -> _Function:
    return lambda w: torch.zeros(size, dtype=torch.float64).index_add(0, at, w.flatten() * weights)
