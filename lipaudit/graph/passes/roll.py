"""Cyclic shifts that arrive as two slices joined in the other order: cat(x[k:], x[:k]) = roll(x, -k).

Exporters write torch.roll that way (the shifted windows of Swin). As a join of two tensors it would count sqrt(2), because
nothing says that the slices share no entry; as a shift it is a permutation of entries.
"""

from __future__ import annotations

from dataclasses import replace

from lipaudit.graph.node import Node, Ref
from lipaudit.graph.ops import CONCATENATIONS
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch

_SLICE, _ROLL = "aten.slice.Tensor", "aten.roll.default"
_NOT_TWO = NoMatch("not a join of two tensors")
_NOT_SLICES = NoMatch("the two parts are not slices of one tensor of the shape of the result")
_OTHER_AXIS = NoMatch("the slices do not cut the axis along which they are joined, or have a step")
_NOT_ENDS = NoMatch("the parts are not the end and the beginning of the tensor")


def matcher(index: GraphIndex) -> Matcher:
    """Matches joins of the end and the beginning of one tensor along the axis that was cut."""
    producers = index.producers

    def match(node: Node) -> Match | NoMatch:
        if node.op not in CONCATENATIONS:
            return OTHER_OPERATION
        parts = node.get("tensors")
        if not isinstance(parts, tuple) or len(parts) != 2 or not all(isinstance(part, Ref) for part in parts):
            return _NOT_TWO
        end, beginning = (producers[part.name] for part in parts if isinstance(part, Ref))
        source, other = end.get("self"), beginning.get("self")
        if end.op != _SLICE or beginning.op != _SLICE or not isinstance(source, Ref) or not isinstance(other, Ref):
            return _NOT_SLICES
        if source.info != node.output or other.name != source.name:
            return _NOT_SLICES
        axis = _integer(node["dim"]) % len(node.output.shape)
        size = node.output.shape[axis]
        first, second = _limits(end, axis, size), _limits(beginning, axis, size)
        if first is None or second is None:
            return _OTHER_AXIS
        if first[1] != size or second != (0, first[0]):
            return _NOT_ENDS
        return Match((replace(node, op=_ROLL, arguments={"self": source, "shifts": (-first[0],), "dims": (axis,)}),))

    return match


def _limits(node: Node, axis: int, size: int) -> tuple[int, int] | None:
    """The limits of a slice along ``axis``; None if it cuts another axis or takes steps."""
    if _integer(node["dim"]) % len(node.output.shape) != axis or node["step"] != 1:
        return None
    start, stop = (node[key] for key in ("start", "end"))
    limits = slice(*(limit if limit is None else _integer(limit) for limit in (start, stop))).indices(size)
    return limits[:2]


def _integer(value: object) -> int:
    return int(str(value))
