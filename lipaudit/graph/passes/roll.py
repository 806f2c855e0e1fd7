"""Recognition of cyclic shifts that arrive as two slices joined in the other order: cat(x[k:], x[:k]) = roll(x, -k).

Exporters write torch.roll that way (the shifted windows of Swin). As a join of two tensors it would count sqrt(2), because
nothing says that the slices share no entry; as a shift it is a permutation of entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lipaudit.graph.node import Graph, Node, Ref
from lipaudit.graph.rewrite import drop_unread, rebuild

_JOINS = {"aten.cat.default", "aten.concat.default", "aten.concatenate.default"}
_SLICE, _ROLL = "aten.slice.Tensor", "aten.roll.default"


def recognise_rolls(graph: Graph) -> Graph:
    """The graph with every such join as ``aten.roll``."""
    producers = {node.name: node for node in graph}
    return drop_unread(rebuild(graph, lambda node: _roll(node, producers)))


def _roll(node: Node, producers: Mapping[str, Node]) -> Node | None:
    """The shift that a join is; None unless it joins the end and the beginning of one tensor along the axis that it cut."""
    parts = node.get("tensors") if node.op in _JOINS else None
    if not isinstance(parts, tuple) or len(parts) != 2 or not all(isinstance(part, Ref) for part in parts):
        return None
    end, beginning = (producers[part.name] for part in parts if isinstance(part, Ref))
    source = end.get("self")
    if end.op != _SLICE or beginning.op != _SLICE or not isinstance(source, Ref) or source.info != node.output:
        return None
    other = beginning.get("self")
    if not isinstance(other, Ref) or other.name != source.name:
        return None
    rank = len(node.output.shape)
    axis = _integer(node["dim"]) % rank
    size = node.output.shape[axis]
    first, second = _range(end, axis, size), _range(beginning, axis, size)
    if first is None or second is None or first[1] != size or second != (0, first[0]):
        return None
    return replace(node, op=_ROLL, arguments={"self": source, "shifts": (-first[0],), "dims": (axis,)})


def _range(node: Node, axis: int, size: int) -> tuple[int, int] | None:
    """The limits of a slice along ``axis``; None if it cuts another axis or takes steps."""
    if _integer(node["dim"]) % len(node.output.shape) != axis or node["step"] != 1:
        return None
    start, stop = (node[key] for key in ("start", "end"))
    limits = slice(*(limit if limit is None else _integer(limit) for limit in (start, stop))).indices(size)
    return limits[:2]


def _integer(value: object) -> int:
    return int(str(value))
