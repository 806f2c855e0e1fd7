"""How data movement passes radii on: the axes of a slice are followed to where they go.

Entries are only moved, dropped, repeated or joined with constants, which do not stray at all. What is not listed here
keeps the bound of single entries and multiplies that of the whole tensor by its constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect
from lipaudit.rules.operands import number
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Axes, Radii, broadcast
from lipaudit.rules.rule import passes
from lipaudit.spectral.bracket import Bracket


def _followed(source: Radii, shape: tuple[int, ...], place: Callable[[int], int | None]) -> Radii:
    """The radii with each axis moved to ``place(axis)``; an axis that goes to None has one entry picked from it."""
    logs: dict[Axes, float] = {}
    for axes, log in source.logs.items():
        moved = frozenset(p for a in axes if (p := place(a)) is not None)
        logs[moved] = min(log, logs.get(moved, math.inf))
    return Radii(shape, logs).sharpest()


@passes("aten.permute.default")
def permute(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Axis i of the output is axis dims[i] of the input."""
    rank = len(operands[0].shape)
    order = [int(d) % rank for d in node["dims"]]  # type: ignore[union-attr, arg-type]
    return (_followed(operands[0].radii, node.output.shape, order.index),)


@passes("aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default")
def transpose(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Two axes change places."""
    rank = len(operands[0].shape)
    first, second = (int(number(node, key)) % max(1, rank) for key in list(node.arguments)[1:3])
    swap = {first: second, second: first}
    return (_followed(operands[0].radii, node.output.shape, lambda a: swap.get(a, a)),)


@passes("aten.t.default", "aten.mT.default", "aten.numpy_T.default")
def matrix_transpose(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The last two axes, or all axes, change places."""
    rank = len(operands[0].shape)
    order = list(range(rank))
    if "numpy_T" in node.op:
        order.reverse()
    elif rank > 1:
        order[-2:] = reversed(order[-2:])
    return (_followed(operands[0].radii, node.output.shape, order.index),)


@passes("aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist")
def movedim(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The axes ``source`` go to ``destination``, the others keep their order."""
    rank = len(operands[0].shape)
    ends = [node[key] for key in ("source", "destination")]
    source, target = ([int(a) % rank for a in (e if isinstance(e, tuple) else (e,))] for e in ends)  # type: ignore[arg-type]
    rest = iter([a for a in range(rank) if a not in source])
    order = [source[target.index(i)] if i in target else next(rest) for i in range(rank)]
    return (_followed(operands[0].radii, node.output.shape, order.index),)


@passes("aten.select.int")
def select(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """One entry of an axis."""
    return (_without_axis(operands[0], int(number(node, "dim")), node.output.shape),)


@passes("aten.unbind.int")
def unbind(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every entry of an axis."""
    return tuple(_without_axis(operands[0], int(number(node, "dim")), o.shape) for o in node.outputs)


@passes("getitem")
def getitem(_node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """One output of several: the magnitude that arrives is already that output's."""
    return (operands[0].radii,)


def _without_axis(operand: Magnitude, axis: int, shape: tuple[int, ...]) -> Radii:
    gone = axis % len(operand.shape)
    return _followed(operand.radii, shape, lambda a: None if a == gone else a - (a > gone))


@passes(
    "aten.slice.Tensor", "aten.narrow.default", "aten.split.Tensor", "aten.split.sizes", "aten.flip.default",
    "aten.split_with_sizes.default", "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default",
    "aten.chunk.default", "aten.unsafe_chunk.default", "aten.tensor_split.sections", "aten.tensor_split.indices",
    "aten.roll.default", "aten.constant_pad_nd.default", "aten.tril.default", "aten.triu.default",
    "aten.channel_shuffle.default", "aten.native_channel_shuffle.default", "aten.index_select.default",
    "aten.fft_fftshift.default", "aten.fft_ifftshift.default",
)  # fmt: skip
def same_axes(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Entries of each axis are dropped, reordered or joined by constants; where some are repeated the copies count."""
    if (
        node.op == "aten.roll.default" and not node["dims"]
    ):  # the flattened tensor is rolled: slices become parts of others
        return entries_and_whole(node, effect, operands)
    return tuple(Radii(o.shape, _copied(node, effect, operands[0].radii)) for o in node.outputs)


def _copied(node: Node, effect: Effect, source: Radii) -> dict[Axes, float]:
    if "index_select" not in node.op:
        return dict(source.logs)
    axis = int(number(node, "dim")) % max(1, len(source.shape))
    copies = effect.factors[0]
    return {axes: (copies * source.over(axes)).log_upper if axis in axes else log for axes, log in source.logs.items()}


@passes("aten.pad.default")
def pad(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Constants around an image; reflected and repeated borders repeat entries of the padded axes."""
    if node.get("mode") == "constant":
        return (Radii(node.output.shape, dict(operands[0].radii.logs)),)
    return entries_and_whole(node, effect, operands)


@passes(
    "aten.pixel_shuffle.default", "aten.pixel_unshuffle.default", "aten.unfold.default", "aten.im2col.default",
    "aten.index.Tensor", "aten.gather.default", "aten.take_along_dim.default", "aten.repeat.default",
    "aten.tile.default", "aten.repeat_interleave.self_int", "aten.diagonal.default", "aten.rot90.default",
    *(f"aten.{kind}_pad{d}d.default" for kind in ("reflection", "replication") for d in (1, 2, 3)),
    *(f"aten.upsample_nearest{d}d.{v}" for d in (1, 2, 3) for v in ("default", "vec")),
)  # fmt: skip
def entries_and_whole(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Single entries stray as far as before, the whole tensor by the constant of the operation."""
    (entries, total) = (operands[0].spread(()), effect.factors[0] * operands[0].radii.total)
    return tuple(Radii.of(o.shape, {(): entries, tuple(range(len(o.shape))): total}).sharpest() for o in node.outputs)


@passes("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default")
def expand(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Broadcasting to a shape."""
    return (broadcast(operands[0].radii, node.output.shape),)


@passes("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def concatenate(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A slice across the joined axis consists of one slice of each, another one is a slice of one of them."""
    shape = node.output.shape
    axis = int(number(node, "dim")) % len(shape)
    parts = [m.radii for m in operands if len(m.shape) == len(shape)]
    wanted = {frozenset(), frozenset(range(len(shape)))}.union(*(r.logs for r in parts))
    bounds: dict[tuple[int, ...], float | Bracket] = {
        tuple(t): (Bracket.root_sum_squares if axis in t else Bracket.maximum)([r.over(t) for r in parts])
        for t in wanted
    }
    return (Radii.of(shape, bounds).sharpest(),)


@passes("aten.stack.default")
def stack(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Tensors along a new axis."""
    shape = node.output.shape
    axis = int(number(node, "dim")) % len(shape)
    parts = [_followed(m.radii, shape, lambda a: a + (a >= axis)) for m in operands]
    wanted = {frozenset(), frozenset(range(len(shape)))}.union(*(r.logs for r in parts))
    bounds: dict[tuple[int, ...], float | Bracket] = {}
    for t in wanted:
        slices = [m.radii.over(a - (a > axis) for a in t - {axis}) for m in operands]
        bounds[tuple(t)] = (Bracket.root_sum_squares if axis in t else Bracket.maximum)(slices)
    return (Radii.of(shape, bounds).sharpest(),)


@passes(
    "aten.view.default", "aten._unsafe_view.default", "aten.view_copy.default", "aten.reshape.default",
    "aten.flatten.using_ints", "aten.unflatten.int", "aten.ravel.default", "aten.squeeze.default", "aten.squeeze.dim",
    "aten.squeeze.dims", "aten.unsqueeze.default", "aten.view_as.default", "aten.reshape_as.default",
    "aten.atleast_1d.default",
)  # fmt: skip
def view(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The same entries in the same order in another shape."""
    return (reshaped(operands[0].radii, node.output.shape),)


def reshaped(source: Radii, shape: tuple[int, ...]) -> Radii:
    """The radii of the same entries in ``shape``.

    Both shapes fall into groups of consecutive axes with equal products. Within a group a slice over all axes is one
    over all of the other shape's, and a slice over the last axes is one over the other's last axes, where their products
    agree, or part of one where the other's are smaller.
    """
    pairs = _groups(source.shape, shape)
    if 0 in source.shape:
        return Radii.zero(shape)
    logs: dict[Axes, float] = {frozenset(): source.over(()).log_upper}
    candidates: set[Axes] = {frozenset(range(len(shape)))}
    for axes in source.logs:
        for exact in (True, False):
            candidates.add(_image(axes, source.shape, shape, pairs, exact))
    back = [(new, old) for old, new in pairs]
    for target in candidates:
        # every slice over the target is part of one over this set of the source's axes, or the same
        covering = _image(target, shape, source.shape, back, exact=False)
        size = math.prod(source.shape[a] for a in covering)
        if size >= math.prod(shape[a] for a in target) and _covers(covering, target, pairs, source.shape, shape):
            logs[target] = source.over(covering).log_upper
    return Radii(shape, {a: x for a, x in logs.items() if x < math.inf}).sharpest()


def _groups(first: tuple[int, ...], second: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Axes of both shapes in consecutive groups of equal products, as small as possible."""
    groups = []
    i = j = 0
    while i < len(first) or j < len(second):
        left: list[int] = []
        right: list[int] = []
        a = b = 1
        while (not left or not right or a != b) and (i < len(first) or j < len(second)):
            if i < len(first) and (a <= b or j >= len(second)):
                a *= first[i]
                left.append(i)
                i += 1
            else:
                b *= second[j]
                right.append(j)
                j += 1
        groups.append((tuple(left), tuple(right)))
    return groups


def _image(
    axes: Iterable[int],
    before: tuple[int, ...],
    after: tuple[int, ...],
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]],
    exact: bool,
) -> Axes:
    """The axes of ``after`` that a slice over ``axes`` of ``before`` becomes.

    Within a group: all axes, or the last ones up to the product of the slice's (``exact``: no more than that; otherwise at
    least that), or all of the group where the slice is not over its last axes.
    """
    chosen = set(axes)
    found: set[int] = set()
    for old, new in pairs:
        part = [a for a in old if a in chosen and before[a] > 1]
        if not part:
            continue
        first = old.index(part[0])
        run = [a for a in old[first:] if before[a] > 1]
        if run != part:
            found.update(new)
            continue
        size = math.prod(before[a] for a in part)
        taken = 1
        for a in reversed(new):
            if taken >= size or (exact and taken * after[a] > size):
                break
            found.add(a)
            taken *= after[a]
    return frozenset(found)


def _covers(
    covering: Axes,
    target: Axes,
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]],
    before: tuple[int, ...],
    after: tuple[int, ...],
) -> bool:
    """Whether a slice over ``target`` of the new shape lies within one over ``covering`` of the old one.

    Within a group it does if the covering slice is the whole group, or both are over the last axes and the one's number
    of entries is a multiple of the other's.
    """
    for old, new in pairs:
        wanted = [a for a in new if a in target and after[a] > 1]
        given = [a for a in old if a in covering and before[a] > 1]
        if not wanted or given == [a for a in old if before[a] > 1]:
            continue
        tail_wanted = [a for a in new[new.index(wanted[0]) :] if after[a] > 1] == wanted
        tail_given = bool(given) and [a for a in old[old.index(given[0]) :] if before[a] > 1] == given
        ours, theirs = (math.prod(s[a] for a in axes) for s, axes in ((before, given), (after, wanted)))
        if not (tail_wanted and tail_given and ours % theirs == 0):
            return False
    return True
