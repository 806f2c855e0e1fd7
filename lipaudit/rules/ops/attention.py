"""Dot-product attention: out = softmax(s q k^T + mask) v with n queries, per head.

With p the weights of one query, o = sum_j p_j v_j its output and rho_v, rho_k bounds of the rows of v and k around any
fixed vectors (softmax ignores a shift of all keys, the weights add up to 1):

- in q: d o = s Cov_p(v, k) d q, of norm at most s rho_v rho_k; the queries do not mix, so that this holds for all of them;
- in an additive bias: d o = sum_j p_j (v_j - o) d b_j = Cov_p(v, d b), of norm at most rho_v / sqrt(2) per query. For a unit
  vector u the entry Cov_p(u . v, t) is at most sqrt(Var_p(u . v) Var_p(t)) with Var_p(u . v) <= rho_v^2, and a variance is at most
  a quarter of the squared range (Popoviciu 1935): Var_p(t) <= (max t - min t)^2 / 4 <= (max t^2 + min t^2) / 2 <= ||t||^2 / 2;
- in k: d o_i = Cov_p(v, t_i) for t_ij = s q_i . d k_j, and sum_ij t_ij^2 = s^2 ||Q dK^T||_F^2 <= s^2 ||Q||^2 ||dK||_F^2, so that the
  norm is at most s ||Q|| rho_v / sqrt(2) <= s ||Q||_F rho_v / sqrt(2);
- in v: the matrix of weights has rows that sum to 1, ||P|| <= sqrt(||P||_1 ||P||_inf) <= sqrt(n).

Heads are blocks of a block-diagonal map: the largest counts; heads that share an operand multiply its constant by the root of
their number. Constant masks and position biases change nothing. Source:
bounds.md section 6; that no constant holds for unbounded inputs: Kim, Papamakarios, Mnih, ICML 2021.
"""

from __future__ import annotations

import math

import torch

from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.interval_facets import ZERO
from lipaudit.rules.operands import constant, count_refs, interval_of_operand, is_float, root, rounded, shape_of
from lipaudit.rules.region.magnitude import Magnitude, Region, computed_size, fixed
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

NO_CONSTANT = (
    "dot-product attention: its slope grows with the queries, keys and values; no finite constant holds over all inputs"
)
ATTENTION = operations(*aten("scaled_dot_product_attention"))
_OPERANDS = ("query", "key", "value")
_ROOT_HALF = rounded(math.sqrt(0.5))


@ATTENTION.constant(
    formula="unbounded; s R_k R_v in q, s |Q|_F R_v / sqrt(2) in k, sqrt(n) in v, R_v / sqrt(2) in a bias, where the rows are bounded by R",
    source="softmax(s Q K^T) V is not globally Lipschitz (Kim, Papamakarios, Mnih, ICML 2021)",
    where_bounded=True,
)
def attention(node: Node, _settings: Settings) -> Effect:
    """Dot-product attention; some of the queries, keys, values and the mask or bias may be constant (learned queries)."""
    mask = node.get("attn_mask")
    if isinstance(mask, Ref) and not is_float(mask.info):
        return Effect.unbounded("attention with a data-dependent mask jumps where the mask changes")
    if node.get("dropout_p"):
        return Effect.unsupported("attention with dropout is random; audit the network in eval mode")
    if any(not count_refs(node[key]) and constant(node, key) is None for key in _OPERANDS):
        return Effect.unsupported("attention of what is neither data-dependent nor a real constant")
    return Effect.where_bounded(NO_CONSTANT, lambda operands: _bounded(node, operands))


def _copies(node: Node, name: str) -> int:
    """How often each entry of an operand takes part, its leading axes being broadcast to those of the result.

    With grouped queries several heads of the query share one of the key and the value.
    """
    shape, stack = shape_of(node[name]), math.prod(node.output.shape[:-2])
    if name == "attn_mask":  # it may be broadcast along its rows and columns, too
        return stack * shape_of(node["query"])[-2] * shape_of(node["key"])[-2] // max(1, math.prod(shape))
    return stack // max(1, math.prod(shape[:-2]))


def _operands(node: Node, operands: tuple[Magnitude, ...]) -> dict[str, Magnitude]:
    """The magnitudes of query, key and value, which come before a data-dependent mask; a constant does not stray."""
    known = iter(operands)
    return {name: next(known) if count_refs(node[name]) else fixed(constant(node, name)) for name in _OPERANDS}


def _bounded(node: Node, operands: tuple[Magnitude, ...]) -> Effect:
    magnitudes = _operands(node, operands)
    query, key, value = magnitudes.values()
    scale = node.get("scale")
    width = query.shape[-1]
    stretch = rounded(abs(float(scale))) if scale is not None else rounded(1 / math.sqrt(width))  # type: ignore[arg-type]
    keys, values = around_mean(key)[0], around_mean(value)[0]
    factors = {
        "query": stretch * keys * values,
        "key": stretch * query.size((-2, -1)) * values * _ROOT_HALF,
        "value": root(query.shape[-2]),
        "attn_mask": values * _ROOT_HALF,
    }
    return Effect.stretch(
        *(factor * root(_copies(node, name)) for name, factor in factors.items() if count_refs(node.get(name)))
    )


def around_mean(operand: Magnitude) -> tuple[Bracket, torch.Tensor | None]:
    """A bound of the rows around the mean row of the centre, per head; and that mean."""
    spread = operand.spread_from_computed((-1,))
    if spread.log_upper == math.inf:
        return operand.size((-1,)), None
    if operand.centre is None:
        return spread, None
    mean = operand.centre.mean(-2, keepdim=True)
    away = computed_size(operand.centre - mean, (operand.centre.dim() - 1,))
    if away.log_upper == math.inf:  # the centre is not finite
        return operand.size((-1,)), None
    return Bracket.sum([spread, away]), mean


def _every_query_has_a_key(node: Node) -> bool:
    """Whether no mask, which must be constant for that, hides all keys from a query."""
    mask = node.get("attn_mask")
    if mask is None:
        return True
    if not isinstance(mask, Constant) or not mask.known:
        return False
    open_to = mask.value if mask.value.dtype is torch.bool else mask.value > -math.inf
    return bool(open_to.any(-1).all())


@ATTENTION.region
def weighted_means(node: Node, operands: tuple[Magnitude, ...]) -> Region | None:
    """Every row of the output is a weighted mean of rows of the values; that of a query without a key is 0 in torch."""
    if not _every_query_has_a_key(node):
        return None
    value = _operands(node, operands)["value"]
    rows, mean = around_mean(value)
    shape = node.output.shape
    if rows.log_upper == math.inf or _copies(node, "value") > 1:
        return None
    centre: torch.Tensor | float = 0.0 if mean is None else mean.expand(shape)
    return Region((Radii.of(shape, {(-1,): rows}),), centre)


@ATTENTION.interval
def weighted_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Means of entries of the values; 0 for a query without a key."""
    value = interval_of_operand(node, "value", intervals)
    return value if _every_query_has_a_key(node) else value.union(ZERO)
