"""A diff as text: a table for a terminal, Markdown, and tab-separated values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lipaudit.escaping import escape_markdown, printable
from lipaudit.formats.grid import Column, Grid
from lipaudit.formats.options import DEFAULT, Options
from lipaudit.records.diff import LayerChange, Move, ReportDiff
from lipaudit.records.report import Record
from lipaudit.text.answer import short_title
from lipaudit.text.diff import has_moved, hidden, sections, warning
from lipaudit.text.diff_figures import LOUD, digits_apart, figure_text, is_estimated, quotient_text, verdict_text
from lipaudit.text.lines import labelled, wrapped
from lipaudit.text.summary import title

HEAD = ("layer", "op", "before", "after", "factor", "verdict")
NUMERIC = ("before", "after", "factor")


def table(found: ReportDiff, options: Options = DEFAULT) -> str:
    """What became of the network, then the rows that moved, or with ``options.layout.every_row`` all, and what they amount to.

    With ``options.layout.quiet`` the first sentence alone.
    """
    layout = options.layout
    width = layout.width
    result, *others = sections(found)
    if layout.quiet:
        return result.lines[0]
    lines = wrapped(warning(found), width)
    lines += labelled("Before", [short_title(found.before.model)], width)
    lines += labelled("After", [short_title(found.after.model)], width)
    lines += ["", *labelled(result.label, result.lines, width), ""]
    shown = shown_rows(found, layout.every_row)
    if shown:
        lines += [*_grid(shown, width).terminal(width).splitlines(), ""]
    left = hidden(found, shown)
    lines += [*wrapped(left, width), ""] if left else []
    for section in others:
        lines += labelled(section.label, section.lines, width)
    return "\n".join(lines).rstrip("\n")


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
    shown = shown_rows(found, options.layout.every_row)
    if shown:
        lines += [_columns(shown).markdown(), ""]
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
    return Grid.of(TSV_HEADER, _raw_rows(found)).tsv()


def csv(found: ReportDiff, _options: Options = DEFAULT) -> str:
    """The same table as comma-separated values."""
    return Grid.of(TSV_HEADER, _raw_rows(found)).csv()


def _raw_rows(found: ReportDiff) -> Iterable[tuple[object, ...]]:
    """The rows of the TSV."""
    networks: list[tuple[str, Move | None, tuple[object, ...], tuple[object, ...]]] = [
        ("network", found.network, _raw(found.before.network, _FIGURES), _raw(found.after.network, _FIGURES))
    ]
    networks += [
        (f"network over {other.domain}", other.move, _raw(other.before, _FIGURES), _raw(other.after, _FIGURES))
        for other in found.other_domains
    ]
    for scope, move, before, after in networks:
        yield (scope, None, *_moved(move), None, *before, *after)
    for change in found.layers:
        sides = (*_raw(change.before, _SIDE), *_raw(change.after, _SIDE))
        yield ("layer", change.match, *_moved(change.move), change.contribution, *sides)


def _moved(move: Move | None) -> tuple[object, ...]:
    return (None, None, None) if move is None else (move.verdict, move.factor, move.log10_factor)


def _raw(record: Record | None, known: Sequence[str]) -> tuple[object, ...]:
    """The fields of one side, empty where the record is missing or the field is not ``known`` of it."""
    return tuple(getattr(record, key) if record is not None and key in known else None for key in _SIDE)


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


def _grid(shown: Sequence[LayerChange], width: int) -> Grid:
    """The table; where brackets of very long figures do not fit, with the upper ends alone."""
    table = _columns(shown)
    if table.least_width() <= width:
        return table
    columns = tuple(
        replace(column, heading=f"upper {column.heading}") if column.heading in ("before", "after") else column
        for column in table.columns
    )
    return Grid(columns, tuple(tuple(row_cells(change, upper_only=True)) for change in shown))


def _columns(shown: Sequence[LayerChange]) -> Grid:
    columns = (
        Column("layer", cut="middle", floor=14, repeated=True),
        Column("op", cut="end", floor=6, order=1),
        *(Column(key, numeric=True) for key in NUMERIC),
        Column("verdict"),
    )
    return Grid(columns, tuple(tuple(row_cells(change)) for change in shown))
