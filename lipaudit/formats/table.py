"""The report for a terminal: first the answer, then the rows that matter most, notes, and what to type next.

The default fits a screen of 80 by 24; a larger one has room for more rows. :class:`~lipaudit.formats.layout.Layout` says what is shown.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Sequence
from os.path import commonprefix
from typing import Any

from lipaudit.escaping import printable
from lipaudit.formats import paint
from lipaudit.formats.balls import ball_grid
from lipaudit.formats.columns import COLUMNS, FIRST_COLUMNS, default_columns, filled, rows_grid
from lipaudit.formats.grid import GAP, Column, Grid, Paint
from lipaudit.formats.layout import Layout
from lipaudit.formats.options import Audits, Options
from lipaudit.gates.claim import claim
from lipaudit.records.groups import Group, Row, group_by_path, group_repeated, is_chain, layers_of, name_of
from lipaudit.records.report import AuditReport
from lipaudit.records.stretching import costs, stretching
from lipaudit.text.answer import AnswerLine, answer, meaning, one_line, short_title
from lipaudit.text.balls import largest_first
from lipaudit.text.figures import factor_text, group_factor_text
from lipaudit.text.lines import LABEL, labelled, wrapped
from lipaudit.text.next_steps import NextStep, next_steps
from lipaudit.text.numbers import share_text
from lipaudit.text.shorten import shorten_paths
from lipaudit.text.summary import missing, remarks, sections, warning

NO_ROWS = "No operation of this network can stretch a perturbation."
_FEWEST_ROWS = 3  # rows that are shown however small the screen is
_ROWS_OF_NO_SCREEN = 20  # where the height is not known and not every row is asked for
_BAR = 12  # characters of the longest bar
_LEAST_BAR = 4  # a shorter longest bar shows nothing
_OP = 12  # characters of an operation's name that a bar leaves
_MOST_COSTLY = 3  # single rows that are named below groups


def render(report: AuditReport, layout: Layout | None = None) -> str:
    """The report as text; by default the first screen of a terminal of 80 by 24 characters."""
    layout = layout or Layout()
    if layout.quiet:
        return one_line(report)
    above, below = _above(report, layout), _below(report, layout)
    room = None if layout.height is None else layout.height - len(above) - len(below) - 5
    if layout.verbose:
        below = _verbose_sections(report, layout)
    elif (room is None or room > _FEWEST_ROWS) and any(
        isinstance(row, Group) for row in chosen_rows(report, layout, room)
    ):
        costly = _costly_rows(report, layout.width)
        room = None if room is None else room - len(costly)
        below = costly + below
    return "\n".join([*above, "", *_rows(report, layout, room), *([""] if below else []), *below]).rstrip("\n")


def render_audits(audits: Audits, options: Options) -> str:
    """Several reports one below the other."""
    gap = "\n" if options.layout.quiet else "\n\n\n"
    return gap.join(render(report, options.layout) for report in audits.reports)


def _above(report: AuditReport, layout: Layout) -> list[str]:
    """The title, the answer, and what it means."""
    first = warning(report)
    lines = wrapped(first, layout.width)
    lines += [paint.bold(line, layout.colour) for line in wrapped(short_title(report.model), layout.width)]
    lines.append("")
    entries = _with_claim(report, layout)
    labels = ["  " * (entry.level + 1) + entry.label for entry in entries]
    margin = max(map(len, labels)) + 2
    for number, (label, entry) in enumerate(zip(labels, entries, strict=True)):
        text = textwrap.wrap(entry.text, layout.width - margin, break_on_hyphens=False)
        text[0] = paint.bold(text[0], layout.colour and number == 0)
        lines += [label.ljust(margin) + text[0], *(" " * margin + line for line in text[1:])]
    lines += ["", *wrapped(meaning(report), layout.width)]
    return [*lines, *_balls(report, layout)]


def _balls(report: AuditReport, layout: Layout) -> list[str]:
    """The bounds over several balls, the largest first; the first few of them, or all in their order where every row is asked for."""
    balls = report.network.balls
    if not balls:
        return []
    whole = layout.every_row or layout.height is None
    shown = balls if whole else largest_first(balls)[: layout.top or _FEWEST_ROWS]
    heading = (
        []
        if len(shown) == len(balls)
        else [f"{len(shown)} of {len(balls)} balls, the largest bound first (--all: every ball)"]
    )
    return ["", *heading, *ball_grid(shown).terminal(layout.width).splitlines()]


def _with_claim(report: AuditReport, layout: Layout) -> list[AnswerLine]:
    """The answer, with the verdict on what is claimed behind the bound and what belongs to it."""
    entries = list(answer(report))
    if layout.claim is not None:
        place = next((i for i, entry in enumerate(entries) if i and not entry.level), len(entries))
        entries.insert(place, AnswerLine("Claim", claim(report, *layout.claim).text))
    return entries


def _below(report: AuditReport, layout: Layout) -> list[str]:
    """What is missing, notes, and what to type next, as short as they are."""
    lines = labelled("Missing", missing(report, brief=True), layout.width)
    lines += labelled("Notes", remarks(report), layout.width)
    return lines + _next(next_steps(report, layout.gated), layout)


def _costly_rows(report: AuditReport, width: int) -> list[str]:
    """One line that names the single rows that stretch most, for a table of groups; none where no row stretches."""
    listed = costs(report)
    if any(cost.block for cost in listed):
        first = [c.name if c.block else f"{c.name} {factor_text(c.rows[0])}" for c in listed[:_MOST_COSTLY]]
        return labelled("Costs most", [printable(", ".join(first))], width)
    costly = stretching(report)[:_MOST_COSTLY]
    if not costly:
        return []
    shared = any(layer.share for layer in costly)
    figures = [share_text(layer.share or 0.0) if shared else factor_text(layer) for layer in costly]
    names = [printable(layer.name) for layer in costly]
    room = width - LABEL - sum(map(len, figures)) - len(figures) - 2 * (len(figures) - 1)
    together = _as_one(names)
    if sum(map(len, names)) > room and len(together) + 1 + len(", ".join(figures)) <= width - LABEL:
        return [("Costs most" if shared else "Largest").ljust(LABEL) + f"{together} {', '.join(figures)}"]
    short = _shortened(names, room)
    text = ", ".join(f"{name} {figure}" for name, figure in zip(short, figures, strict=True))
    return [("Costs most" if shared else "Largest").ljust(LABEL) + text]


def _as_one(names: Sequence[str]) -> str:
    """Several names as one, with the components in which they differ in brackets.

    >>> _as_one(["features.6.2.fc1", "features.6.0.fc1"])
    'features.6.[2,0].fc1'
    """
    begin = re.sub("[^./]*$", "", commonprefix(names))  # noqa: RUF071  # cut to components
    rest = [name.removeprefix(begin) for name in names]
    end = re.sub("[^./]*$", "", commonprefix([name[::-1] for name in rest]))[::-1]  # noqa: RUF071
    return f"{begin}[{','.join(name.removesuffix(end) for name in rest)}]{end}"


def _shortened(names: Sequence[str], room: int) -> list[str]:
    """The names within ``room`` characters together; the longest are shortened first."""
    longest = max(map(len, names))
    while longest > room // len(names) and sum(min(len(name), longest) for name in names) > room:
        longest -= 1
    return shorten_paths(names, longest)


def _verbose_sections(report: AuditReport, layout: Layout) -> list[str]:
    lines: list[str] = []
    for section in sections(report, layout.gated):
        lines += labelled(section.label, section.lines, layout.width)
    return lines


def _next(steps: Sequence[NextStep], layout: Layout) -> list[str]:
    """One line per step: a whole command where all of them fit, else what to add to the one that was typed."""
    if not layout.typed:
        return []
    typed = printable(layout.typed)
    whole = [step.type or f"{typed} {step.add}" for step in steps]
    short = [step.type or f"add {step.add}" for step in steps]
    for commands in (whole, short):
        longest = max(map(len, commands), default=0)
        lines = [f"{c.ljust(longest)}   {step.why}" for c, step in zip(commands, steps, strict=True)]
        if max(map(len, lines), default=0) + LABEL <= layout.width:
            break
    else:
        room = layout.width - LABEL
        parts = [part for command, step in zip(commands, steps, strict=True) for part in (command, step.why)]
        lines = [line for part in parts for line in textwrap.wrap(part, room, break_on_hyphens=False)]
    return [label.ljust(LABEL) + line for label, line in zip(("Next", *[""] * len(lines)), lines, strict=False)]


def _rows(report: AuditReport, layout: Layout, room: int | None) -> list[str]:
    """The table with the line above it; ``room`` is how many rows the screen has left."""
    if not report.layers:
        return [NO_ROWS]
    rows = chosen_rows(report, layout, room)
    order = layout.order or ("depth" if layout.every_row else "share")
    shown = sum(len(layers_of(row)) for row in rows)
    heading = _heading(shown, len(report.layers), order, rows)
    table = _grid(rows, layout)
    lines = table.terminal(_table_width(layout), _painter(table, rows) if layout.colour else None).splitlines()
    return [*wrapped(heading, layout.width), *lines]


def chosen_rows(report: AuditReport, layout: Layout, room: int | None = None) -> tuple[Row, ...]:
    """The rows that are shown, in their order: all of them; or equal layers together, and as many as there is room for."""
    limit = layout.top if layout.top is not None else None if layout.every_row else max(room or 0, _FEWEST_ROWS)
    if layout.height is None and layout.top is None and not layout.every_row:
        limit = None if layout.depth is not None else _ROWS_OF_NO_SCREEN
    order = layout.order or ("depth" if layout.every_row else "share")
    rows: tuple[Row, ...] = report.layers
    if layout.depth is not None:
        rows = group_by_path(report.layers, layout.depth, is_chain(report))
    elif limit is not None and len(rows) > limit:
        rows = group_repeated(report.layers)
    return tuple(sorted(rows, key=_KEYS[order]))[:limit]


def _by_share(row: Row) -> tuple[bool, float, float]:
    """Rows without a bound first, then the largest shares, then the largest factors."""
    share = row.share if row.share is not None else -math.inf
    return row.status == "finite", -share, -_log10(row)


def _log10(row: Row) -> float:
    if not isinstance(row, Group):
        return row.log10
    product = row.log10_product
    return row.largest.log10 if product is None else product


def _natural(row: Row) -> list[tuple[bool, int, str]]:
    """Names with their numbers in the order of numbers."""
    parts = re.split(r"([0-9]+)", name_of(row))
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


_KEYS: dict[str, Callable[[Row], Any]] = {
    "share": _by_share,
    "factor": lambda row: (row.status == "finite", -_log10(row)),
    "depth": lambda _row: 0,
    "name": _natural,
}
_ORDERED = {
    "share": "the largest share first",
    "factor": "the largest factor first",
    "depth": "in the order of computation",
    "name": "by name",
}
_BRIEFLY = {"share": "by share", "factor": "by factor", "depth": "in order", "name": "by name"}


def _heading(shown: int, all_rows: int, order: str, rows: Sequence[Row]) -> str:
    """What the table is a part of, and in which order."""
    if order == "share" and all(row.share is None for row in rows):
        order = "factor"
    count = f"All {all_rows} rows" if shown == all_rows else f"{shown} of {all_rows} rows"
    if all_rows == 1:
        count = "The only row"
    groups = [row for row in rows if isinstance(row, Group)]
    if groups:
        largest = any(group_factor_text(group).startswith("max ") for group in groups)
        return (
            f"{count}, grouped, {_BRIEFLY[order]}{'; max = largest of the group' if largest else ''} (--all: each row)"
        )
    more = "" if shown == all_rows else " (--all: every row)"
    return f"{count}, {_ORDERED[order]}{more}"


def _grid(rows: Sequence[Row], layout: Layout) -> Grid:
    keys = layout.columns or _columns(rows, layout)
    table = rows_grid(rows, keys)
    if not layout.bars or layout.columns is not None or "share" not in keys:
        return table
    longest = min(_BAR, layout.width - _width_beside_bars(table) - GAP)
    if longest < _LEAST_BAR:
        return table
    largest = max((abs(row.share or 0.0) for row in rows), default=0.0)
    bars = ["█" * round(longest * max(row.share or 0.0, 0.0) / largest) if largest else "" for row in rows]
    return Grid((*table.columns, Column("")), tuple((*cells, bar) for cells, bar in zip(table.rows, bars, strict=True)))


def _width_beside_bars(table: Grid) -> int:
    """What the table takes with whole names; an operation's name gives way to bars, down to some characters."""
    ops = [
        [column.text(row[i]) for row in table.rows] for i, column in enumerate(table.columns) if column.heading == "op"
    ]
    return table.natural_width() - sum(max(0, max(map(len, texts), default=0) - _OP) for texts in ops)


def _table_width(layout: Layout) -> int | None:
    """The room for the table; a file's is as wide as its texts need, and so are chosen columns where ``wide`` says so."""
    return None if layout.wide and (layout.columns is not None or layout.height is None) else layout.width


def _columns(rows: Sequence[Row], layout: Layout) -> tuple[str, ...]:
    """The columns that are chosen for the reader: those with something to say; notes where there is room for them."""
    if not layout.verbose:
        return filled(FIRST_COLUMNS, rows)
    keys = default_columns(rows)
    width = _table_width(layout)
    room = math.inf if width is None else width - rows_grid(rows, keys).natural_width() - GAP
    if room >= COLUMNS["note"].floor and any(COLUMNS["note"].text(row) for row in rows):
        return (*keys, "note")
    return keys


def _painter(table: Grid, rows: Sequence[Row]) -> Paint:
    """Rows without a bound in red, bars in colour."""
    bars = len(table.columns) - 1 if table.columns and table.columns[-1].heading == "" else None

    def colour(row: int, column: int, text: str) -> str:
        if column == bars:
            return paint.cyan(text)
        return paint.red(text) if rows[row].status != "finite" and table.columns[column].numeric else text

    return colour
