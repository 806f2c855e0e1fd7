"""Reductions over axes: sums and means, extremes, order statistics, norms, standard deviations, cumulative sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.induced_facets import same_in_every_norm
from lipaudit.rules.interval_facets import NOT_NEGATIVE, always, entries_and_places, entries_of_input
from lipaudit.rules.movement import Movement, Neighbourhood
from lipaudit.rules.norm import Norm
from lipaudit.rules.operands import data, inverse_root, is_float, number, numel, root, rounded, stretch
from lipaudit.rules.radii_facets import ONE, along_dim
from lipaudit.rules.reduction_movement import norm_movement, ranked_movement, slices
from lipaudit.rules.region.axes import along, reduced
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

MEAN = operations(*aten("mean", "mean.dim"))
SUM = operations(*aten("sum", "sum.dim_IntList"))
EXTREMES = operations(*aten("amax", "amin", "aminmax", "max", "min"))
EXTREMES_AND_PLACES = operations(*aten("max.dim", "min.dim"))
SORTED = operations(*aten("sort", "sort.stable"))
RANKED = operations(*aten("kthvalue", "median", "median.dim"))
TOPK = operations(*aten("topk"))
NORM = operations(*aten("linalg_vector_norm", "norm.Scalar", "norm.ScalarOpt_dim"))
STANDARD_DEVIATION = operations(*aten("std", "std.dim", "std.correction"))
CUMSUM = operations(*aten("cumsum"))


def _length(node: Node) -> int:
    """The number of entries that are reduced to one."""
    return numel(data(node, "self")) // max(1, numel(node.outputs[0]))


def _integer_output(node: Node) -> Effect | None:
    if is_float(node.outputs[0]):
        return None
    return Effect.unbounded(f"{node.op.split('.')[1]} rounds its result to {node.outputs[0].dtype}, a jump")


def reduced_axes(node: Node, rank: int) -> frozenset[int]:
    """The axes that a reduction reduces, all where it names none."""
    dims = node.get("dim")
    if dims is None or dims == () or rank == 0:
        return frozenset(range(rank))
    return frozenset(int(a) % rank for a in (dims if isinstance(dims, tuple) else (dims,)))  # type: ignore[arg-type]


@MEAN.constant(
    formula="1 / sqrt(m)", source="Cauchy-Schwarz over the m entries, attained by constant entries", exact=True
)
def mean(node: Node, _settings: Settings) -> Effect:
    """The mean over m entries."""
    return stretch(node, {"self": inverse_root(_length(node))})


@SUM.constant(formula="sqrt(m)", source="Cauchy-Schwarz over the m entries, attained by constant entries", exact=True)
def total(node: Node, _settings: Settings) -> Effect:
    """The sum over m entries."""
    return _integer_output(node) or stretch(node, {"self": root(_length(node))})


@(MEAN | SUM).radii
def sums_over_axes(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The mean of m slices strays by at most the largest deviation of one, their sum by m times as much."""
    (operand,) = operands
    entry = ONE if node.op.startswith("aten.mean") else Bracket.exact(float(_length(node)))
    gone = reduced_axes(node, len(operand.shape))
    return (reduced(operand, gone, node.output.shape, effect.factors[0], entry, spread=True),)


MEAN.interval(entries_of_input)


