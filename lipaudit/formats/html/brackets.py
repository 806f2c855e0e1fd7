"""A row's bounds from both sides as a small bar, on one logarithmic scale for all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.formats.html.environment import number
from lipaudit.formats.html.rows import kind, log10_figure, log10_lower
from lipaudit.formats.html.scale import Scale
from lipaudit.records.report import LayerRecord

_WIDTH, _MARGIN = 104, 4  # as in templates/marks.html


@dataclass(frozen=True)
class Bracket:
    """A bar from ``left`` on, ``width`` wide, and a thin line from the factor 1 (``one``) to its ``start``.

    ``kind`` is ``bound``, ``one-sided`` (known from above only: a pointed bar that ends at ``tip``), ``estimate`` (a mark at ``end``),
    ``unbounded`` or ``unsupported``. Positions are written as SVG takes them.
    """

    kind: str
    one: str = ""
    start: str = ""
    end: str = ""
    tip: str = ""
    left: str = ""
    width: str = ""
    fill: str = ""


def axis(rows: Sequence[LayerRecord]) -> Scale | None:
    """The scale of the bars: every figure, every lower bound above 0, and the factor 1."""
    scale = Scale.of(rows)
    if scale is None:
        return None
    lowers = [low for row in rows if (low := log10_lower(row)) is not None and low > -math.inf]
    return Scale(min([0.0, scale.low, *(math.floor(low * 10) / 10 for low in lowers)]), max(0.0, scale.high))


def bracket(row: LayerRecord, axis: Scale, colours: Scale) -> Bracket | None:
    """The bar of a row; None where the row has no figure."""
    what, upper = kind(row), log10_figure(row)
    if what in ("unbounded", "unsupported"):
        return Bracket(what)
    if upper is None:
        return None
    low, one, end = log10_lower(row), _x(0.0, axis), _x(upper, axis)
    start = end if low is None else min(_x(low, axis), end)
    left, right = (start - 1.5, end + 1.5) if end - start < 3 else (start, end)
    return Bracket(
        kind=what if what == "estimate" or low is not None else "one-sided",
        one=number(one),
        start=number(start),
        end=number(end),
        tip=number(end + 1.5),
        left=number(left),
        width=number(right - left),
        fill=colours.colour(upper),
    )


def _x(log10: float, axis: Scale) -> float:
    return _MARGIN + axis.place(log10) * (_WIDTH - 2 * _MARGIN)
