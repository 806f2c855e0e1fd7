"""Where the bound comes from: the shares of rows, of parts of the network and of kinds of operations as bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.formats.columns import Group, group_rows
from lipaudit.formats.html.markup import number, text
from lipaudit.records.report import LayerRecord
from lipaudit.text.numbers import count_text, share_text

_MOST, _SHRINKING = 15, 5  # bars of rows that stretch, and of rows that shrink


@dataclass(frozen=True)
class _Bar:
    """A line of a chart; the sum of many rows is no bar beside single ones, and is not ``drawn``."""

    label: str
    share: float
    link: str = ""
    drawn: bool = True


def render(rows: Sequence[LayerRecord]) -> str:
    """The bar charts; empty where no row has a share."""
    if not any(row.share for row in rows):
        return ""
    charts = [_chart("By row", _by_row(rows))]
    parts, ops = _by_part(rows), _by_operation(rows)
    if 1 < len(parts) <= min(_MOST, len(rows) - 1):
        charts.append(_chart("By part of the network", parts))
    if 1 < len(ops) <= min(_MOST, len(rows) - 1):
        charts.append(_chart("By operation", ops))
    return f'<div class="charts">{"".join(charts)}</div>'


def _by_row(rows: Sequence[LayerRecord]) -> list[_Bar]:
    """The rows with the largest shares of both signs, the largest first, and the others as one bar per sign."""
    bars = [_Bar(row.name, row.share, f"#row-{i}") for i, row in enumerate(rows, start=1) if row.share]
    bars.sort(key=lambda entry: -entry.share)
    up, down = [b for b in bars if b.share > 0], [b for b in bars if b.share < 0]
    most = _MOST if len(up) > _MOST + 1 else len(up)
    shrinking = _SHRINKING if len(down) > _SHRINKING + 1 else len(down)
    last = down[len(down) - shrinking :]
    return [*up[:most], *_rest(up[most:], "stretch"), *_rest(down[: len(down) - shrinking], "shrink"), *last]


def _rest(bars: Sequence[_Bar], what: str) -> list[_Bar]:
    if not bars:
        return []
    return [
        _Bar(f"{count_text(len(bars), 'other row')} that {what}", math.fsum(entry.share for entry in bars), drawn=False)
    ]


def _by_part(rows: Sequence[LayerRecord]) -> list[_Bar]:
    groups = group_rows(rows, 1)
    return [_Bar(g.label if isinstance(g, Group) else g.name, g.share or 0.0) for g in groups]


def _by_operation(rows: Sequence[LayerRecord]) -> list[_Bar]:
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.op, []).append(row.share or 0.0)
    bars = [_Bar(f"{op} ({count_text(len(shares), 'row')})", math.fsum(shares)) for op, shares in found.items()]
    return sorted(bars, key=lambda entry: -entry.share)


def _chart(heading: str, bars: Sequence[_Bar]) -> str:
    drawn = [entry.share for entry in bars if entry.drawn]
    low, high = min(0.0, *drawn), max(0.0, *drawn)
    lines = "".join(_line(entry, low, high - low or 1.0) for entry in bars)
    return f'<figure class="shares"><figcaption>{heading}</figcaption><ul>{lines}</ul></figure>'


def _line(entry: _Bar, low: float, span: float) -> str:
    name = f"<bdi>{text(entry.label)}</bdi>"
    name = f'<a href="{entry.link}">{name}</a>' if entry.link else name
    bar = ""
    if entry.drawn:
        start, end = sorted((-low / span, (entry.share - low) / span))
        bar = (
            f'<svg class="bar" aria-hidden="true" height="8"><rect class="{"down" if entry.share < 0 else "up"}" '
            f'x="{number(start * 100)}%" width="{number((end - start) * 100)}%" height="8"/></svg>'
        )
    return f'<li><span class="name">{name}</span><span class="share">{share_text(entry.share)}</span>{bar}</li>'
