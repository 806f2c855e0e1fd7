"""A diff as text: a table for a terminal, Markdown, and tab-separated values."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tabulate import tabulate

from lipaudit.escaping import escape_markdown, printable
from lipaudit.formats.columns import SEPARATOR
from lipaudit.formats.options import DEFAULT, Options
from lipaudit.formats.separated_values import as_csv
from lipaudit.formats.separated_values import row as tsv_row
from lipaudit.records.diff import LayerChange, Move, ReportDiff
from lipaudit.records.report import Record
from lipaudit.text.diff import has_moved, hidden, sections, warning
from lipaudit.text.diff_figures import LOUD, digits_apart, figure_text, is_estimated, quotient_text, verdict_text
from lipaudit.text.shorten import WIDTH, shorten_end, shorten_paths
from lipaudit.text.summary import title

_LABEL = 12
HEAD = ("layer", "op", "before", "after", "factor", "verdict")
NUMERIC = ("before", "after", "factor")
_FLOORS = {"layer": 14, "op": 6}


def table(found: ReportDiff, options: Options = DEFAULT) -> str:
    """The rows that moved, or with ``options.every_row`` all, and what it amounts to, at most 100 characters wide."""
    first = warning(found)
    lines = textwrap.wrap(first, WIDTH, break_on_hyphens=False)
    lines += _filled("Before", title(found.before.model)) + _filled("After", title(found.after.model)) + [""]
    shown = shown_rows(found, options.every_row)
    if shown:
        lines += [*_laid_out(shown), ""]
    left = hidden(found, shown)
    lines += [*_filled("", left), ""] if left else []
    for section in sections(found):
        label = section.label
        for line in section.lines:
            lines += _filled(label, line)
            label = ""
    return "\n".join(lines)


def markdown(found: ReportDiff, options: Options = DEFAULT) -> str:
    """The same content in GitHub-flavoured Markdown, the summary first."""
    first = warning(found)
    lines = [f"**{escape_markdown(first)}**", ""] if first else []
    lines += ["## Diff of two Lipschitz audits", ""]
    lines += [
        f"- Before: {escape_markdown(title(found.before.model))}",
        f"- After: {escape_markdown(title(found.after.model))}",
        "",
    ]
    for section in sections(found):
        lines += [f"**{section.label}**", "", *(f"- {escape_markdown(line)}" for line in section.lines), ""]
    shown = shown_rows(found, options.every_row)
    if shown:
        lines.append("| " + " | ".join(HEAD) + " |")
        lines.append("|" + "|".join("---:" if key in NUMERIC else "---" for key in HEAD) + "|")
        lines += ["| " + " | ".join(map(escape_markdown, row_cells(change))) + " |" for change in shown] + [""]
    return "\n".join([*lines, escape_markdown(hidden(found, shown))]).rstrip()


_FIGURES = ("status", "rigor", "upper_bound", "log10_upper_bound", "estimate", "log10_estimate")
_SIDE = ("name", "op", "weight_shape", "details", *_FIGURES, "lower_bound", "log10_lower_bound", "share")
TSV_HEADER = (
    *("scope", "match", "verdict", "factor", "log10_factor", "contribution"),
    *(f"{key}_{side}" for side in ("before", "after") for key in _SIDE),
)


def tsv(found: ReportDiff, _options: Options = DEFAULT) -> str:
    """The network, then every row of either report, with raw numbers; cells are written as in the TSV of reports.

    ``scope`` is ``network``, ``network over DOMAIN`` for a domain beside the one in force, or ``layer``.
    """
    networks: list[tuple[str, Move | None, tuple[object, ...], tuple[object, ...]]] = [
        ("network", found.network, _raw(found.before.network, _FIGURES), _raw(found.after.network, _FIGURES))
    ]
    networks += [
        (f"network over {other.domain}", other.move, _raw(other.before, _FIGURES), _raw(other.after, _FIGURES))
        for other in found.other_domains
    ]
    lines = ["\t".join(TSV_HEADER)]
    lines += [tsv_row((scope, None, *_moved(move), None, *before, *after)) for scope, move, before, after in networks]
    for change in found.layers:
        sides = (*_raw(change.before, _SIDE), *_raw(change.after, _SIDE))
        lines.append(tsv_row(("layer", change.match, *_moved(change.move), change.contribution, *sides)))
    return "\n".join(lines)


def _moved(move: Move | None) -> tuple[object, ...]:
    return (None, None, None) if move is None else (move.verdict, move.factor, move.log10_factor)


def _raw(record: Record | None, known: Sequence[str]) -> tuple[object, ...]:
    """The fields of one side, empty where the record is missing or the field is not ``known`` of it."""
    return tuple(getattr(record, key) if record is not None and key in known else None for key in _SIDE)


def csv(found: ReportDiff, options: Options = DEFAULT) -> str:
    """The same table as comma-separated values."""
    return as_csv(tsv(found, options))


def shown_rows(found: ReportDiff, everything: bool) -> list[LayerChange]:
    """The rows of the table: changes of status first, the others in the order of the network."""
    rows = [change for change in found.layers if everything or has_moved(change)]
    return sorted(rows, key=lambda change: change.move is None or change.move.verdict not in LOUD)


def row_cells(change: LayerChange, upper_only: bool = False) -> list[str]:
    """The texts of a row, one per heading; ``upper_only`` leaves out lower bounds."""
    row, digits = change.record, digits_apart(change.before, change.after, change.move)
    figures = [figure_text(side, digits, upper_only) for side in (change.before, change.after)]
    quotient = quotient_text(change.move, is_estimated(change.before, change.after))
    return [printable(row.name), printable(row.op), *figures, quotient, verdict_text(change)]


def _laid_out(shown: Sequence[LayerChange]) -> list[str]:
    """The table; where brackets of very long figures do not fit, the upper ends alone."""
    columns = _columns(HEAD, [row_cells(change) for change in shown])
    if _excess({key: min(width, _FLOORS.get(key, width)) for key, width in _widths(columns).items()}) > 0:
        head = ("layer", "op", "upper before", "upper after", "factor", "verdict")
        columns = _columns(head, [row_cells(change, upper_only=True) for change in shown])
    widths = _widths(columns)
    excess = _excess(widths)
    for key in ("op", "layer"):
        cut = max(0, min(excess, widths[key] - _FLOORS[key]))
        widths[key] -= cut
        excess -= cut
    columns["layer"] = shorten_paths(columns["layer"], widths["layer"])
    columns["op"] = [shorten_end(text, widths["op"]) for text in columns["op"]]
    rules = ["-" * width for width in _widths(columns).values()]
    text = tabulate(
        [list(columns), rules, *zip(*columns.values(), strict=True)],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["right" if key in NUMERIC else "left" for key in HEAD],
    )
    return [line.rstrip() for line in text.splitlines()]


def _columns(head: Sequence[str], cells: list[list[str]]) -> dict[str, list[str]]:
    return dict(zip(head, map(list, zip(*cells, strict=True)), strict=True))


def _widths(columns: dict[str, list[str]]) -> dict[str, int]:
    return {key: max(map(len, (key, *texts))) for key, texts in columns.items()}


def _excess(widths: dict[str, int]) -> int:
    """The characters by which a table with these columns is too wide."""
    return sum(widths.values()) + SEPARATOR * (len(widths) - 1) - WIDTH


def _filled(label: str, line: str) -> list[str]:
    return textwrap.wrap(
        line,
        WIDTH,
        initial_indent=label.ljust(_LABEL) if label else " " * _LABEL,
        subsequent_indent=" " * _LABEL,
        break_on_hyphens=False,
    )
