"""Pooling. Max pooling picks entries, average pooling is a separable linear map.

Max pooling: |max over W of x - max over W of y|^2 <= sum over W of |x - y|^2, and a position counts once per window
that contains it, so that the constant is the root of the largest number of windows covering one position. It is
attained by an entry larger than its neighbours. Padding and ceil mode only change which windows exist.

Average pooling: the matrix is the Kronecker product of one matrix per axis, with every option of the divisor.
"""

from __future__ import annotations

import math

import torch

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.induced_facets import picked
from lipaudit.rules.interval_facets import ZERO, entries_and_places, entries_of_input
from lipaudit.rules.movement import Choices, Move, Movement, Neighbourhood
from lipaudit.rules.norm import Norm
from lipaudit.rules.operands import data, integers, number, root, rounded, stretch
from lipaudit.rules.region.axes import along
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Axes, Radii, merged
from lipaudit.rules.rule import operations
from lipaudit.spectral.absolute_sums import largest_sums
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval
from lipaudit.spectral.separable import (
    adaptive_windows,
    averaging_matrix,
    axis_norm,
    largest_cover,
    padded_lengths,
    pooling_windows,
    separable_norm,
)

# Entries of one axis's matrix; an eighth of a gigabyte in float64.
MATRIX_LIMIT = 2**24
MAX_POOL = operations(*aten(*(f"max_pool{d}d" for d in (1, 2, 3))))
MAX_POOL_AND_PLACES = operations(*aten(*(f"max_pool{d}d_with_indices" for d in (1, 2, 3))))
ADAPTIVE_MAX_POOL = operations(*aten(*(f"adaptive_max_pool{d}d" for d in (1, 2, 3))))
AVG_POOL = operations(*aten(*(f"avg_pool{d}d" for d in (1, 2, 3))))
ADAPTIVE_AVG_POOL = operations(*aten(*(f"adaptive_avg_pool{d}d" for d in (1, 2, 3))))


def axis_tolerance(settings: Settings) -> float:
    """The tolerance of one axis's norm, so that the product over three axes keeps the whole one."""
    return max(settings.norms.tolerance / 4, 1e-9)


def _axes(node: Node) -> int:
    """The number of pooled axes, from the operation's name."""
    return int(node.op[node.op.index("pool") + 4])


