"""Where the bound comes from: the shares of rows, of parts of the network and of kinds of operations as bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.records.groups import group_by_path, name_of
from lipaudit.records.report import LayerRecord
from lipaudit.text.numbers import count_text

_MOST, _SHRINKING = 15, 5  # bars of rows that stretch, and of rows that shrink


@dataclass(frozen=True)
class Bar:
    """The share of something, and the part of the page that it leads to; the sum of many rows is not ``drawn`` beside single ones."""

    label: str
    share: float
    key: str = ""
    drawn: bool = True


@dataclass(frozen=True)
class Chart:
    """Bars on one scale, from ``low`` (at most 0) to ``low + span``."""

    heading: str
    bars: Sequence[Bar]
    low: float
    span: float


def charts(rows: Sequence[LayerRecord]) -> list[Chart]:
    """The charts; empty where no row has a share."""
    if not any(row.share for row in rows):
        return []
    drawn = [_chart("By row", _by_row(rows))]
    parts, ops = _by_part(rows), _by_operation(rows)
    if 1 < len(parts) <= min(_MOST, len(rows) - 1):
        drawn.append(_chart("By part of the network", parts))
    if 1 < len(ops) <= min(_MOST, len(rows) - 1):
        drawn.append(_chart("By operation", ops))
    return drawn


def _by_row(rows: Sequence[LayerRecord]) -> list[Bar]:
    """The rows with the largest shares of both signs, the largest first, and the others as one sum per sign."""
    bars = [Bar(row.name, row.share, f"row-{i}") for i, row in enumerate(rows, start=1) if row.share]
    bars.sort(key=lambda entry: -entry.share)
    up, down = [b for b in bars if b.share > 0], [b for b in bars if b.share < 0]
    most = _MOST if len(up) > _MOST + 1 else len(up)
    shrinking = _SHRINKING if len(down) > _SHRINKING + 1 else len(down)
    last = down[len(down) - shrinking :]
    return [*up[:most], *_rest(up[most:], "stretch"), *_rest(down[: len(down) - shrinking], "shrink"), *last]


def _rest(bars: Sequence[Bar], what: str) -> list[Bar]:
    if not bars:
        return []
    label = f"{count_text(len(bars), 'other row')} that {what}"
    return [Bar(label, math.fsum(entry.share for entry in bars), drawn=False)]


def _by_part(rows: Sequence[LayerRecord]) -> list[Bar]:
    return [Bar(name_of(part), part.share or 0.0) for part in group_by_path(rows, 1)]


def _by_operation(rows: Sequence[LayerRecord]) -> list[Bar]:
    shares: dict[str, list[float]] = {}
    for row in rows:
        shares.setdefault(row.op, []).append(row.share or 0.0)
    bars = [Bar(f"{op} ({count_text(len(parts), 'row')})", math.fsum(parts)) for op, parts in shares.items()]
    return sorted(bars, key=lambda entry: -entry.share)


def _chart(heading: str, bars: Sequence[Bar]) -> Chart:
    drawn = [entry.share for entry in bars if entry.drawn]
    low, high = min(0.0, *drawn), max(0.0, *drawn)
    return Chart(heading, bars, low, high - low or 1.0)
