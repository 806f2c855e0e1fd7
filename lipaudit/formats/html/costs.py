"""The rows that cost most, equal layers of repeated blocks together, as on the first screen of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.formats.columns import COLUMNS, FIRST_COLUMNS, Column, filled
from lipaudit.formats.layout import Layout
from lipaudit.formats.table import chosen_rows
from lipaudit.records.groups import Group, Row, layers_of
from lipaudit.records.report import AuditReport
from lipaudit.records.stretching import costs as costs_of
from lipaudit.text.numbers import count_text

_MOST = 12  # rows


@dataclass(frozen=True)
class CostlyRow:
    """A row or group: its cells, the number of its first layer, and its share of the largest one in percent."""

    cells: tuple[str, ...]
    number: int
    percent: float
    status: str


@dataclass(frozen=True)
class Costs:
    """What templates/costs.html shows: ``sentences`` where no row or a block stretches, and the table with a remark on it."""

    sentences: Sequence[str]
    columns: tuple[Column, ...] = ()
    rows: tuple[CostlyRow, ...] = ()
    has_shares: bool = False
    count: str = ""
    grouped: bool = False


def costs(report: AuditReport, sentences: Sequence[str]) -> Costs | None:
    """The first rows in the order of their costs; ``sentences`` tell of blocks, or why none stretches. None without any."""
    rows = chosen_rows(report, Layout(top=_MOST))
    listed = costs_of(report)
    with_blocks = any(cost.block for cost in listed)
    if not listed and all(row.status == "finite" for row in rows):
        return Costs(sentences) if sentences else None
    columns = tuple(COLUMNS[key] for key in filled(FIRST_COLUMNS, rows))
    largest = max((row.share or 0.0 for row in rows), default=0.0)
    numbers = {id(layer): number for number, layer in enumerate(report.layers, start=1)}
    return Costs(
        sentences=sentences if with_blocks else (),
        columns=columns,
        rows=tuple(_row(row, columns, numbers[id(layers_of(row)[0])], largest) for row in rows),
        has_shares=largest > 0 and not with_blocks,
        count=count_text(len(report.layers), "row"),
        grouped=any(isinstance(row, Group) for row in rows),
    )


def _row(row: Row, columns: Sequence[Column], number: int, largest: float) -> CostlyRow:
    percent = 100 * max(row.share or 0.0, 0.0) / largest if largest > 0 else 0.0
    return CostlyRow(tuple(column.text(row) for column in columns), number, percent, row.status)
