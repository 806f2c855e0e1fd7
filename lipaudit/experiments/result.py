"""What an experiment returns: tables, plots and claims as plain frozen records. Nothing here computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Cell: TypeAlias = str | int | float | None


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
    """One set of axes, with as many lines as there are series."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False


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
