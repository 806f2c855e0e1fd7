"""Which row of one report is which row of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.records.report import LayerRecord


@dataclass(frozen=True)
class Match:
    """The numbers of a row in both reports; None where one does not have it. ``kind`` is as ``match`` of a LayerChange."""

    kind: str
    before: int | None
    after: int | None


def match_layers(before: Sequence[LayerRecord], after: Sequence[LayerRecord]) -> list[Match]:
    """Every row of both reports once, in the order of the second, removed rows behind the row that they followed.

    Rows match by name. Those left over match in order where their whole sequences of (operation, weight shape, details) are equal,
    as when an export renames its layers; otherwise they are added or removed.
    """
    firsts, seconds = _numbered(before), _numbered(after)
    partner = {seconds[name]: firsts[name] for name in seconds if name in firsts}
    old = [i for name, i in firsts.items() if name not in seconds]
    new = [i for name, i in seconds.items() if name not in firsts]
    renamed = old != [] and [_shape(before[i]) for i in old] == [_shape(after[i]) for i in new]
    kinds = {i: "name" if _same(before[partner[i]], row) else "changed" for i, row in enumerate(after) if i in partner}
    if renamed:
        partner |= dict(zip(new, old, strict=True))
        kinds |= dict.fromkeys(new, "shape")
        old = []
    matches = [Match(kinds.get(i, "added"), partner.get(i), i) for i in range(len(after))]
    for i in old:
        previous = max((at for at, match in enumerate(matches) if _is_before(match, i)), default=-1)
        matches.insert(previous + 1, Match("removed", i, None))
    return matches


def _numbered(layers: Sequence[LayerRecord]) -> dict[tuple[str, int], int]:
    """The number of every row by its name; a name that occurs again is told apart by how often it did."""
    seen: Counter[str] = Counter()
    numbers = {}
    for i, row in enumerate(layers):
        numbers[row.name, seen[row.name]] = i
        seen[row.name] += 1
    return numbers


def _same(before: LayerRecord, after: LayerRecord) -> bool:
    return (before.op, before.weight_shape) == (after.op, after.weight_shape)


def _shape(row: LayerRecord) -> tuple[object, ...]:
    return row.op, row.weight_shape, row.details


def _is_before(match: Match, number: int) -> bool:
    return match.before is not None and match.before < number
