"""What the nodes of a linearisation add to the bounds of a tensor, given its derivatives in the inputs and in these nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lipaudit.network.domain import Domain
from lipaudit.network.local.steps import Moving, Tensor
from lipaudit.rules.movement import Move, either_way, slice_norms

SLACK = 1 + 1e-9  # what float64 may have lost is far below this; figures are numerical
# The shorter sides of matrices whose spectral norms are computed.
_SIDE, _SIDE_OF_JACOBIAN = 256, 1024
_BLOCK = 32  # rows whose absolute values are summed up together


@dataclass(frozen=True, eq=False)
class Reach:
    """How far inputs are from the centre: ``length`` in l2, or ``half`` entry by entry in a box."""

    length: float
    half: torch.Tensor | None

    @property
    def is_ball(self) -> bool:
        """Whether it is a ball and no box."""
        return self.half is None

    def farthest(self, jacobian: torch.Tensor) -> torch.Tensor:
        """|J (x - c)|, row by row."""
        farthest = (
            torch.linalg.vector_norm(jacobian, dim=1) * self.length if self.half is None else jacobian.abs() @ self.half
        )
        assert isinstance(farthest, torch.Tensor)
        return farthest


def reach(domain: Domain) -> Reach:
    """The reach of a ball or a box."""
    lengths = [radii.total.upper for radii in domain.radii.values()]
    if domain.reach:
        half = torch.cat([domain.reach[name].flatten() for name in domain.centres]) * SLACK
        return Reach(float(torch.linalg.vector_norm(half)) * SLACK, half)
    return Reach(max(lengths), None)


@dataclass(frozen=True, eq=False)
class Bounds:
    """What holds of a tensor v, or of combinations of its entries, on the domain.

    Attributes:
        gradients: of the norms of the rows of J_v(x).
        linear: the norms of the rows of J_v, by which v moves to first order.
        below, above: J_v (x - c) + sum_z S_vz w_z lies within [-below, above], row by row.
        error: of |v(c) - v~|, v~ the computed value; v(x) - v~ lies within [-below - error, above + error].
        norm: of ||J_v(x)||.
    """

    gradients: torch.Tensor
    linear: torch.Tensor
    below: torch.Tensor
    above: torch.Tensor
    error: torch.Tensor
    norm: float


class Sums:
    """Adds up what the nodes contribute to the bounds of a tensor, from chunks of the rows of J_v and S_vz.

    ``whole``: all rows come in one chunk.
    """

    def __init__(self, where: Reach, whole: bool) -> None:
        self._reach, self._whole = where, whole
        self._squares, self._norm = 0.0, math.inf
        self._rows: list[tuple[torch.Tensor, ...]] = []

    def add(self, jacobian: torch.Tensor, tails: Sequence[tuple[Moving, torch.Tensor]], error: torch.Tensor) -> None:
        """One chunk: J_v, S_vz for every node that v depends on, and what rounding in other nodes moves every row by."""
        rows = torch.linalg.vector_norm(jacobian, dim=1)
        below = above = self._reach.farthest(jacobian)
        together, apart = torch.zeros_like(rows), 0.0
        for term, tail in tails:
            least, most = _remainder(term, tail)
            below, above = below - least, above + most
            error = error + absolute_sums(tail, term.error)
            for move, operand, _ in term.moves:
                own = _rows(move, operand, tail)
                together = together + own
                if self._whole:
                    apart += min(_spectral(move, operand, tail), float(torch.linalg.vector_norm(own)))
        self._rows.append((rows + together, rows, below, above, error))
        self._squares += float((rows + together).square().sum())
        self._norm = math.sqrt(self._squares)
        if self._whole:
            size = matrix_norm(jacobian, _SIDE_OF_JACOBIAN)
            self._norm = min(self._norm, size + apart, size + float(torch.linalg.vector_norm(together)))

    def bounds(self, shape: torch.Size) -> Bounds:
        """Of all rows, in a shape."""
        rows = [torch.cat(parts).reshape(shape) * SLACK for parts in zip(*self._rows, strict=True)]
        return Bounds(rows[0], rows[1], rows[2], rows[3], rows[4], self._norm * SLACK)


def _gains(move: Move, operand: Tensor) -> torch.Tensor:
    """The norms of the slices of J_u(x) that a block reads."""
    assert move.axes is not None
    if move.gains is not None:
        return move.gains
    return slice_norms(operand.gradients, move.axes).clamp_max(operand.norm)


def _rows(move: Move, operand: Tensor, tail: torch.Tensor) -> torch.Tensor:
    """Row by row a bound of ||S diag(scale) E J_u(x)||."""
    scaled = tail * move.scale
    whole: torch.Tensor = torch.linalg.vector_norm(as_rows(scaled), dim=1) * operand.norm
    if move.axes is None:
        return whole
    blocks = slice_norms(scaled, [axis + 1 for axis in move.axes]) * _gains(move, operand)
    return as_rows(blocks).sum(1).minimum(whole)


def _remainder(term: Moving, tail: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Row by row the least and the most of S w."""
    if term.movement.remainder is not None:
        least, most = term.movement.remainder
        if not bool((least != 0).any()) and not bool((most != 0).any()):
            nothing = torch.zeros(len(tail), dtype=torch.float64)
            return nothing, nothing
        up, down = as_rows(tail.clamp_min(0.0)), as_rows(tail.clamp_max(0.0))
        return up @ least.flatten() + down @ most.flatten(), up @ most.flatten() + down @ least.flatten()
    total = torch.zeros(len(tail), dtype=torch.float64)
    for move, operand, _ in term.moves:
        scaled = tail * move.scale
        whole = torch.linalg.vector_norm(as_rows(scaled), dim=1) * operand.radius
        if move.axes is not None:
            blocks = slice_norms(scaled, [axis + 1 for axis in move.axes]) * operand.neighbourhood.over(move.axes)
            whole = as_rows(blocks).sum(1).minimum(whole)
        total = total + whole
    return either_way(total)


