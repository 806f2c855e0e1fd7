"""A row's bounds from both sides as a small bar, on one logarithmic scale for all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lipaudit.formats.html.markup import number
from lipaudit.formats.html.rows import kind, log10_figure, log10_lower
from lipaudit.formats.html.scale import Scale
from lipaudit.records.report import LayerRecord

_WIDTH, _HEIGHT, _MARGIN = 104, 14, 4


def axis(rows: Sequence[LayerRecord]) -> Scale | None:
    """The scale of the bars: every figure, every lower bound above 0, and the factor 1."""
    scale = Scale.of(rows)
    if scale is None:
        return None
    lowers = [low for row in rows if (low := log10_lower(row)) is not None and low > -math.inf]
    return Scale(min([0.0, scale.low, *(math.floor(low * 10) / 10 for low in lowers)]), max(0.0, scale.high))


def bar(row: LayerRecord, axis: Scale, colours: Scale) -> str:
    """The bracket of a row: filled from the lower to the upper bound, a thin line from 1 to where it begins."""
    what, upper = kind(row), log10_figure(row)
    if what in ("unbounded", "unsupported"):
        return _svg(
            f'<rect class="outlined" x="{_MARGIN}" y="3" width="{_WIDTH - 2 * _MARGIN}" height="8" fill="url(#{what})"/>'
        )
    if upper is None:
        return ""
    low, one, end = log10_lower(row), _x(0.0, axis), _x(upper, axis)
    start = end if low is None else min(_x(low, axis), end)
    left, right = (start - 1.5, end + 1.5) if end - start < 3 else (start, end)
    lead = f'<path class="lead" d="M{number(one)} 7H{number(start)}"/><path class="one" d="M{number(one)} 1v12"/>'
    if what == "estimate":
        return _svg(f'{lead}<circle class="mark hollow dashed" cx="{number(end)}" cy="7" r="4"/>')
    fill = colours.colour(upper)
    shape = f'<rect class="outlined" x="{number(left)}" y="3" width="{number(right - left)}" height="8" fill="{fill}"/>'
    if low is None:  # known from above only
        shape = f'<path class="outlined" d="M{number(end + 1.5)} 3v8h-3l-4-4 4-4z" fill="{fill}"/>'
    return _svg(lead + shape)


def _x(log10: float, axis: Scale) -> float:
    return _MARGIN + axis.place(log10) * (_WIDTH - 2 * _MARGIN)


def _svg(content: str) -> str:
    return f'<svg class="bracket" width="{_WIDTH}" height="{_HEIGHT}" aria-hidden="true">{content}</svg>'
