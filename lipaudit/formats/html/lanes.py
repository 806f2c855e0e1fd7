"""Where the rows of a network are drawn: one line each, from top to bottom, and their values as vertical lanes beside them.

A value leaves its row downwards and keeps its lane until the last row that reads it, so that a lane holds one value at a time and no
two lines overlap; a row goes on in a lane that ends there. Rows of residual and dense networks read many values at once, mostly
the same ones again and one more: where two or more rows read one set of values, its lines meet in a point (``join``), and a larger
set starts from that point. What a row reads can be followed upwards through the points, and is what the report says.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from lipaudit.records.report import LayerRecord

_Source = int | str  # a row by its position, or a network input by its name
_Values = frozenset[_Source]  # what is read together
_Key = _Source | _Values


@dataclass(frozen=True)
class Item:
    """Something on a line of its own: an ``input`` (``name``), a ``row`` (``index`` among the rows) or a ``join``.

    ``reads`` are positions of earlier items; ``last`` is that of the last item that reads this one, its own where none does.
    """

    kind: str
    index: int
    name: str
    reads: tuple[int, ...]
    lane: int
    last: int


def arrange(rows: Sequence[LayerRecord]) -> tuple[Item, ...]:
    """The items of a network in the order in which they are drawn."""
    sources = _sources(rows)
    covers = _covers(read for read in sources if len(read) > 1)
    joins = _joins(sources, covers)
    order = _order(sources, joins)
    place = {key: position for position, key in enumerate(order)}
    reads = [tuple(place[part] for part in _read_by(key, sources, covers, joins)) for key in order]
    last = list(range(len(order)))
    for position, read in enumerate(reads):
        for source in read:
            last[source] = position
    lanes = _lanes(reads, last)
    return tuple(_item(key, rows, reads[i], lanes[i], last[i]) for i, key in enumerate(order))


def _item(key: _Key, rows: Sequence[LayerRecord], reads: tuple[int, ...], lane: int, last: int) -> Item:
    if isinstance(key, int):
        return Item("row", key, rows[key].name, reads, lane, last)
    return (
        Item("input", -1, key, reads, lane, last) if isinstance(key, str) else Item("join", -1, "", reads, lane, last)
    )


def _sources(rows: Sequence[LayerRecord]) -> list[tuple[_Source, ...]]:
    """What every row reads; a name that no earlier row has is an input's."""
    earlier: dict[str, int] = {}
    sources: list[tuple[_Source, ...]] = []
    for position, row in enumerate(rows):
        sources.append(tuple(dict.fromkeys(earlier.get(name, name) for name in row.inputs)))
        earlier[row.name] = position
    return sources


def _covers(sources: Iterable[tuple[_Source, ...]]) -> dict[_Values, tuple[_Key, ...]]:
    """Every set of values that is read: the largest sets before it that it contains, and the values that are left."""
    covers: dict[_Values, tuple[_Key, ...]] = {}
    by_size: list[_Values] = []
    for read in sources:
        values = frozenset(read)
        if values in covers:
            continue
        rest, parts = values, []
        for known in by_size:
            if len(rest) < 2:
                break
            if len(known) <= len(rest) and known <= rest:
                parts.append(known)
                rest -= known
        covers[values] = (*parts, *(source for source in read if source in rest))
        insort(by_size, values, key=lambda known: -len(known))
    return covers


def _joins(
    sources: Sequence[tuple[_Source, ...]], covers: Mapping[_Values, tuple[_Key, ...]]
) -> dict[_Values, tuple[_Key, ...]]:
    """The sets that are read more than once: by rows, or by larger sets."""
    uses = Counter[_Key](frozenset(read) for read in sources)
    uses.update(part for parts in covers.values() for part in parts)
    return {values: parts for values, parts in covers.items() if uses[values] > 1}


def _order(sources: Sequence[tuple[_Source, ...]], joins: Iterable[_Values]) -> list[_Key]:
    """Inputs, then the rows as they come, every join as soon as its values are there."""
    after: dict[int, list[_Values]] = {}
    for values in sorted(joins, key=len):
        newest = max((source for source in values if isinstance(source, int)), default=-1)
        after.setdefault(newest, []).append(values)
    order: list[_Key] = list(dict.fromkeys(source for read in sources for source in read if isinstance(source, str)))
    order += after.get(-1, [])
    for position in range(len(sources)):
        order += [position, *after.get(position, [])]
    return order


def _read_by(
    key: _Key,
    sources: Sequence[tuple[_Source, ...]],
    covers: Mapping[_Values, tuple[_Key, ...]],
    joins: Mapping[_Values, tuple[_Key, ...]],
) -> tuple[_Key, ...]:
    """What lines lead to an item."""
    if isinstance(key, frozenset):
        return joins[key]
    if isinstance(key, str) or len(sources[key]) < 2:
        return () if isinstance(key, str) else sources[key]
    values = frozenset(sources[key])
    return (values,) if values in joins else covers[values]


def _lanes(reads: Sequence[tuple[int, ...]], last: Sequence[int]) -> list[int]:
    """The lane of every item: the leftmost that ends there, else the leftmost that is free."""
    lanes: list[int] = []
    free: list[int] = []  # a heap of the lanes below ``width`` that hold no value
    width = 0
    for position, read in enumerate(reads):
        for lane in {lanes[source] for source in read if last[source] == position}:
            heappush(free, lane)
        ending = [lanes[source] for source in read if last[source] == position]
        if ending:
            lane = min(ending)
            free.remove(lane)
            heapify(free)
        elif free:
            lane = heappop(free)
        else:
            lane, width = width, width + 1
        lanes.append(lane)
        if last[position] == position:
            heappush(free, lane)
    return lanes
