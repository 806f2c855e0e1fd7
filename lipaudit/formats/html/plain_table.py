"""A plain table: headings, rows of text or links, and which columns hold numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A cell that leads to the part ``key`` of the page."""

    key: str
    name: str


Cell = str | Link


@dataclass(frozen=True)
class PlainTable:
    """What templates/plain_table.html shows; the first column names the row."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: Collection[str] = ()
