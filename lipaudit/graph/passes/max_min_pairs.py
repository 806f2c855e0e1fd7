"""Pairs that are put in order: the larger and the smaller of the same two tensors, joined along an axis.

cat(max(a, b), min(a, b)), the activation MaxMin (GroupSort of pairs), only reorders each pair of entries: as a function of
cat(a, b) it has the constant 1 (sorting brings two vectors no further apart). As a join of two tensors that both read a and b it
would count 2. The pair may be written as maximum and minimum, as where(a > b, a, b), or as amax and amin over an axis of two
entries; other parts may be joined with it, and several pairs. Every larger part takes one smaller part; what is left over is
a tensor like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.graph.passes.concatenation import Join, join_of, shape_of
from lipaudit.graph.passes.equal_nodes import representatives
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NewNodes, NoMatch

ORDERED_PAIRS = "lipaudit.ordered_pairs"
_NOT_A_COMPARISON = NoMatch("the choice is not made by comparing two tensors")
_OTHER_TENSORS = NoMatch("what is chosen is not what is compared")
_NO_PAIR = NoMatch("the parts do not hold the larger and the smaller of the same two tensors")
_STACK, _CAT = "aten.stack.default", "aten.cat.default"
_LARGER, _SMALLER = 1, -1
# per operation the signs and the arguments that the first one is compared with
_OF_TWO = {
    **dict.fromkeys(("aten.maximum.default", "aten.max.other", "aten.fmax.default"), ((_LARGER, "other"),)),
    **dict.fromkeys(("aten.minimum.default", "aten.min.other", "aten.fmin.default"), ((_SMALLER, "other"),)),
    "aten.clamp_min.Tensor": ((_LARGER, "min"),), "aten.clamp_max.Tensor": ((_SMALLER, "max"),),
    "aten.clamp.Tensor": ((_LARGER, "min"), (_SMALLER, "max")),
}  # fmt: skip
_ALONG = {
    "aten.amax.default": _LARGER, "aten.max.dim": _LARGER, "aten.amin.default": _SMALLER, "aten.min.dim": _SMALLER,
}  # fmt: skip
# where(left > right, ., .): the sign of what is picked first if that is the left one
_COMPARISONS = {
    "aten.gt.Tensor": _LARGER, "aten.ge.Tensor": _LARGER, "aten.lt.Tensor": _SMALLER, "aten.le.Tensor": _SMALLER,
}  # fmt: skip


@dataclass(frozen=True)
class OrderedPairs:
    """Blocks of ``sizes`` entries along ``axis``; of each of the ``pairs`` of blocks the first gets the larger entries."""

    axis: int
    sizes: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """The tensor with every pair of blocks in order.

        >>> OrderedPairs(0, (1, 1), ((1, 0),)).evaluate(torch.tensor([5.0, 3.0]))
        tensor([3., 5.])
        """
        blocks = list(x.split(self.sizes, self.axis))  # type: ignore[no-untyped-call]
        for larger, smaller in self.pairs:
            a, b = blocks[larger], blocks[smaller]
            blocks[larger], blocks[smaller] = torch.maximum(a, b), torch.minimum(a, b)
        return torch.cat(blocks, self.axis)


@dataclass(frozen=True)
class _Extreme:
    """The larger (sign 1) or smaller (sign -1) of two tensors, or of the two entries of an axis of one (``second`` None).

    ``of`` is the same for the larger and the smaller of the same two; ``kept`` says that the axis stays, with one entry.
    """

    sign: int
    of: tuple[object, ...]
    first: Ref
    second: Ref | None = None
    axis: int = 0
    kept: bool = False


def choice_matcher(index: GraphIndex) -> Matcher:
    """Matches where(a > b, a, b): the larger of the two. It does not jump, because both are equal where the condition changes."""
    same = representatives(index.graph)

    def match(node: Node) -> Match | NoMatch:
        if node.op != "aten.where.self":
            return OTHER_OPERATION
        condition, first, second = node["condition"], node["self"], node["other"]
        if not isinstance(condition, Ref) or not isinstance(first, Ref) or not isinstance(second, Ref):
            return _NOT_A_COMPARISON
        comparison = index.producers[condition.name]
        sign = _COMPARISONS.get(comparison.op)
        if sign is None:
            return _NOT_A_COMPARISON
        compared, picked = ([same[ref.name] for ref in refs] for refs in (comparison.refs, (first, second)))
        if compared == picked[::-1]:
            sign = -sign
        elif compared != picked:
            return _OTHER_TENSORS
        op = "aten.maximum.default" if sign == _LARGER else "aten.minimum.default"
        return Match((replace(node, op=op, arguments={"self": first, "other": second}),))

    return match


def matcher(index: GraphIndex) -> Matcher:
    """Matches joins that hold the larger and the smaller of the same two tensors."""
    same = representatives(index.graph)

    def match(node: Node) -> Match | NoMatch:
        join = join_of(node)
        if join is None:
            return OTHER_OPERATION
        extremes = [_extreme(part, index.producers, same) for part in join.parts]
        pairs = _pairs(extremes)
        return _ordered(index, node, join, extremes, pairs) if pairs else _NO_PAIR

    return match


def _ordered(
    index: GraphIndex, node: Node, join: Join, extremes: list[_Extreme | None], pairs: list[tuple[int, int]]
) -> Match:
    new = NewNodes(index, node)
    parts = list(join.parts)
    for larger, smaller in pairs:
        if (extreme := extremes[larger]) is not None:
            parts[larger], parts[smaller] = _operands(new, extreme)
    sizes = tuple(1 if join.new else shape_of(part)[join.axis] for part in parts)
    arguments: dict[str, Argument] = {"tensors": tuple(parts), "dim": join.axis}
    unordered = new.add("unordered", _STACK if join.new else _CAT, arguments, node.output.shape)
    payload = OrderedPairs(join.axis, sizes, tuple(pairs))
    new.add("ordered", ORDERED_PAIRS, {"self": unordered}, node.output.shape, payload)
    merged = tuple(part.name for pair in pairs for i in pair if isinstance(part := join.parts[i], Ref))
    return new.match(ORDERED_PAIRS, merged)


def _pairs(extremes: list[_Extreme | None]) -> list[tuple[int, int]]:
    """Positions of a larger and a smaller part of the same two tensors, each part in one pair at most."""
    pairs: list[tuple[int, int]] = []
    waiting: dict[tuple[tuple[object, ...], int], list[int]] = {}
    for position, extreme in enumerate(extremes):
        if extreme is None:
            continue
        others = waiting.get((extreme.of, -extreme.sign), [])
        if others:
            other = others.pop(0)
            pairs.append((position, other) if extreme.sign == _LARGER else (other, position))
        else:
            waiting.setdefault((extreme.of, extreme.sign), []).append(position)
    return pairs


def _extreme(part: Argument, producers: Mapping[str, Node], same: Mapping[str, str]) -> _Extreme | None:
    """What a part is the larger or smaller of; None for tensors that are broadcast to each other."""
    if not isinstance(part, Ref):
        return None
    node = producers[part.name]
    if node.op in _OF_TWO:
        limits = [(sign, node[key]) for sign, key in _OF_TWO[node.op] if node[key] is not None]
        if len(limits) != 1:
            return None
        first, (sign, second) = node["self"], limits[0]
        if not isinstance(first, Ref) or not isinstance(second, Ref) or {first.info, second.info} != {part.info}:
            return None
        return _Extreme(sign, tuple(sorted((same[first.name], same[second.name]))), first, second)
    along = None
    if node.op == "getitem":
        place, node = node["index"], producers[node.refs[0].name]
        if node.op == "aten.aminmax.default":
            along = _SMALLER if place == 0 else _LARGER
        elif place != 0:
            return None
    source, along = node.get("self"), along or _ALONG.get(node.op)
    if along is None or not isinstance(source, Ref) or source.info.dtype is not part.info.dtype:
        return None
    dims = node["dim"] if isinstance(node["dim"], tuple) else (node["dim"],)
    if len(dims) != 1 or not isinstance(dims[0], int) or not source.info.shape:
        return None
    axis = dims[0] % len(source.info.shape)
    if source.info.shape[axis] != 2:
        return None
    kept = bool(node["keepdim"])
    return _Extreme(along, (same[source.name], axis, kept), source, axis=axis, kept=kept)


def _operands(new: NewNodes, extreme: _Extreme) -> tuple[Ref, Ref]:
    """The two tensors of a pair."""
    source, axis = extreme.first, extreme.axis
    if extreme.second is not None:
        return source, extreme.second
    before, after = source.info.shape[:axis], source.info.shape[axis + 1 :]

    def end(i: int) -> Ref:
        if extreme.kept:
            arguments: dict[str, Argument] = {"self": source, "dim": axis, "start": i, "end": i + 1, "step": 1}
            return new.add("part", "aten.slice.Tensor", arguments, (*before, 1, *after))
        return new.add("part", "aten.select.int", {"self": source, "dim": axis, "index": i}, (*before, *after))

    return end(0), end(1)
