"""How far the Jacobian of an operation can move while its operands stay near a centre.

Write F for an operation, u_1 ... u_p for its operands, B_i for its derivative in u_i at the centre, as automatic differentiation takes it.
A :class:`Movement` says of every point of the domain

    dF/du_i = B_i + diag(scale_i) E_i,   ||E_i|| <= 1,
    least <= F(u) - F(c) - sum_i B_i (u_i - c_i) <= most,   entry by entry.

Where ``axes`` are given E_i is block diagonal: a slice of the operand over them reaches the same slice of the output only, and operand and
output have one shape. No axes at all mean a diagonal E_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

from lipaudit.graph.node import Node


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Where a tensor stays: no entry is more than ``below`` under that of the centre or more than ``above`` over it.

    The whole tensor is within ``radius`` of the centre (l2). ``gradients`` bounds the norm of the gradient of every entry in the network's
    input.
    """

    centre: torch.Tensor
    below: torch.Tensor
    above: torch.Tensor
    radius: float
    gradients: torch.Tensor

    @property
    def entries(self) -> torch.Tensor:
        """How far every entry is from that of the centre at most."""
        return torch.maximum(self.below, self.above)

    def over(self, axes: Iterable[int]) -> torch.Tensor:
        """Bounds of the norms of the slices over some axes, which keep the size 1."""
        return slice_norms(self.entries, axes).clamp_max(self.radius)


@dataclass(frozen=True, eq=False)
class Move:
    """diag(scale) E with ||E|| <= 1; ``scale`` has the shape of the output.

    ``gains`` bounds the norms of the slices of E J_u(x) over the axes, J_u the Jacobian of the operand in the network's input, where they
    are not those of J_u(x) itself.
    """

    scale: torch.Tensor
    axes: tuple[int, ...] | None = None
    gains: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class Choices:
    """Entries of an output that are the largest of some entries of the operand, by flat positions.

    Every entry o of the output picks ``winners[o]`` at the centre. Elsewhere it may pick ``others[k]`` for the k with ``outputs[k]`` = o:
    its gradient is that of the winner plus sum_k c_k (that of others[k] - that of the winner) with all c_k in [0, 1].
    """

    winners: torch.Tensor
    outputs: torch.Tensor
    others: torch.Tensor


@dataclass(frozen=True, eq=False)
class Movement:
    """One move per operand, None for one in which the operation is linear.

    ``remainder`` has the least and the most that the output differs by from its linearisation; both have its shape. ``choices`` says more
    of a maximum over entries of its only operand.
    """

    moves: tuple[Move | None, ...]
    remainder: tuple[torch.Tensor, torch.Tensor] | None = None
    choices: Choices | None = None


MovementFunction: TypeAlias = Callable[[Node, tuple[Neighbourhood, ...]], Movement | None]


def slice_norms(tensor: torch.Tensor, axes: Iterable[int]) -> torch.Tensor:
    """The l2 norms of the slices of a tensor over some axes, which keep the size 1; of no axes the absolute values."""
    dims = tuple(axes)
    norms: torch.Tensor = torch.linalg.vector_norm(tensor, dim=dims, keepdim=True) if dims else tensor.abs()
    return norms


