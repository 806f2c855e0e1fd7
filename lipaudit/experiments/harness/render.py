"""A result as text for a terminal: its tables, then the claims with both numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tabulate import tabulate

from lipaudit.experiments.harness.registry import PAPER_NAME, Experiment
from lipaudit.experiments.harness.result import Cell, Claim, Result, Shown, Table

WIDTH = 100


def render(result: Result) -> str:
    """The whole result; figures are rounded to four digits, of which the CSV files hold all."""
    parts = [_fill(f"{result.name}: {result.title}"), _fill(f"Setting: {result.setting}")]
    parts += [f"{_fill(table.title)}\n\n{render_table(table)}" for table in result.tables]
    parts += [_fill(f"Note: {note}") for note in result.notes]
    if result.claims:
        parts.append("Claims of the paper\n\n" + "\n\n".join(_claim(claim) for claim in result.claims))
    return "\n\n".join(parts)


def render_table(table: Table) -> str:
    """The rows under their headings, numbers to the right."""
    numeric = [any(isinstance(row[i], int | float) for row in table.rows) for i in range(len(table.columns))]
    text = tabulate(
        [[cell_text(value) for value in row] for row in table.rows],
        headers=table.columns,
        tablefmt="simple",
        disable_numparse=True,
        colalign=["right" if right else "left" for right in numeric],
    )
    return "\n".join(line.rstrip() for line in text.splitlines())


def listing(experiments: Sequence[Experiment]) -> str:
    """What there is to reproduce, and at which sizes."""
    lines = [f"Experiments of the paper ({PAPER_NAME}); run one with: lipaudit reproduce NAME", ""]
    for entry in experiments:
        lines += [
            f"{entry.name}: {entry.reproduces}",
            _item("by default", entry.reduced),
            _item("--full", entry.full),
            "",
        ]
    return "\n".join(lines).rstrip()


def cell_text(value: Cell) -> str:
    """A cell: floats to four significant digits, what is not known as an empty text.

    >>> cell_text(0.000123456), cell_text(2000), cell_text(None), cell_text("PI")
    ('0.0001235', '2000', '', 'PI')
    """
    if value is None:
        return ""
    if isinstance(value, Shown):
        return value.text
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _claim(claim: Claim) -> str:
    verdict = "holds" if claim.holds else "does not hold"
    lines = [_fill(f"[{verdict}] {claim.statement}"), _item("paper", claim.paper), _item("here", claim.measured)]
    return "\n".join(lines)


def _item(label: str, text: str) -> str:
    return _fill(text, f"  {label + ':':<12}", " " * 14)


def _fill(text: str, first: str = "", later: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False, break_long_words=False
    )
