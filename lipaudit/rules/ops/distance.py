"""Distances between all rows of one or two tensors.

| ||x - y||_p - ||x' - y'||_p | <= s (||x - x'|| + ||y - y'||) with s = 1 for p >= 2 and d^(1/p - 1/2) for 1 <= p < 2 over d entries.
A row of x takes part in as many distances as y has rows: s sqrt(rows of y) in x, attained where the rows of y lie behind
each other, seen from x. Among n rows of one tensor, sum_{i<j} ||d_i - d_j||^2 = n sum ||d_i||^2 - ||sum d_i||^2: s sqrt(n).
"""

from __future__ import annotations

import math

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.interval_facets import NOT_NEGATIVE, always
from lipaudit.rules.operands import number, root, rounded, shape_of, stretch
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket

CDIST = operations(*aten("cdist", "_cdist_forward"))
PDIST = operations(*aten("pdist", "_pdist_forward"))


def _scale(node: Node, width: int) -> Bracket | None:
    """s, or None where the order is none of a norm."""
    order = number(node, "p")
    if order < 1:
        return None
    return Bracket.exact(1.0) if order >= 2 or width <= 1 else rounded(width ** (1 / order - 0.5), 2.0**-46)


def _no_norm(node: Node) -> Effect:
    return Effect.unsupported(
        f"the distance of order {number(node, 'p'):g} is not of a norm; lipaudit bounds orders of 1 and more"
    )


@CDIST.constant(
    formula="s sqrt(rows of the other), s = 1 for p >= 2, d^(1/p - 1/2) for 1 <= p < 2; the terms add",
    source="triangle inequality; a row takes part in one distance per row of the other",
    exact=True,
)
def cdist(node: Node, _settings: Settings) -> Effect:
    """Distances between every row of x1 and every row of x2; leading axes are broadcast."""
    first, second = shape_of(node["x1"]), shape_of(node["x2"])
    scale = _scale(node, first[-1])
    if scale is None:
        return _no_norm(node)
    stack = math.prod(node.output.shape[:-2])
    copies = {key: stack // max(1, math.prod(shape[:-2])) for key, shape in (("x1", first), ("x2", second))}
    rows = {"x1": second[-2], "x2": first[-2]}
    return stretch(node, {key: scale * root(rows[key] * copies[key]) for key in rows})


@PDIST.constant(
    formula="s sqrt(n) for n rows, s = 1 for p >= 2, d^(1/p - 1/2) for 1 <= p < 2",
    source="the pairwise differences of n rows have the norm sqrt(n)",
)
def pdist(node: Node, _settings: Settings) -> Effect:
    """Distances between every two rows."""
    rows, width = shape_of(node["self"])
    scale = _scale(node, width)
    if scale is None:
        return _no_norm(node)
    return stretch(node, {"self": scale * root(rows) if rows > 1 else Bracket.exact(0.0)})


(CDIST | PDIST).interval(always(NOT_NEGATIVE))
