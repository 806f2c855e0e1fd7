"""Reductions over axes: sums and means, extremes, order statistics, norms, standard deviations, cumulative sums."""

from __future__ import annotations

import math

from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.operands import data, inverse_root, is_float, number, numel, root, rounded, stretch
from lipaudit.rules.rule import rule


def _length(node: Node) -> int:
    """The number of entries that are reduced to one."""
    return numel(data(node, "self")) // max(1, numel(node.outputs[0]))


def _integer_output(node: Node) -> Effect | None:
    if is_float(node.outputs[0]):
        return None
    return Effect.unbounded(f"{node.op.split('.')[1]} rounds its result to {node.outputs[0].dtype}, a jump")


@rule(
    "aten.mean.default", "aten.mean.dim",
    formula="1 / sqrt(m)", source="Cauchy-Schwarz over the m entries, attained by constant entries", exact=True,
)  # fmt: skip
def mean(node: Node, _settings: Settings) -> Effect:
    """The mean over m entries."""
    return stretch(node, {"self": inverse_root(_length(node))})


@rule(
    "aten.sum.default", "aten.sum.dim_IntList",
    formula="sqrt(m)", source="Cauchy-Schwarz over the m entries, attained by constant entries", exact=True,
)  # fmt: skip
def total(node: Node, _settings: Settings) -> Effect:
    """The sum over m entries."""
    return _integer_output(node) or stretch(node, {"self": root(_length(node))})


@rule(
    "aten.amax.default", "aten.amin.default", "aten.aminmax.default",
    "aten.max.default", "aten.max.dim", "aten.min.default", "aten.min.dim",
    "aten.sort.default", "aten.sort.stable", "aten.kthvalue.default",
    "aten.median.default", "aten.median.dim",
    formula="1", source="order statistics: sorting brings two vectors no further apart", exact=True,
)  # fmt: skip
def order_statistics(node: Node, _settings: Settings) -> Effect:
    """Sorting is 1-Lipschitz (rearrangement inequality), and each result is a part of the sorted entries."""
    return stretch(node, {"self": 1.0})


@rule(
    "aten.topk.default",
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


@rule(
    "aten.linalg_vector_norm.default", "aten.norm.Scalar", "aten.norm.ScalarOpt_dim",
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


def degrees_lost(node: Node) -> float:
    """What a variance or standard deviation takes off the number of entries that it divides by."""
    if "unbiased" in node.arguments:
        return float(bool(node["unbiased"]))
    return 1.0 if node["correction"] is None else number(node, "correction")


@rule(
    "aten.std.default", "aten.std.dim", "aten.std.correction",
    formula="1 / sqrt(m - correction)", source="std = ||P x|| / sqrt(m - correction), P removes the mean", exact=True,
)  # fmt: skip
def standard_deviation(node: Node, _settings: Settings) -> Effect:
    """The standard deviation over m entries; over one entry without correction it is 0."""
    correction, length = degrees_lost(node), _length(node)
    if length <= correction:
        return Effect.unsupported(
            f"a standard deviation over {length} entries with correction {correction:g} is not defined"
        )
    return stretch(node, {"self": 0.0 if length == 1 else inverse_root(length - correction)})


@rule(
    "aten.cumsum.default",
    formula="1 / (2 sin(pi / (4 n + 2)))", source="sigma_1 of the lower triangular matrix of ones", exact=True,
)  # fmt: skip
def cumsum(node: Node, _settings: Settings) -> Effect:
    """The inverse of a cumulative sum takes differences; its singular values are 2 sin((2 k - 1) pi / (4 n + 2))."""
    shape = data(node, "self").shape
    length = shape[int(number(node, "dim"))] if shape else 1
    factor = rounded(1 / (2 * math.sin(math.pi / (4 * length + 2))))
    return _integer_output(node) or stretch(node, {"self": factor})
