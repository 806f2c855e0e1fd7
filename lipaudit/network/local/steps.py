"""The steps of a linearisation: affine nodes, and nodes that have a derivative at the centre and a bound of what it can move by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from lipaudit.graph.node import Node
from lipaudit.rules.entry_slopes import EntrySlopes
from lipaudit.rules.movement import Move, Movement, Neighbourhood


@dataclass(frozen=True, eq=False)
class Tensor:
    """What is known of a tensor on the domain.

    Attributes:
        value: at the centre as it is computed, with its graph of automatic differentiation.
        error: how far the exact value at the centre may be from it, entry by entry.
        below, above: v(x) - value lies within [-below, above], entry by entry.
        radius: ||v(x) - value||.
        gradients: the norm of the gradient of every entry.
        norm: ||J_v(x)||.
    """

    value: torch.Tensor
    error: torch.Tensor
    below: torch.Tensor
    above: torch.Tensor
    radius: float
    gradients: torch.Tensor
    norm: float

    @property
    def neighbourhood(self) -> Neighbourhood:
        """Where the tensor stays."""
        return Neighbourhood(self.value.detach(), self.below, self.above, self.radius, self.gradients)


@dataclass(frozen=True, eq=False)
class Affine:
    """A node that is an affine map of its operands."""

    node: Node


@dataclass(frozen=True, eq=False)
class Moving:
    """A node, or one of its outputs, that is no affine map.

    Attributes:
        node: the node.
        value: at the centre, with a graph of automatic differentiation by the derivatives that stand for it.
        movement: how its derivatives move.
        operands: what is known of the tensors that its moves are in.
        sources: the names of the nodes that compute them.
        error: how far the node with these derivatives may be from the exact one at the centre, given where its operands are.
        replaced: whether 0 stands for the derivative at the centre.
        index: which of several outputs it is.
        slopes: of a function of each entry.
    """

    node: Node
    value: torch.Tensor
    movement: Movement
    operands: tuple[Tensor, ...]
    sources: tuple[str, ...]
    error: torch.Tensor
    replaced: bool = False
    index: int | None = None
    slopes: EntrySlopes | None = None

    @property
    def moves(self) -> Iterator[tuple[Move, Tensor, str]]:
        """The moves that are not 0, with their operands."""
        for move, operand, source in zip(self.movement.moves, self.operands, self.sources, strict=True):
            if move is not None and bool((move.scale != 0).any()):
                yield move, operand, source
