"""Pieces of a tensor: which entries of which axes of which tensor another one consists of.

Slices, the parts of a split, single entries of an axis, and pieces of pieces. They say whether two tensors share entries, which
joining them would count twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lipaudit.graph.node import Node, Ref
from lipaudit.graph.ops import SPLITS

_SLICE, _NARROW, _SELECT, _UNBIND = "aten.slice.Tensor", "aten.narrow.default", "aten.select.int", "aten.unbind.int"


@dataclass(frozen=True)
class Piece:
    """The entries ``picks[axis]`` of every axis of ``source``, in this order; ``axes`` are the axes that are left."""

    source: Ref
    picks: tuple[tuple[int, ...], ...]
    axes: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether it is its source itself."""
        everything = tuple(tuple(range(n)) for n in self.source.info.shape)
        return self.picks == everything and len(self.axes) == len(everything)

    def cut(self, axis: int, indices: tuple[int, ...], gone: bool) -> Piece:
        """The entries ``indices`` of one of the axes that are left, which goes with them if ``gone``."""
        place = self.axes[axis]
        picked = tuple(self.picks[place][i] for i in indices)
        picks = (*self.picks[:place], picked, *self.picks[place + 1 :])
        return replace(self, picks=picks, axes=(*self.axes[:axis], *self.axes[axis + gone :]))


def piece_of(ref: Ref, producers: Mapping[str, Node]) -> Piece:
    """What a tensor is a piece of; of itself where it was not cut."""
    cuts: list[tuple[int, tuple[int, ...], bool]] = []
    while (cut := _cut(ref, producers)) is not None:
        ref = cut[0]
        cuts.append(cut[1:])
    shape = ref.info.shape
    piece = Piece(ref, tuple(tuple(range(n)) for n in shape), tuple(range(len(shape))))
    for axis, indices, gone in reversed(cuts):
        piece = piece.cut(axis, indices, gone)
    return piece


def _cut(ref: Ref, producers: Mapping[str, Node]) -> tuple[Ref, int, tuple[int, ...], bool] | None:
    """The last cut: the tensor that was cut, along which axis, the entries that are left, and whether the axis is gone."""
    node = producers[ref.name]
    parent = producers[node.refs[0].name] if node.op == "getitem" else node
    source, dim = parent.get("self"), parent.get("dim")
    if not isinstance(source, Ref) or not source.info.shape or not isinstance(dim, int):
        return None
    axis = dim % len(source.info.shape)
    size = source.info.shape[axis]
    if node.op == _SLICE:
        start, end = (None if node[key] is None else _integer(node[key]) for key in ("start", "end"))
        return source, axis, tuple(range(size)[slice(start, end, _integer(node["step"]))]), False
    if node.op == _NARROW and isinstance(node["start"], int):
        first = node["start"] + (size if node["start"] < 0 else 0)
        return source, axis, tuple(range(first, first + _integer(node["length"]))), False
    if node.op == _SELECT:
        return source, axis, (_integer(node["index"]) % size,), True
    if node.op != "getitem" or not isinstance(node["index"], int):
        return None
    index = node["index"] % len(parent.outputs)
    if parent.op == _UNBIND:
        return source, axis, (index,), True
    if parent.op not in SPLITS:
        return None
    before = sum(output.shape[axis] for output in parent.outputs[:index])
    return source, axis, tuple(range(before, before + parent.outputs[index].shape[axis])), False


def _integer(value: object) -> int:
    return int(str(value))
