"""Constant shifts: f(x) + c - (f(y) + c) = f(x) - f(y), so that additions of constants go."""

from __future__ import annotations

import math

from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref
from lipaudit.graph.rewrite import rebuild

_ADDITIONS = {"aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar"}


def drop_shifts(graph: Graph) -> Graph:
    """Remove additions of constants that keep the shape: they do not change differences."""

    def change(node: Node) -> Ref | None:
        refs = node.refs
        if len(refs) != 1 or node.op not in _ADDITIONS:
            return None
        unscaled = refs[0] is node["self"] or (node.op.startswith("aten.add") and node.get("alpha", 1) == 1)
        same = refs[0].info == node.output
        other = _other(node)
        known = isinstance(other, Constant) or (isinstance(other, int | float) and math.isfinite(other))
        return refs[0] if unscaled and same and known else None

    return rebuild(graph, change)


def _other(node: Node) -> Argument:
    return node["other"] if isinstance(node["self"], Ref) else node["self"]