def _spectral(move: Move, operand: Tensor, tail: torch.Tensor) -> float:
    """||S diag(scale)|| times the norm of the part of J_u(x) that the blocks with a scale read; or unit by unit."""
    scaled = tail * move.scale
    norm = operand.norm
    apart = math.inf
    if move.axes is not None:
        gains = _gains(move, operand)
        active = slice_norms(move.scale.expand(tail.shape[1:]), move.axes) > 0
        norm = min(norm, float(torch.linalg.vector_norm(gains[active])))
        columns = torch.linalg.vector_norm(scaled, dim=(0, *(axis + 1 for axis in move.axes)), keepdim=True)[0]
        apart = float((columns * gains).sum())
    return min(matrix_norm(as_rows(scaled), _SIDE) * norm, apart)


def absolute_sums(batch: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Row by row |S| w, block by block in one small buffer: to allot a large one takes longer than the sums."""
    rows = as_rows(batch)
    buffer = rows.new_empty(min(len(rows), _BLOCK), rows.shape[1])
    parts = [torch.abs(part, out=buffer[: len(part)]) @ weights.flatten() for part in torch.split(rows, _BLOCK)]
    return torch.cat(parts)


def as_rows(batch: torch.Tensor) -> torch.Tensor:
    """A batch of tensors as rows of a matrix, those without axes as rows of one entry."""
    return batch.unsqueeze(1).flatten(1)


def matrix_norm(matrix: torch.Tensor, side: int) -> float:
    """The spectral norm by the eigenvalues of the smaller Gram matrix, the Frobenius norm of a matrix whose sides are longer."""
    frobenius = float(torch.linalg.vector_norm(matrix))
    if min(matrix.shape) > side or frobenius == 0 or not math.isfinite(frobenius):
        return frobenius
    scaled = matrix / frobenius
    gram = scaled @ scaled.T if len(scaled) <= scaled.shape[1] else scaled.T @ scaled
    largest = float(torch.linalg.eigvalsh(gram)[-1])
    return min(frobenius, frobenius * math.sqrt(max(largest, 0.0) + 1e-14))
