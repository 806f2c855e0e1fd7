"""Every entry picks one of several tensors: by a constant condition, the larger or the smaller, the pairs of a tensor in order.

||f(x, y) - f(x', y')||^2 <= c_x^2 ||x - x'||^2 + c_y^2 ||y - y'||^2, c^2 the number of entries that may pick one entry of an operand.
"""

from __future__ import annotations

import math

import torch

from lipaudit.graph.node import Constant, Node
from lipaudit.graph.ops import aten
from lipaudit.graph.passes.max_min_pairs import ORDERED_PAIRS, OrderedPairs
from lipaudit.graph.passes.sector_pairs import SECTOR_PAIRS, SectorPairs
from lipaudit.rules.effect import Combination, Effect, Settings
from lipaudit.rules.induced_facets import picked, same_in_every_norm
from lipaudit.rules.interval_facets import entries_of_input
from lipaudit.rules.movement import Move, Movement, Neighbourhood, extremum_movement
from lipaudit.rules.norm import Norm
from lipaudit.rules.operands import count_refs, interval_of_operand, repeats, root, shape_of, stretch
from lipaudit.rules.radii_facets import picked_entries
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.interval import Interval

WHERE = operations(*aten("where.self"))
MASKED_FILL = operations(*aten("masked_fill.Tensor"))
EXTREMUM = operations(*aten("maximum", "minimum"))
CLAMP_TO_TENSOR = operations(*aten("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor"))
PAIRS = operations(ORDERED_PAIRS)
SECTORS = operations(SECTOR_PAIRS)


@WHERE.constant(
    formula="sqrt(largest number of copies) each, root of the sum of squares",
    source="every entry picks one of two inputs by a constant condition", exact=True,
)  # fmt: skip
def where(node: Node, _settings: Settings) -> Effect:
    """Picks by a constant condition; a data-dependent condition makes the result jump from one input to the other."""
    if count_refs(node["condition"]):
        return Effect.unbounded(
            "where picks by a data-dependent condition: the result jumps where the condition changes"
        )
    return _picked(node, node["condition"], "self", "other")


WHERE.radii(picked_entries)


@WHERE.interval
def chosen_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of both tensors."""
    return interval_of_operand(node, "self", intervals).union(interval_of_operand(node, "other", intervals))


@MASKED_FILL.constant(
    formula="1 where the mask leaves the input, root of the sum of squares",
    source="every entry picks one of two inputs by a constant mask", exact=True,
)  # fmt: skip
def masked_fill(node: Node, _settings: Settings) -> Effect:
    """Fills a constant mask with a value; a data-dependent mask makes the result jump."""
    if count_refs(node["mask"]):
        return Effect.unbounded("masked_fill with a data-dependent mask jumps where the mask changes")
    return _picked(node, node["mask"], "value", "self")


MASKED_FILL.radii(picked_entries)


@MASKED_FILL.interval
def filled_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of the input, and the value."""
    return interval_of_operand(node, "self", intervals).union(interval_of_operand(node, "value", intervals))


def _picked(node: Node, condition: object, yes: str, no: str) -> Effect:
    """Each element of ``yes`` counts once per entry of the output that it reaches where the condition holds."""
    if not isinstance(condition, Constant):
        return Effect.unsupported(f"{node.op.split('.')[1]} with a condition that is no tensor")
    mask = condition.value.detach().to("cpu", torch.bool)
    anywhere = torch.ones_like(mask)
    factors: dict[str, Bracket | float] = {}
    for key, chosen in ((yes, mask if condition.known else anywhere), (no, ~mask if condition.known else anywhere)):
        if count_refs(node[key]):
            factors[key] = root(_largest_reach(chosen, shape_of(node[key]), node.output.shape))
    return stretch(node, factors, Combination.ROOT_SUM_SQUARES)


def _largest_reach(chosen: torch.Tensor, shape: tuple[int, ...], output: tuple[int, ...]) -> int:
    """The largest number of chosen output entries that one element of an operand of ``shape`` is broadcast to."""
    axes = len(output)
    operand = (1,) * (axes - len(shape)) + shape
    counts = chosen.to(torch.int64).reshape((1,) * (axes - chosen.dim()) + tuple(chosen.shape))
    copies = 1
    for axis in range(axes):
        if operand[axis] == 1 and output[axis] > 1:
            if counts.shape[axis] == 1:
                copies *= output[axis]
            else:
                counts = counts.sum(axis, keepdim=True)
    return copies * (int(counts.max()) if counts.numel() else 0)


@operations(*EXTREMUM.names, *CLAMP_TO_TENSOR.names).constant(
    formula="sqrt(copies by broadcasting) each, root of the sum of squares",
    source="|max(a, b) - max(a', b')| <= max(|a - a'|, |b - b'|) in every entry", exact=True,
)  # fmt: skip
def extremum(node: Node, _settings: Settings) -> Effect:
    """The larger or smaller of several tensors in every entry."""
    factors: dict[str, Bracket | float] = {
        name: root(repeats(argument, node.output)) for name, argument in node.arguments.items() if count_refs(argument)
    }
    return stretch(node, factors, Combination.ROOT_SUM_SQUARES)


for _group in (EXTREMUM, CLAMP_TO_TENSOR):
    _group.radii(picked_entries)


