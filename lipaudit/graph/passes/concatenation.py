"""Joins of several tensors along an axis, however they are called."""

from __future__ import annotations

from dataclasses import dataclass

from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.graph.ops import CONCATENATIONS

_STACKS = {"aten.stack.default"}
_BY_RANK = {"aten.hstack.default", "aten.vstack.default"}


@dataclass(frozen=True)
class Join:
    """``parts`` one after the other along ``axis``, which is a new one if ``new``."""

    parts: tuple[Argument, ...]
    axis: int
    new: bool


def join_of(node: Node) -> Join | None:
    """The join that a node is; None for any other operation and for parts whose shapes do not fit as they are."""
    parts = node.get("tensors")
    if node.op not in CONCATENATIONS | _STACKS | _BY_RANK or not isinstance(parts, tuple):
        return None
    rank = len(node.output.shape)
    ranks = {len(shape_of(part)) for part in parts}
    axis = _axis(node, rank)
    new = node.op in _STACKS
    # a vstack of vectors makes rows of them, a cat skips an empty part, and both may change the type
    if any(isinstance(part, Ref) and part.info.dtype is not node.output.dtype for part in parts):
        return None
    return Join(parts, axis, new) if ranks == {rank - new} else None


def _axis(node: Node, rank: int) -> int:
    if node.op in _BY_RANK:
        return 0 if node.op == "aten.vstack.default" or rank == 1 else 1
    return int(str(node["dim"])) % rank


def shape_of(part: Argument) -> tuple[int, ...]:
    """The shape of a part, data-dependent or constant."""
    if isinstance(part, Ref):
        return part.info.shape
    return tuple(part.value.shape) if isinstance(part, Constant) else ()
