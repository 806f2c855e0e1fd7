"""Numbers that were not known exactly and have gone into something else while patterns were recognised.

A recognised activation holds its slopes as numbers, a normalisation its epsilon. Where these come from constants that are computed
with an error, the operation must not be called certified: it keeps such a constant among its arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lipaudit.graph.node import Constant, Graph, Node, parts

COMPUTED = "computed"


def with_lost_constants(before: Graph, after: Graph) -> Graph:
    """``after``, made from ``before``, with every constant that is not exact and that it no longer reads as an argument of what is new."""
    kept = {id(constant) for constant in _inexact(after)}
    lost = tuple(constant for constant in _inexact(before) if id(constant) not in kept)
    if not lost:
        return after
    known = {(node.name, node.op) for node in before}

    def marked(node: Node) -> Node:
        if (node.name, node.op) in known and node.payload is None:
            return node
        return replace(node, arguments={**node.arguments, COMPUTED: lost})

    return replace(after, nodes=tuple(marked(node) for node in after))


def _inexact(graph: Graph) -> Iterator[Constant]:
    for node in graph:
        for argument in node.arguments.values():
            yield from (constant for constant in parts(argument, Constant) if constant.error)