@EXTREMUM.interval
def extreme_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The larger or the smaller of two entries."""
    left, right = interval_of_operand(node, "self", intervals), interval_of_operand(node, "other", intervals)
    return left.maximum(right) if ".max" in node.op else left.minimum(right)


@CLAMP_TO_TENSOR.interval
def clamped_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """min(max(x, low), high) with tensors for limits."""
    image = interval_of_operand(node, "self", intervals)
    if node.get("min") is not None:
        image = image.maximum(interval_of_operand(node, "min", intervals))
    return image if node.get("max") is None else image.minimum(interval_of_operand(node, "max", intervals))


@(EXTREMUM | CLAMP_TO_TENSOR).movement
def extremum_moves(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """The larger or the smaller of two data-dependent entries; a clamp with one limit is that."""
    if len(operands) != 2 or (node.get("min") is not None and node.get("max") is not None):
        return None
    largest = node.op.startswith(("aten.maximum", "aten.clamp_min")) or node.get("min") is not None
    return extremum_movement(*operands, largest=largest)


@PAIRS.constant(formula="1", source="order statistics: sorting brings two vectors no further apart", exact=True)
def ordered_pairs(node: Node, _settings: Settings) -> Effect:
    """Pairs of entries put in order (MaxMin, GroupSort of pairs), other entries left where they are."""
    return stretch(node, {"self": 1.0})


@PAIRS.radii
def ordered_radii(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A slice along the axis of the pairs is ordered by itself; an entry strays as far as the farther one of its pair.

    A slice across that axis holds of every pair one entry: at most what both stray, sqrt(2) times as far as one.
    """
    axis = node.payload.axis
    logs = {
        axes: log if not axes or axis in axes else (root(2) * Bracket(-math.inf, log)).log_upper
        for axes, log in operands[0].radii.logs.items()
    }
    return (Radii(node.output.shape, logs).sharpest(),)


@PAIRS.movement
def ordered_pairs_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """A pair that keeps its order picks what it picks at the centre; any other may be exchanged.

    Of a pair a, b that may be exchanged the derivative is B + t [[1, -1], [-1, 1]] with |t| <= 1, whose norm moves by at most 2, and the
    gradients of both outputs by at most |grad a| + |grad b|. max(a, b) is at least the entry w that is the larger one at the centre, and
    above it by at most high_v - low_w, v the other one; min(a, b) = a + b - max(a, b). At a tie B may pick either, or their mean.
    """
    payload: OrderedPairs = node.payload
    if len({block for pair in payload.pairs for block in pair}) < 2 * len(payload.pairs):
        return None
    (rows,) = operands
    scale, gains, least, most = (torch.zeros_like(rows.centre) for _ in range(4))
    blocks = [
        t.split(payload.sizes, payload.axis)  # type: ignore[no-untyped-call]
        for t in (rows.centre, rows.centre - rows.below, rows.centre + rows.above, rows.gradients)
    ]
    views = [t.split(payload.sizes, payload.axis) for t in (scale, gains, least, most)]  # type: ignore[no-untyped-call]
    for a, b in payload.pairs:
        (centre_a, centre_b), (low_a, low_b), (high_a, high_b), (steep_a, steep_b) = ((t[a], t[b]) for t in blocks)
        kept = (low_a > high_b) | (low_b > high_a)
        rising, falling = high_b - low_a, high_a - low_b  # of b above a, and of a above b
        above = torch.where(
            centre_a > centre_b, rising, torch.where(centre_a < centre_b, falling, rising.maximum(falling))
        )
        above = torch.where(kept, 0.0, above.clamp_min(0.0))
        for block in (a, b):
            views[0][block].copy_(torch.where(kept, 0.0, 2.0))
            views[1][block].copy_(torch.where(kept, 0.0, (steep_a + steep_b) / 2))
        views[2][b].copy_(-above)
        views[3][a].copy_(above)
    return Movement((Move(scale, (), gains),), (least, most))


PAIRS.interval(entries_of_input)


@SECTORS.constant(
    formula="the largest norm of its matrices",
    source="a continuous function that is linear on sectors: the segment between two points is cut at their boundaries", exact=True,
)  # fmt: skip
def sector_pairs(node: Node, _settings: Settings) -> Effect:
    """A function of pairs of entries that is linear on sectors, such as a Householder activation."""
    payload: SectorPairs = node.payload
    exact = len(payload.leaves) == 1  # of one number both sides are 0 at 0
    constant = Bracket.between(payload.constant * (1 - 2.0**-38), payload.constant, _rigor(exact))
    note = "" if exact else f"written out; both sides of every boundary agree up to {payload.gap:.1e}"
    return stretch(node, {"self": constant}, note=note)


def _rigor(exact: bool) -> Rigor:
    return Rigor.CERTIFIED if exact else Rigor.NUMERICAL


for _group in (WHERE, MASKED_FILL, EXTREMUM, CLAMP_TO_TENSOR):
    _group.induced_norm(picked)
PAIRS.induced_norm(same_in_every_norm)


@SECTORS.induced_norm
def sectors_in_norm(node: Node, effect: Effect, norm: Norm) -> Effect:
    """The largest sum of moduli of a row or a column of its matrices: the segment between two points is cut at the sectors' boundaries."""
    constant = node.payload.sums[norm is Norm.L1]
    return stretch(node, {"self": Bracket.between(constant * (1 - 2.0**-38), constant, effect.rigor)}, note=effect.note)
