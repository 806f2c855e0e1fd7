"""The rows of a report as a table that can be sorted and filtered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.formats.columns import COLUMNS, cell, default_columns, heading
from lipaudit.formats.html.brackets import Bracket, axis, bracket
from lipaudit.formats.html.ranks import ranks
from lipaudit.formats.html.scale import Scale
from lipaudit.records.report import LayerRecord

_FIRST = ("layer", "lower", "upper", "tightness", "share")  # what a narrow screen shows at once
_LAST = ("rigor", "note")
_NEEDED = ("layer", "op", "upper")  # columns that stay where nothing is in them


@dataclass(frozen=True)
class Column:
    """A column of the table: the number by which it is sorted, None for the bars, which are not; and what its rows show."""

    key: str
    heading: str
    number: int | None
    cells: Sequence[str | Bracket | None]
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """The columns, the rows, and what each row is sorted by: its places in all columns, the order of the network first."""

    columns: Sequence[Column]
    rows: Sequence[LayerRecord]
    places: Sequence[Sequence[int]]
    axis: Scale | None


def table(rows: Sequence[LayerRecord], colours: Scale | None) -> Table:
    """One line per row; numbers are those of the terminal's table, sorted by the exact values behind them."""
    usual = default_columns(rows)
    known = (*(key for key in _FIRST if key in usual), *(key for key in usual if key not in _FIRST), *_LAST)
    cells = {key: [cell(key, row) for row in rows] for key in known}
    keys = [key for key in cells if key in _NEEDED or any(cells[key])]
    places = [list(range(len(rows))), *(ranks(key, rows) for key in keys)]
    scale = axis(rows)
    bars = [bracket(row, scale, colours) if scale is not None and colours is not None else None for row in rows]
    columns = []
    for number, key in enumerate(keys, start=1):
        columns.append(Column(key, heading(key, rows), number, cells[key], COLUMNS[key].numeric))
        if key == "upper" and any(bars):
            columns.append(Column("bars", "lower to upper", None, bars))
    return Table(columns, rows, list(zip(*places, strict=True)), scale)