@SUM.interval
def sums(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """A sum of m entries."""
    return intervals[0] * float(_length(node))


@(EXTREMES | EXTREMES_AND_PLACES | SORTED | RANKED).constant(
    formula="1", source="order statistics: sorting brings two vectors no further apart", exact=True
)
def order_statistics(node: Node, _settings: Settings) -> Effect:
    """Sorting is 1-Lipschitz (rearrangement inequality), and each result is a part of the sorted entries."""
    return stretch(node, {"self": 1.0})


@(EXTREMES | EXTREMES_AND_PLACES | RANKED).radii
def extreme_deviations(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The largest entry of a slice strays by at most its entries do; of places nothing is known."""
    gone = reduced_axes(node, len(operands[0].shape))
    return tuple(
        reduced(operands[0], gone, output.shape, effect.factors[0], ONE, spread=False)
        if is_float(output)
        else Radii(output.shape)
        for output in node.outputs
    )


@(SORTED | TOPK).radii
def sorted_slices(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every slice along the axis is sorted by itself; of places nothing is known."""
    values, places = node.outputs
    axis = int(number(node, "dim"))
    return along(operands[0], effect.factors[0], (axis,), values.shape), Radii(places.shape)


@SORTED.movement
def sorted_entries_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """Every slice along the axis in order."""
    size = node.outputs[0].shape[_axis(node)] if node.outputs[0].shape else 1
    return _ranked(node, operands[0], tuple(reversed(range(size))) if node.get("descending") else tuple(range(size)))


@TOPK.movement
def topk_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """The first of the entries in order."""
    count, size = int(number(node, "k")), operands[0].centre.shape[_axis(node)] if operands[0].centre.dim() else 1
    if node.get("sorted") is False and count > 1:
        return None
    return _ranked(node, operands[0], tuple(size - 1 - i for i in range(count)) if node["largest"] else range(count))


@(EXTREMES | EXTREMES_AND_PLACES | RANKED).movement
def extremes_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """The largest, the smallest, the k-th or the lower one of the middle entries of every slice."""
    name, length = node.op.split(".")[1], _length(node)
    if name == "aminmax":
        return None
    ranks = {"median": (length - 1) // 2, "kthvalue": int(number(node, "k")) - 1 if name == "kthvalue" else 0}
    rank = ranks.get(name, length - 1 if "max" in name else 0)
    rows = slices(operands[0], reduced_axes(node, operands[0].centre.dim()))
    return ranked_movement(rows, (rank,), lambda t: t.reshape(node.outputs[0].shape))


def _axis(node: Node) -> int:
    return int(number(node, "dim"))


def _ranked(node: Node, operand: Neighbourhood, ranks: Sequence[int]) -> Movement | None:
    """Order statistics along the axis of a node, whose output has them along that axis."""
    if not operand.centre.dim():
        return None
    axis = _axis(node) % operand.centre.dim()
    return ranked_movement(slices(operand, (axis,)), ranks, lambda t: t.movedim(-1, axis))


EXTREMES.interval(entries_of_input)
(EXTREMES_AND_PLACES | SORTED | RANKED | TOPK).interval(entries_and_places)


@TOPK.constant(
    formula="1; unbounded for several entries with sorted=False",
    source="order statistics: sorting brings two vectors no further apart", exact=True,
)  # fmt: skip
def topk(node: Node, _settings: Settings) -> Effect:
    """The k largest or smallest entries in order; unsorted, two of them change places where the data change."""
    if node["sorted"] is False and number(node, "k") > 1:
        return Effect.unbounded(
            "topk with sorted=False gives the entries in an order that depends on the data: two of them change places at a "
            "jump; use sorted=True"
        )
    return order_statistics(node, _settings)


@NORM.constant(
    formula="1 for p >= 2, m^(1/p - 1/2) for 1 <= p < 2",
    source="triangle inequality, and ||v||_p <= m^(1/p - 1/2) ||v||_2", exact=True,
)  # fmt: skip
def vector_norm(node: Node, _settings: Settings) -> Effect:
    """| ||x||_p - ||y||_p | <= ||x - y||_p, which is at most max(1, m^(1/p - 1/2)) ||x - y||_2 over m entries."""
    key = "ord" if "ord" in node.arguments else "p"
    order = 2.0 if node[key] is None else number(node, key)
    if order < 1:
        return Effect.unsupported(
            f"the vector norm of order {order:g} is not a norm; lipaudit bounds orders of 1 and more"
        )
    length = _length(node)
    if order >= 2 or length == 1:
        return stretch(node, {"self": 1.0})
    return stretch(node, {"self": rounded(length ** (1 / order - 0.5), 2.0**-46)})


@NORM.radii
def norm_deviations(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The norm of a slice strays by at most as much as the slice does."""
    gone = reduced_axes(node, len(operands[0].shape))
    return (reduced(operands[0], gone, node.output.shape, effect.factors[0], None, spread=False),)


@NORM.movement
def norms_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """Norms of slices; of order 2 alone."""
    order = node["ord" if "ord" in node.arguments else "p"]
    if order is not None and order != 2:
        return None
    return norm_movement(slices(operands[0], reduced_axes(node, operands[0].centre.dim())), node.output.shape)


@STANDARD_DEVIATION.movement
def deviations_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """||P x|| / sqrt(m - correction), P removing the mean of m entries."""
    degrees = _length(node) - degrees_lost(node)
    if degrees <= 0:
        return None
    rows = slices(operands[0], reduced_axes(node, operands[0].centre.dim()))
    return norm_movement(rows, node.output.shape, centred=True, divisor=math.sqrt(degrees))


(NORM | STANDARD_DEVIATION).interval(always(NOT_NEGATIVE))


def degrees_lost(node: Node) -> float:
    """What a variance or standard deviation takes off the number of entries that it divides by."""
    if "unbiased" in node.arguments:
        return float(bool(node["unbiased"]))
    return 1.0 if node["correction"] is None else number(node, "correction")


@STANDARD_DEVIATION.constant(
    formula="1 / sqrt(m - correction)", source="std = ||P x|| / sqrt(m - correction), P removes the mean", exact=True
)
def standard_deviation(node: Node, _settings: Settings) -> Effect:
    """The standard deviation over m entries; over one entry without correction it is 0."""
    correction, length = degrees_lost(node), _length(node)
    if length <= correction:
        return Effect.unsupported(
            f"a standard deviation over {length} entries with correction {correction:g} is not defined"
        )
    return stretch(node, {"self": 0.0 if length == 1 else inverse_root(length - correction)})


STANDARD_DEVIATION.radii(norm_deviations)


@CUMSUM.constant(
    formula="1 / (2 sin(pi / (4 n + 2)))", source="sigma_1 of the lower triangular matrix of ones", exact=True
)
def cumsum(node: Node, _settings: Settings) -> Effect:
    """The inverse of a cumulative sum takes differences; its singular values are 2 sin((2 k - 1) pi / (4 n + 2))."""
    shape = data(node, "self").shape
    length = shape[int(number(node, "dim"))] if shape else 1
    factor = rounded(1 / (2 * math.sin(math.pi / (4 * length + 2))))
    return _integer_output(node) or stretch(node, {"self": factor})


CUMSUM.radii(along_dim)


(EXTREMES | EXTREMES_AND_PLACES | SORTED | RANKED | TOPK).induced_norm(same_in_every_norm)


@(MEAN | SUM).induced_norm
def sums_in_norm(node: Node, _effect: Effect, norm: Norm) -> Effect:
    """A row of m entries 1 or 1/m, a column of one of them."""
    m = Bracket.exact(float(_length(node)))
    if node.op.startswith("aten.mean"):
        return stretch(node, {"self": 1.0 if norm is Norm.LINF else rounded(1 / _length(node))})
    return stretch(node, {"self": m if norm is Norm.LINF else 1.0})


@CUMSUM.induced_norm
def cumsum_in_norm(node: Node, _effect: Effect, _norm: Norm) -> Effect:
    """The triangular matrix of ones has a row and a column of n ones."""
    shape = data(node, "self").shape
    return stretch(node, {"self": float(shape[int(number(node, "dim"))] if shape else 1)})
