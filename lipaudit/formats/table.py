"""The report as a table for a terminal, 100 characters wide unless chosen columns may take more."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tabulate import tabulate

from lipaudit.formats.columns import COLUMNS, SEPARATOR, Row, cell, default_columns, group_rows, heading
from lipaudit.formats.options import Audits, Options
from lipaudit.records.report import AuditReport
from lipaudit.text.shorten import WIDTH, shorten_end, shorten_paths
from lipaudit.text.summary import sections, title, warning

_LABEL = 12


def render(
    report: AuditReport, columns: Sequence[str] | None = None, depth: int | None = None, wide: bool = False
) -> str:
    """One row per layer (or per module path of ``depth`` components), then the network in sentences.

    ``columns`` are keys of :data:`~lipaudit.formats.columns.COLUMNS`; by default remarks on layers get a column of
    their own where there is room for it. ``wide`` lets chosen columns take the room that their texts need.
    """
    rows = group_rows(report.layers, depth)
    first = warning(report)
    parts = [textwrap.fill(line, WIDTH, break_on_hyphens=False) for line in (first, title(report.model)) if line]
    parts.append("" if rows else "\nNo operation of this network can stretch a perturbation.")
    if rows:
        parts.append(_table(rows, columns, wide))
    parts.append("")
    for section in sections(report):
        label = section.label
        for line in section.lines:
            parts.append(
                textwrap.fill(
                    line,
                    WIDTH,
                    initial_indent=label.ljust(_LABEL),
                    subsequent_indent=" " * _LABEL,
                    break_on_hyphens=False,
                )
            )
            label = ""
    return "\n".join(parts)


def render_audits(audits: Audits, options: Options) -> str:
    """The tables of several reports, one below the other."""
    layout = options.layout
    return "\n\n\n".join(render(report, layout.columns, layout.depth, layout.wide) for report in audits.reports)


def _table(rows: Sequence[Row], columns: Sequence[str] | None, wide: bool) -> str:
    keys = list(columns or default_columns(rows))
    cells = {key: [cell(key, row) for row in rows] for key in (*keys, "note")}
    heads = {key: heading(key, rows) for key in cells}
    natural = {key: max(len(heads[key]), *map(len, texts)) for key, texts in cells.items()}
    room = WIDTH - SEPARATOR * (len(keys) - 1) - sum(natural[key] for key in keys)
    widths = {key: natural[key] for key in keys}
    if columns is None and any(cells["note"]) and room >= COLUMNS["note"].floor + SEPARATOR:
        keys.append("note")
        widths["note"] = min(natural["note"], room - SEPARATOR)
    if columns is None or not wide:
        _narrow(widths, -room)
    fitted = [_fit(key, cells[key], widths[key]) for key in keys]
    # tabulate widens a column to its heading plus two; as a row, the heading takes no more room than it needs
    rules = ["-" * max(len(heads[key]), *map(len, texts)) for key, texts in zip(keys, fitted, strict=True)]
    text = tabulate(
        [[heads[key] for key in keys], rules, *zip(*fitted, strict=True)],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["right" if COLUMNS[key].numeric else "left" for key in keys],
    )
    return "\n".join(line.rstrip() for line in text.splitlines())


def _narrow(widths: dict[str, int], excess: int) -> None:
    """Take ``excess`` characters from the text columns, always from the one with most to spare above its floor."""
    spare = {key: width - COLUMNS[key].floor for key, width in widths.items() if not COLUMNS[key].numeric}
    for _ in range(excess):
        widest = max(spare, key=spare.__getitem__, default="")
        if not widest or spare[widest] <= 0:
            return
        spare[widest] -= 1
        widths[widest] -= 1


def _fit(key: str, texts: list[str], width: int) -> list[str]:
    if key == "layer":
        return shorten_paths(texts, width)
    return [shorten_end(text, width) for text in texts]
