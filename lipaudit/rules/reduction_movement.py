"""How far the derivatives of reductions and of order statistics move: every slice over some axes is one row of n entries.

``rows`` are the slices of a :class:`~lipaudit.rules.movement.Neighbourhood`, of shape (remaining axes, n); x is one of them, c its centre
and r >= ||x - c||. Results have the shape (remaining axes), order statistics (remaining axes, ranks).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch

from lipaudit.rules.movement import Move, Movement, Neighbourhood, moved_probabilities, slice_norms

# Entries of the tensor that says which entry of a slice may have which rank.
_LARGEST = 2**23
_UP = 1 + 2.0**-40
# so large that what is added to sums of squares does not count beside multiples by it
_MANY = 2.0**60


def rows_over(tensor: torch.Tensor, axes: Iterable[int]) -> torch.Tensor:
    """The slices over some axes along the last axis, the remaining axes in their order in front."""
    over = [a for a in range(tensor.dim()) if a in set(axes)]
    kept = [a for a in range(tensor.dim()) if a not in over]
    return tensor.permute(*kept, *over).flatten(len(kept)) if over else tensor.unsqueeze(-1)


def slices(operand: Neighbourhood, axes: Iterable[int]) -> Neighbourhood:
    """A neighbourhood as rows."""
    parts = (operand.centre, operand.below, operand.above, operand.gradients)
    centre, below, above, gradients = (rows_over(part, axes) for part in parts)
    return replace(operand, centre=centre, below=below, above=above, gradients=gradients)


def ranked_movement(
    rows: Neighbourhood, ranks: Sequence[int], arrange: Callable[[torch.Tensor], torch.Tensor]
) -> Movement | None:
    """Order statistics x_(k), k in ``ranks`` counted from the smallest (0); None where there are too many to compare.

    Entry j has one of the ranks from #{i: high_i < low_j} to n - 1 - #{i: low_i > high_j}. A rank that one entry alone may have picks it,
    and is linear. Elsewhere the row of the Jacobian is a unit vector that moves to another one: at most sqrt(2) for one rank, for several
    2, the norm of the difference of two parts of permutations; the gradient moves by at most the sum of the two steepest candidates. Where
    entries are equal at the centre, automatic differentiation may take a mean of unit vectors, to which this applies by convexity.

    x_(k) lies between the order statistics of the lower and of the upper ends, and the entry w that it is at the centre between its own.

    Args:
        rows: the slices.
        ranks: which order statistics are outputs.
        arrange: brings a tensor of the shape (remaining axes, ranks) to the shape of the output.
    """
    low, high = rows.centre - rows.below, rows.centre + rows.above
    count = rows.centre.shape[-1]
    if rows.centre.numel() * len(ranks) > _LARGEST or not bool(torch.isfinite(low + high).all()):
        return None
    chosen = torch.tensor(ranks)
    lows, highs, centres = (t.sort(-1).values.contiguous() for t in (low, high, rows.centre))
    first = torch.searchsorted(highs, low.contiguous())
    last = torch.searchsorted(lows, high.contiguous(), right=True) - 1
    wanted = chosen[:, None]
    candidates = (first[..., None, :] <= wanted) & (wanted <= last[..., None, :])
    tied = rows.centre[..., None, :] == centres[..., chosen, None]
    uncertain = candidates.sum(-1) > 1
    most = highs[..., chosen] - low[..., None, :].masked_fill(~tied, math.inf).amin(-1)
    least = lows[..., chosen] - high[..., None, :].masked_fill(~tied, -math.inf).amax(-1)
    steep = (rows.gradients[..., None, :] * candidates).topk(min(2, count), -1).values.sum(-1)
    size = (math.sqrt(2.0) if len(ranks) == 1 else 2.0) * _UP
    scale = uncertain.to(torch.float64) * size
    move = Move(arrange(scale), (), arrange(torch.where(uncertain, steep / size, 0.0)))
    remainder = (
        torch.where(uncertain, least.clamp_max(0.0), 0.0),
        torch.where(uncertain, most.clamp_min(0.0), 0.0),
    )
    return Movement((move,), (arrange(remainder[0]), arrange(remainder[1])))


def _reduced(moved: torch.Tensor, rows: Neighbourhood, most: torch.Tensor, shape: tuple[int, ...]) -> Movement:
    """A convex function of every row: its gradient moves by ``moved``, and it is above its linearisation, by ``most`` at most."""
    gains = slice_norms(rows.gradients, (-1,)).squeeze(-1)
    most = (most * _UP).reshape(shape)
    return Movement((Move((moved * _UP).reshape(shape), (), gains.reshape(shape)),), (torch.zeros_like(most), most))


def _radius(rows: Neighbourhood) -> torch.Tensor:
    return rows.over((-1,)).squeeze(-1)


def _centred(rows: torch.Tensor, centre: bool) -> torch.Tensor:
    return rows - rows.mean(-1, keepdim=True) if centre else rows


def norm_movement(rows: Neighbourhood, shape: tuple[int, ...], centred: bool = False, divisor: float = 1.0) -> Movement:
    """||x|| / d, or ||P x|| / d where P removes the mean (``centred``).

    The gradients are unit vectors, of which ||x / ||x|| - c / ||c|| || <= 2 ||x - c|| / (||x|| + ||c||) (Dunkl and Williams 1964), and
    ||x|| >= ||c|| - r. By convexity a norm is never below its linearisation.
    """
    radius = _radius(rows)
    length = slice_norms(_centred(rows.centre, centred), (-1,)).squeeze(-1)
    moved = torch.where(radius < length, 2 * radius / (2 * length - radius), 2.0).clamp_max(2.0) / divisor
    return _reduced(moved, rows, moved * radius, shape)


def power_mean_movement(
    mean: Callable[..., torch.Tensor], operands: Sequence[Neighbourhood], factors: Sequence[float]
) -> Movement | None:
    """y_j = sqrt(max(sum_i A_ji u_i^2 + e, m)) with A >= 0, e >= 0, m >= 0: entries of pooled or filtered squares.

    y_j is the norm of w = (sqrt(A_ji) u_i, sqrt(e)) where m does not count. With r_j^2 = sum_i A_ji (u_i - c_i)^2 it is at least
    y_j(c) - r_j, and where that is above y_j(0) >= sqrt(m) the unit vector w / |w| moves by at most 2 r_j / (2 y_j(c) - r_j), as that of
    any norm. Elsewhere it moves by at most 2. A row d_j of changes becomes d_ji sqrt(A_ji) in the operand u: for |d_j| <= 1 these rows make
    up a matrix of norm at most the factor f = max_i sqrt(sum_j A_ji), and take gradients g_i to sqrt(sum_i A_ji g_i^2) at most.

    Sums without e and m are what the mean of large multiples tends to: sqrt(max(K^2 s + e, m)) / K >= sqrt(s).

    None where an entry is 0 at the centre, where automatic differentiation has no derivative.

    Args:
        mean: y of the operands.
        operands: where they stay.
        factors: f of each operand.
    """
    centre = mean(*(operand.centre for operand in operands))
    sizes = [t for operand in operands for t in (operand.entries, operand.gradients)]
    if not bool((centre > 0).all()) or not all(bool(torch.isfinite(t).all()) for t in sizes) or 0.0 in factors:
        return None

    def sums(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        largest = max(max(float(t.max()) for t in tensors), 1e-200)
        return mean(*(t / largest * _MANY for t in tensors)) / _MANY * largest * _UP

    nothing = [torch.zeros_like(operand.centre) for operand in operands]
    radius = sums([operand.entries for operand in operands])
    smooth = centre - radius > mean(*nothing)
    moved = torch.where(smooth, 2 * radius / (2 * centre - radius), 2.0).clamp_max(2.0) * _UP
    moves = []
    for k, (operand, factor) in enumerate(zip(operands, factors, strict=True)):
        gains = sums([operand.gradients if i == k else t for i, t in enumerate(nothing)]) / factor
        moves.append(Move(moved * factor, (), gains * _UP))
    most = moved * radius * _UP
    return Movement(tuple(moves), (torch.zeros_like(most), most))


def variance_movement(rows: Neighbourhood, shape: tuple[int, ...], divisor: float) -> Movement:
    """||P x||^2 / d: the gradient 2 P x / d moves by at most 2 r / d, and the rest is ||P (x - c)||^2 / d."""
    radius = _radius(rows)
    return _reduced(2 * radius / divisor, rows, radius.square() / divisor, shape)


def logsumexp_movement(rows: Neighbourhood, shape: tuple[int, ...]) -> Movement:
    """log sum exp x: the gradient is the softmax of x, and the function is convex."""
    moved = moved_probabilities(rows, -1).length.squeeze(-1)
    return _reduced(moved, rows, moved * _radius(rows), shape)