def _spatial(node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of the pooled axes before and after."""
    axes = _axes(node)
    return data(node, "self").shape[-axes:], node.outputs[0].shape[-axes:]


def _windows(node: Node) -> list[list[range]]:
    """The windows of every axis; an empty stride is the kernel size."""
    sizes, outputs = _spatial(node)
    if node.op in ADAPTIVE_MAX_POOL.names:
        return [adaptive_windows(*axis) for axis in zip(sizes, outputs, strict=True)]
    kernel = integers(node, "kernel_size", len(sizes))
    stride = integers(node, "stride", len(sizes)) or kernel
    padding = integers(node, "padding", len(sizes))
    dilation = integers(node, "dilation", len(sizes)) if "dilation" in node.arguments else (1,) * len(sizes)
    return [pooling_windows(*axis) for axis in zip(sizes, outputs, kernel, stride, padding, dilation, strict=True)]


@(MAX_POOL | MAX_POOL_AND_PLACES).constant(
    formula="sqrt(product over the axes of the largest number of windows over one position)",
    source="one entry of each window is picked",
    exact=True,
)
def max_pool(node: Node, _settings: Settings) -> Effect:
    """3x3 windows with stride 2 cover a pixel up to 4 times: 2; without overlap 1."""
    windows = _windows(node)
    if _reads_padding_only(windows):
        return Effect.unsupported("a window of max pooling reads padding only: its output is minus infinity")
    return stretch(node, {"self": root(math.prod(largest_cover(axis) for axis in windows))})


@ADAPTIVE_MAX_POOL.constant(
    formula="sqrt(product over the axes of the largest number of windows over one position)",
    source="one entry of each window is picked",
    exact=True,
)
def adaptive_max_pool(node: Node, _settings: Settings) -> Effect:
    """Max pooling to a given size; windows overlap where it does not divide the input's."""
    return stretch(node, {"self": root(math.prod(largest_cover(axis) for axis in _windows(node)))})


@AVG_POOL.constant(
    formula="product over the axes of sigma_1 of the 1-D averaging matrix",
    source="sigma_1 of a Kronecker product is the product of sigma_1",
    exact=True,
)
def avg_pool(node: Node, settings: Settings) -> Effect:
    """Average pooling with padding, ceil mode, count_include_pad and divisor_override."""
    effect = _average(*_averages(node), node, settings)
    if node.get("divisor_override") is None or not effect.factors:
        return effect
    return stretch(node, {"self": effect.factors[0] * _override(node)})


def _override(node: Node) -> Bracket:
    """1 / |divisor| for a divisor of one's own, 1 without."""
    return (
        Bracket.exact(1.0)
        if node.get("divisor_override") is None
        else rounded(1 / abs(number(node, "divisor_override")))
    )


def _averages(node: Node) -> tuple[list[list[range]], tuple[int, ...], list[list[int]]]:
    """Windows, sizes and divisors of every axis; a divisor of one's own counts as 1."""
    sizes, outputs = _spatial(node)
    if node.op in ADAPTIVE_AVG_POOL.names:
        windows = [adaptive_windows(n, m) for n, m in zip(sizes, outputs, strict=True)]
        return windows, sizes, [[len(w) for w in axis] for axis in windows]
    kernel = integers(node, "kernel_size", len(sizes))
    stride = integers(node, "stride", len(sizes)) or kernel
    padding = integers(node, "padding", len(sizes))
    windows = _windows(node)
    if node.get("divisor_override") is not None:
        divisors = [[1] * m for m in outputs]
    elif node["count_include_pad"]:
        divisors = [padded_lengths(*axis) for axis in zip(sizes, outputs, kernel, stride, padding, strict=True)]
    else:
        divisors = [[len(w) for w in axis] for axis in windows]
    return windows, sizes, divisors


@ADAPTIVE_AVG_POOL.constant(
    formula="product over the axes of sigma_1 of the 1-D averaging matrix (1 / sqrt(n) for global pooling)",
    source="sigma_1 of a Kronecker product is the product of sigma_1",
    exact=True,
)
def adaptive_avg_pool(node: Node, settings: Settings) -> Effect:
    """Average pooling to a given size."""
    return _average(*_averages(node), node, settings)


def _average(
    windows: list[list[range]], sizes: tuple[int, ...], divisors: list[list[int]], node: Node, settings: Settings
) -> Effect:
    norms: dict[object, Bracket] = {}  # the axes of an image mostly share one matrix
    brackets = []
    for axis, size, divisor in zip(windows, sizes, divisors, strict=True):
        if len(axis) * size > MATRIX_LIMIT:
            return Effect.unsupported(
                f"pooling {size} entries to {len(axis)} takes a matrix of more than {MATRIX_LIMIT} entries; "
                "audit a smaller input"
            )
        key = (tuple(axis), size, tuple(divisor))
        if key not in norms:
            # one rounded division per entry
            norms[key] = axis_norm(
                averaging_matrix(axis, size, divisor), entry_error=2.0**-52, tol=axis_tolerance(settings)
            )
        brackets.append(norms[key])
    return stretch(node, {"self": separable_norm(brackets)})


(MAX_POOL | MAX_POOL_AND_PLACES | ADAPTIVE_MAX_POOL).induced_norm(picked)


@(AVG_POOL | ADAPTIVE_AVG_POOL).induced_norm
def averages_in_norm(node: Node, _effect: Effect, norm: Norm) -> Effect:
    """The largest sums of a row, or of a column, of one matrix per axis multiply."""
    factor = _override(node)
    for windows, size, divisors in zip(*_averages(node), strict=True):
        sums = largest_sums(averaging_matrix(windows, size, divisors))[norm is Norm.L1]
        factor = factor * sums * rounded(1.0, 2.0**-52)  # one rounded division per entry
    return stretch(node, {"self": factor})


@(MAX_POOL | MAX_POOL_AND_PLACES | ADAPTIVE_MAX_POOL | AVG_POOL | ADAPTIVE_AVG_POOL).radii
def pooled_deviations(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Windows of each channel by itself; an average and a maximum stray no further than the entries of the window."""
    (operand,) = operands
    d = _axes(node)
    rank = len(operand.shape)
    pooled = []
    for output in node.outputs:
        mapped = along(operand, effect.factors[0], range(rank - d, rank), output.shape)
        if node.get("divisor_override") is not None:
            pooled.append(mapped)
            continue
        inner: dict[Axes, float] = {
            t: operand.spread(t).log_upper for t in {Axes(), *operand.radii.logs} if not any(a >= rank - d for a in t)
        }
        # windows that cover an entry twice repeat it: across positions the largest deviation counts, so no position axis
        pooled.append(merged(mapped, {t: x for t, x in inner.items() if "max" not in node.op or not t}))
    return tuple(pooled)


(MAX_POOL | MAX_POOL_AND_PLACES | ADAPTIVE_MAX_POOL).interval(entries_and_places)
ADAPTIVE_AVG_POOL.interval(entries_of_input)


@AVG_POOL.interval
def averaged_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Means of entries and of zeros around them; a divisor of one's own gives no claim."""
    return Interval() if node.get("divisor_override") is not None else intervals[0].union(ZERO)


@(MAX_POOL | MAX_POOL_AND_PLACES | ADAPTIVE_MAX_POOL).movement
def winners_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """A window whose largest entry w is certain picks it, and is linear; elsewhere another candidate j may be picked.

    Two entries of a window: |v_j - v_w|^2 <= 2 (v_j^2 + v_w^2), summed over windows at most twice the largest cover of a position. The
    gradient moves from that of w to that of j. The largest entry is at least v_w and at most max(v_w, max_j v_j), so that it is above
    v_w by at most max_j high_j - low_w. Of several that are largest at the centre each may be the one that automatic differentiation
    takes for w.
    """
    (rows,) = operands
    windows = _windows(node)
    if _reads_padding_only(windows):
        return None
    axes, shape = len(windows), node.outputs[0].shape
    members = _members(windows, tuple(rows.centre.shape[-axes:]))

    def gathered(tensor: torch.Tensor, filler: float) -> torch.Tensor:
        return tensor.flatten(-axes)[..., members.clamp_min(0)].masked_fill(members < 0, filler)

    centre = gathered(rows.centre, -math.inf)
    lowest, highest = gathered(rows.centre - rows.below, -math.inf), gathered(rows.centre + rows.above, -math.inf)
    winners = centre == centre.amax(-1, keepdim=True)
    candidates = winners | (highest >= lowest.amax(-1, keepdim=True))
    others = candidates & ~(winners & (winners.sum(-1, keepdim=True) == 1))
    away = highest.masked_fill(~others, -math.inf).amax(-1) - lowest.masked_fill(~winners, math.inf).amin(-1)
    two = (gathered(rows.gradients, 0.0) * candidates).topk(min(2, len(members[0])), -1).values.sum(-1)
    most = math.sqrt(2.0 * math.prod(largest_cover(axis) for axis in windows)) * (1 + 2.0**-50)
    uncertain = candidates.sum(-1) > 1
    scale = uncertain.to(torch.float64) * most
    move = Move(scale.reshape(shape), (), torch.where(uncertain, two / most, 0.0).reshape(shape))
    most_above = away.clamp_min(0.0).reshape(shape)
    remainder = (torch.zeros_like(most_above), most_above)
    return Movement((move,), remainder, _choices(members, centre, candidates, rows.centre))


def _choices(members: torch.Tensor, centre: torch.Tensor, candidates: torch.Tensor, operand: torch.Tensor) -> Choices:
    """The winner of every window and the other candidates; tensors are (leading axes, windows, entries)."""
    size = math.prod(operand.shape[centre.dim() - 2 :])
    first = torch.arange(operand.numel() // size).reshape(*centre.shape[:-2], 1, 1) * size
    positions = (first + members).flatten(0, -2)
    best = centre.argmax(-1, keepdim=True)
    others = candidates.scatter(-1, best, False).flatten(0, -2).nonzero()
    return Choices(
        positions.gather(1, best.flatten()[:, None])[:, 0], others[:, 0], positions[others[:, 0], others[:, 1]]
    )


def _reads_padding_only(windows: list[list[range]]) -> bool:
    return any(len(window) == 0 for axis in windows for window in axis)


def _members(windows: list[list[range]], sizes: tuple[int, ...]) -> torch.Tensor:
    """(windows, entries): the flat positions of the entries of every window, -1 where a window has fewer."""
    flat = torch.zeros(1, 1, dtype=torch.long)
    for axis, size in zip(windows, sizes, strict=True):
        widest = max(len(window) for window in axis)
        own = torch.tensor([[*window, *(-1,) * (widest - len(window))] for window in axis])
        joined = flat[:, None, :, None] * size + own[None, :, None, :]
        lacking = (flat < 0)[:, None, :, None] | (own < 0)[None, :, None, :]
        flat = torch.where(lacking, -1, joined).flatten(2).flatten(0, 1)
    return flat
