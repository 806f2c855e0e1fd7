"""What an experiment returns: tables, plots and claims as plain frozen records. Nothing here computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypeAlias

Cell: TypeAlias = str | int | float | None


class Shown(float):
    """A number that tables show as ``text``, and files with all its digits."""

    text: str

    def __new__(cls, value: float, text: str) -> Self:
        """The number ``value``, shown as ``text``."""
        shown = super().__new__(cls, value)
        shown.text = text
        return shown


@dataclass(frozen=True)
class Table:
    """A table; ``part`` names it in a file name where an experiment has several. A cell that is None is not known."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    part: str = ""

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(
                f"a row of {self.title!r} has {len(wrong[0])} cells for {len(self.columns)} columns: {wrong[0]}"
            )


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, what the paper reports for it, what was measured here, and whether that agrees."""

    statement: str
    paper: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Series:
    """One line of a plot; ``low`` and ``high`` are the edges of a band around it."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plot:
    """One set of axes, with as many lines as there are series.

    With ``categories`` the axis of x names them: x = i stands for the i-th, and series are bars instead of lines.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        wrong = [s.label for s in self.series if self.categories and len(s.x) != len(self.categories)]
        if wrong:
            raise ValueError(f"the series {wrong[0]!r} has another length than the {len(self.categories)} categories")


@dataclass(frozen=True)
class Result:
    """Everything an experiment found. ``setting`` says in words at which sizes and where it ran."""

    name: str
    title: str
    setting: str
    tables: tuple[Table, ...]
    claims: tuple[Claim, ...] = ()
    plots: tuple[Plot, ...] = ()
    notes: tuple[str, ...] = ()
