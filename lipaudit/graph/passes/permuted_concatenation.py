"""Joins of pieces of one tensor: its entries in another order.

cat(x[:, :4], x[:, 4:]) is x, and stack((x[:, ::2], x[:, 1::2]), 1) only reorders it, but a join of k tensors counts the
root of k: nothing says that the pieces share no entry. Read as a selection of entries, x.index_select(axis, indices), and
views, it counts the root of the largest number of times that one entry is picked. Pieces that differ along several axes
(the patches that are merged in a Swin transformer, the first layer of YOLOv5) are selected from the flattened tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain, groupby

import torch

from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.graph.passes.concatenation import Join, join_of, shape_of
from lipaudit.graph.passes.equal_nodes import representatives
from lipaudit.graph.passes.slices import Piece, piece_of
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NewNodes, NoMatch

_SELECT, _RESHAPE, _MOVE, _JOIN = (
    "aten.index_select.default", "aten.reshape.default", "aten.movedim.int", "aten.cat.default",
)  # fmt: skip
# Entries of a tensor beyond which pieces along several axes are not written out as a list of entries.
MOST_ENTRIES = 2**23
_NO_RUN = NoMatch("no two parts beside each other are pieces of one tensor with the same axes")
_TOO_LARGE = NoMatch("the pieces differ along several axes of a tensor that is too large for a list of its entries")

Shape = tuple[int, ...]


def matcher(index: GraphIndex) -> Matcher:
    """Matches joins in which pieces of one tensor stand beside each other."""
    same = representatives(index.graph)

    def match(node: Node) -> Match | NoMatch:
        join = join_of(node)
        return OTHER_OPERATION if join is None else _selected(index, node, join, same)

    return match


def _selected(index: GraphIndex, node: Node, join: Join, same: Mapping[str, str]) -> Match | NoMatch:
    """Every run of pieces of one tensor as a selection of its entries."""
    pieces = [piece_of(part, index.producers) if isinstance(part, Ref) else None for part in join.parts]

    def selected(piece: Piece) -> tuple[object, ...]:
        return (same[piece.source.name], piece.axes)

    cut = {selected(piece) for piece in pieces if piece is not None and not piece.is_whole}

    def kind(position: int) -> tuple[object, ...]:
        """Equal for pieces that can be selected together; unlike everything else for what is no piece, or a whole tensor without any."""
        piece = pieces[position]
        if piece is None or math.prod(piece.source.info.shape) == 0 or (piece.is_whole and selected(piece) not in cut):
            return (position,)
        return selected(piece)

    runs = [list(run) for _, run in groupby(range(len(pieces)), key=kind)]
    if all(len(run) == 1 for run in runs):
        return _NO_RUN
    new = NewNodes(index, node)
    blocks: list[Argument] = []
    for run in runs:
        chosen = [piece for i in run if (piece := pieces[i]) is not None]
        block = _single(new, join.parts[run[0]], join) if len(run) == 1 else _selection(new, join, chosen)
        if block is None:
            return _TOO_LARGE
        blocks.append(block)
    if len(blocks) > 1:
        new.add("joined", _JOIN, {"tensors": tuple(blocks), "dim": join.axis}, node.output.shape)
    elif not new.nodes or Ref(new.nodes[-1].name, node.output) != blocks[0]:  # the join is its source itself
        new.add("whole", _RESHAPE, {"self": blocks[0], "shape": node.output.shape}, node.output.shape)
    return new.match(new.nodes[-1].op)


def _single(new: NewNodes, part: Argument, join: Join) -> Argument:
    """A part with the axes of the join."""
    if not join.new:
        return part
    if isinstance(part, Constant):
        return replace(part, value=part.value.unsqueeze(join.axis))
    shape = shape_of(part)
    upright = (*shape[: join.axis], 1, *shape[join.axis :])
    return new.add("upright", _RESHAPE, {"self": part, "shape": upright}, upright)


def _selection(new: NewNodes, join: Join, pieces: list[Piece]) -> Ref | None:
    """Several pieces of one tensor as one tensor with the axes of the join."""
    first = pieces[0]
    differ = [axis for axis, picks in enumerate(first.picks) if any(p.picks[axis] != picks for p in pieces)]
    if len(differ) > 1:
        return _from_flat(new, join, pieces)
    # pieces that are equal are so many copies, along the axis that is joined or, where that is new, any other
    spare = [*differ, *(first.axes[join.axis : join.axis + 1] if not join.new else ()), *first.axes, 0]
    return _along(new, join, pieces, spare[0])


def _along(new: NewNodes, join: Join, pieces: list[Piece], axis: int) -> Ref:
    """Pieces that differ along one axis of their source, or along none."""
    first = pieces[0]
    chosen = first.source
    for other, picks in enumerate(first.picks):
        wanted = picks if other != axis else tuple(chain.from_iterable(p.picks[axis] for p in pieces))
        if wanted != tuple(range(chosen.info.shape[other])):
            arguments: dict[str, Argument] = {
                "self": chosen, "dim": other, "index": Constant(torch.tensor(wanted, dtype=torch.int64)),
            }  # fmt: skip
            chosen = new.add("chosen", _SELECT, arguments, _sized(chosen.info.shape, other, len(wanted)))
    return _arranged(new, join, chosen, axis, len(pieces), first.axes)


def _arranged(new: NewNodes, join: Join, chosen: Ref, axis: int, count: int, axes: Shape) -> Ref:
    """The pieces, one after the other along ``axis``, joined: an axis that counts them moves to where they are joined.

    ``axes`` are those that the pieces have left; the others have one entry in each piece.
    """
    shape = chosen.info.shape
    before = tuple(shape[a] for a in axes if a < axis)
    after = tuple(shape[a] for a in axes if a > axis)
    if not join.new and axis in axes and len(before) == join.axis:  # cut and joined along the same axis
        return _reshaped(new, chosen, (*before, shape[axis], *after))
    counted = (count, *((shape[axis] // count,) if axis in axes else ()))
    chosen = _reshaped(new, chosen, (*before, *counted, *after))
    rest = (*before, *counted[1:], *after)
    stacked = (*rest[: join.axis], count, *rest[join.axis :])
    if len(before) != join.axis:
        arguments: dict[str, Argument] = {"self": chosen, "source": len(before), "destination": join.axis}
        chosen = new.add("moved", _MOVE, arguments, stacked)
    return chosen if join.new else _reshaped(new, chosen, _sized(rest, join.axis, count * rest[join.axis]))


def _reshaped(new: NewNodes, tensor: Ref, shape: Shape) -> Ref:
    return (
        tensor if tensor.info.shape == shape else new.add("shaped", _RESHAPE, {"self": tensor, "shape": shape}, shape)
    )


def _from_flat(new: NewNodes, join: Join, pieces: list[Piece]) -> Ref | None:
    """Pieces that differ along several axes: the entries of the flattened source in their order."""
    source = pieces[0].source
    entries = math.prod(source.info.shape)
    if entries > MOST_ENTRIES:
        return None
    numbers = torch.arange(entries).reshape(source.info.shape)
    combine: Callable[..., torch.Tensor] = torch.stack if join.new else torch.cat
    wanted = combine([_entries(numbers, piece) for piece in pieces], join.axis)
    flat = _reshaped(new, source, (entries,))
    arguments: dict[str, Argument] = {"self": flat, "dim": 0, "index": Constant(wanted.flatten())}
    return _reshaped(new, new.add("chosen", _SELECT, arguments, (wanted.numel(),)), tuple(wanted.shape))


def _entries(numbers: torch.Tensor, piece: Piece) -> torch.Tensor:
    for axis, picks in enumerate(piece.picks):
        numbers = numbers.index_select(axis, torch.tensor(picks, dtype=torch.int64))
    return numbers.reshape([len(piece.picks[axis]) for axis in piece.axes])


def _sized(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])
