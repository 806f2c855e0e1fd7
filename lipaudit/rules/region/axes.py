"""How radii follow the axes of a tensor: to other places, through other shapes, along the axes that an operation mixes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Axes, Radii, axes_of
from lipaudit.spectral.bracket import Bracket


def followed(source: Radii, shape: tuple[int, ...], place: Callable[[int], int | None]) -> Radii:
    """The radii with each axis moved to ``place(axis)``; an axis that goes to None has one entry picked from it."""
    logs: dict[Axes, float] = {}
    for axes, log in source.logs.items():
        moved = frozenset(p for a in axes if (p := place(a)) is not None)
        logs[moved] = min(log, logs.get(moved, math.inf))
    return Radii(shape, logs).sharpest()


def without_axis(source: Radii, axis: int, shape: tuple[int, ...]) -> Radii:
    """The radii of one entry of an axis."""
    gone = axis % len(source.shape)
    return followed(source, shape, lambda a: None if a == gone else a - (a > gone))


def along(operand: Magnitude, factor: Bracket, mixed: Iterable[int], output: tuple[int, ...]) -> Radii:
    """Radii of an output with the axes of the operand, slices over ``mixed`` being mapped with the constant ``factor``.

    Every slice over T that contains the mixed axes M is mapped slice over M by slice over M, so that radius(T) is multiplied by the
    factor.
    """
    axes = axes_of(mixed, len(operand.shape))
    wanted = {known | axes for known in operand.radii.logs} | {axes, frozenset(range(len(output)))}
    return Radii.of(output, {tuple(t): factor * operand.spread(t) for t in wanted}).sharpest()


def reduced(
    operand: Magnitude, gone: Axes, output: tuple[int, ...], whole_slice: Bracket, entry: Bracket | None, spread: bool
) -> Radii:
    """Radii after a reduction over the axes M = ``gone``, which the output has lost or has with one entry each.

    A slice over T of the result is at most ``whole_slice`` times the deviation over T and M, and, for a weighted sum
    (``spread``) whose weights add up to ``entry``, at most ``entry`` times the largest deviation over T alone; without ``spread``
    that holds for single entries.
    """
    rank = len(operand.shape)
    kept = [a for a in range(rank) if a not in gone or len(output) == rank]
    place = {a: i for i, a in enumerate(kept)}
    bounds: dict[tuple[int, ...], float | Bracket] = {}
    wanted = {known - gone for known in operand.radii.logs} | {frozenset(), frozenset(range(rank)) - gone}
    for axes in wanted:
        options = [whole_slice * operand.spread(axes | gone)]
        if entry is not None and (spread or not axes):
            options.append(entry * operand.spread(axes))
        bounds[tuple(place[a] for a in axes)] = min(options, key=lambda b: b.log_upper)
    return Radii.of(output, bounds).sharpest()


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
    image: set[int] = set()
    for old, new in pairs:
        part = [a for a in old if a in chosen and before[a] > 1]
        if not part:
            continue
        first = old.index(part[0])
        run = [a for a in old[first:] if before[a] > 1]
        if run != part:
            image.update(new)
            continue
        size = math.prod(before[a] for a in part)
        taken = 1
        for a in reversed(new):
            if taken >= size or (exact and taken * after[a] > size):
                break
            image.add(a)
            taken *= after[a]
    return frozenset(image)


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