def either_way(size: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The least and the most of what is at most ``size`` in absolute value."""
    return -size, size


def product_movement(left: Neighbourhood, right: Neighbourhood, shape: tuple[int, ...]) -> Movement:
    """a b with broadcasting: the derivative in a moves by b - c_b, and d(ab) = c_b da + c_a db + da db.

    An entry of a that is repeated along some axes reaches the slice of the output over them, and nothing else does:
    the column b - c_b has at most the norm of that slice.
    """

    def move(varied: Neighbourhood, other: Neighbourhood) -> Move:
        moved = _broadcast(other.entries, varied, shape)
        return replace(moved, scale=moved.scale.clamp_max(other.radius)) if other.centre.shape == shape else moved

    return Movement((move(left, right), move(right, left)), either_way(left.entries * right.entries))


def matrix_product_movement(left: Neighbourhood, right: Neighbourhood, shape: tuple[int, ...]) -> Movement | None:
    """Batched matrix products of equal batches: block by block dA (B - C_B) has at most the Frobenius norm of B - C_B times that of dA."""
    if left.centre.dim() < 2 or left.centre.shape[:-2] != right.centre.shape[:-2]:
        return None
    moves = tuple(Move(other.over((-2, -1)).expand(shape)) for other in (right, left))
    return Movement(moves, either_way(left.over((-1,)) * right.over((-2,))))


@dataclass(frozen=True, eq=False)
class MovedProbabilities:
    """A softmax p over an axis at the centre, and how far it moves: the ``largest`` entry and the ``length`` of what it moves by."""

    centre: torch.Tensor
    largest: torch.Tensor
    length: torch.Tensor


def moved_probabilities(rows: Neighbourhood, axis: int) -> MovedProbabilities:
    """Logits that stray by at most t leave p within [p e^(-2t), p e^(2t)]; ||p - p_c|| <= ||dx|| / 2 and <= sqrt(2)."""
    p = rows.centre.softmax(axis)
    farthest = rows.entries.amax(axis, keepdim=True)
    grown = (p * torch.expm1(2 * farthest).clamp_max(1e300)).minimum(1 - p)
    entries = torch.maximum(grown, p * -torch.expm1(-2 * farthest))
    away = rows.over((axis,)) / 2
    length = slice_norms(entries, (axis,)).minimum(away).clamp_max(math.sqrt(2.0))
    return MovedProbabilities(p, entries.amax(axis, keepdim=True).minimum(away), length)


def softmax_movement(rows: Neighbourhood, axis: int) -> Movement:
    """J = diag(p) - p p^T. Of a slice, with e = p - p_c: ||J - J_c|| <= max |e| + ||e|| (2 ||p_c|| + ||e||).

    Both J are positive semidefinite with norms of at most 1/2, so that their difference has one of at most 1/2.
    """
    p = moved_probabilities(rows, axis)
    moved = p.largest + p.length * (2 * slice_norms(p.centre, (axis,)) + p.length)
    return Movement((Move(moved.clamp_max(0.5).expand(rows.centre.shape), (axis % rows.centre.dim(),)),))


def log_softmax_movement(rows: Neighbourhood, axis: int) -> Movement:
    """J = I - 1 p^T moves by -1 (p - p_c)^T, which has the norm sqrt(n) ||p - p_c|| over n entries; the function is concave."""
    shape = rows.centre.shape
    length = moved_probabilities(rows, axis).length
    move = Move((math.sqrt(shape[axis]) * length).expand(shape), (axis % rows.centre.dim(),))
    least = -(length * rows.over((axis,))).expand(shape)
    return Movement((move,), (least, torch.zeros_like(least)))


def quotient_movement(dividend: Neighbourhood, divisor: Neighbourhood, shape: tuple[int, ...]) -> Movement | None:
    """a / b: the derivatives 1 / b and -a / b^2 move; None where b may vanish. Broadcast entries are as in products.

    With |b| >= m: |1/b - 1/b_c| <= |db| / (m |b_c|), and |a/b^2 - a_c/b_c^2| <= |da| / m^2 + |a_c| |db| (2 |b_c| + |db|) / (m b_c)^2.
    """
    a, b = dividend.centre, divisor.centre.abs()
    away, off = dividend.entries, divisor.entries
    least = b - off
    if not bool((least > 0).all()):
        return None
    moved = (
        _broadcast(off / (least * b), dividend, shape),
        _broadcast(away / least.square() + a.abs() * off * (2 * b + off) / (least * b).square(), divisor, shape),
    )
    return Movement(moved)


def _broadcast(moved: torch.Tensor, varied: Neighbourhood, shape: tuple[int, ...]) -> Move:
    """A derivative that moves entry by entry; an entry of the operand that is repeated reaches the slice of the output over these axes."""
    own = (1,) * (len(shape) - varied.centre.dim()) + tuple(varied.centre.shape)
    repeated = tuple(a for a, (n, m) in enumerate(zip(own, shape, strict=True)) if n != m)
    return Move(slice_norms(moved.expand(shape), repeated).expand(shape), None if repeated else ())


def extremum_movement(left: Neighbourhood, right: Neighbourhood, largest: bool) -> Movement | None:
    """max(a, b), or min(a, b) = -max(-a, -b): t a + (1 - t) b with t in [0, 1], which is 0 or 1 where the order is certain.

    Above the entry w that is the larger one at the centre, max(a, b) is at most high_v - low_w, v the other one. At a tie automatic
    differentiation may take either, or their mean. None for operands of different shapes.
    """
    if left.centre.shape != right.centre.shape:
        return None
    if not largest:
        left, right = (replace(o, centre=-o.centre, below=o.above, above=o.below) for o in (left, right))
    rising = right.centre + right.above - (left.centre - left.below)
    falling = left.centre + left.above - (right.centre - right.below)
    uncertain = (rising >= 0) & (falling >= 0)
    above = torch.where(left.centre > right.centre, rising, falling)
    above = torch.where(left.centre == right.centre, rising.maximum(falling), above)
    above = torch.where(uncertain, above.clamp_min(0.0), 0.0)
    move = Move(uncertain.to(torch.float64), ())
    nothing = torch.zeros_like(above)
    return Movement((move, move), (nothing, above) if largest else (-above, nothing))
