"""The summary of a fleet as a table, Markdown, tab-separated values or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any, Literal

from lipaudit.escaping import escape_markdown
from lipaudit.fleet.command_text import names
from lipaudit.fleet.reading import KIND, SCHEMA_VERSION
from lipaudit.fleet.summary import Row, counts
from lipaudit.formats.grid import Column, Grid
from lipaudit.formats.layout import FILE_WIDTH
from lipaudit.text.lines import wrapped
from lipaudit.text.numbers import log10_estimate_text, log10_upper_text, share_text
from lipaudit.version import __version__

SUMMARY_FORMATS = ("table", "json", "markdown", "tsv", "csv")
HEADINGS = ("model", "status", "log10", "rigor", "domain", "layers", "gates", "costs most", "share", "problem")
_NUMERIC = ("log10", "layers", "share")
_CUT: dict[str, Literal["middle", "end"]] = {"model": "middle", "costs most": "middle", "problem": "end"}
_FLOOR = 16  # characters that are kept of the columns that can be cut
_ESTIMATE = "~ marks an estimate, which is no bound."


def render(rows: Sequence[Row], settings: dict[str, Any], form: str, width: int | None = None) -> str:
    """The summary in one of the :data:`SUMMARY_FORMATS`.

    Upper bounds are rounded up in table and Markdown, and exact in the others. A table without a ``width`` is as wide as its texts need.
    """
    if form == "json":
        return _json(rows, settings)
    if form in ("tsv", "csv"):
        keys = [entry.name for entry in fields(Row)]
        raw = Grid.of(keys, ([_flat(row, key) for key in keys] for row in rows))
        return raw.csv() if form == "csv" else raw.tsv()
    remarks = [counts(rows), *([_ESTIMATE] if any(row.rigor == "estimate" for row in rows) else [])]
    if form == "markdown":
        return "\n".join([_grid(rows).markdown(), "", *map(escape_markdown, remarks)])
    lines = [line for remark in remarks for line in wrapped(remark, width or FILE_WIDTH)]
    return "\n".join([_narrow(rows, width).terminal(width), "", *lines])


def _grid(rows: Sequence[Row], brief: bool = False) -> Grid:
    """One row per model; the columns in which no model has anything are left out."""
    called = names([(row.spec, row.options) for row in rows])
    columns = tuple(
        Column(
            heading,
            numeric=heading in _NUMERIC,
            cut=_CUT.get(heading, "never"),
            floor=_FLOOR if heading in _CUT else 0,
            repeated=heading == HEADINGS[0],
        )
        for heading in HEADINGS
    )
    cells = (tuple(_cells(row, name, brief)) for row, name in zip(rows, called, strict=True))
    return Grid(columns, tuple(cells)).without_empty_columns()


def _narrow(rows: Sequence[Row], width: int | None) -> Grid:
    """The table for a width: where it is too narrow for every column, without the domain and the rigor if all models share them."""
    grid = _grid(rows, brief=width is not None)
    for heading in ("domain", "rigor", "layers"):
        if width is None or grid.least_width() <= width:
            break
        grid = _without(grid, heading)
    return grid


def _without(grid: Grid, heading: str) -> Grid:
    """The table without a column whose cells are all the same."""
    number = next((i for i, column in enumerate(grid.columns) if column.heading == heading), None)
    if number is None or len({row[number] for row in grid.rows}) > 1:
        return grid
    return Grid(
        (*grid.columns[:number], *grid.columns[number + 1 :]),
        tuple((*row[:number], *row[number + 1 :]) for row in grid.rows),
    )


def bound_text(row: Row) -> str:
    """The decimal logarithm of the network's figure: an upper bound rounded up, or an estimate marked by ``~``.

    >>> bound_text(Row("a", status="finite", log10_upper_bound=10.3908)), bound_text(Row("a", status="finite", upper_bound=0.0))
    ('10.40', '-inf')
    """
    if row.log10_upper_bound is not None:
        return log10_upper_text(row.log10_upper_bound)
    if row.log10_estimate is not None:
        return "~" + log10_estimate_text(row.log10_estimate)
    if row.upper_bound == 0:
        return "-inf"
    return "~-inf" if row.estimate == 0 else ""


def gates_text(row: Row, brief: bool = False) -> str:
    """The gates that a model does not meet, or in ``brief`` their number; empty where none was judged.

    >>> gates_text(Row("a", gates=["strict", "max-layer"])), gates_text(Row("a", gates=["strict"]), brief=True), gates_text(Row("a"))
    ('strict, max-layer', '1 exceeded', '')
    """
    if not row.gates:
        return "" if row.gates is None else "met"
    return f"{len(row.gates)} exceeded" if brief else ", ".join(row.gates)


def _cells(row: Row, name: str, brief: bool) -> list[str]:
    problem = row.problem  # without the model's name, which stands in the first column
    for start in (f"{row.spec}: ", f"{row.spec} "):
        problem = problem.removeprefix(start)
    costliest = "" if problem else row.costliest or ""
    share = share_text(row.share) if costliest and row.share is not None else ""
    rigor = "structure" if row.structure else row.rigor or ""
    layers = "" if row.layers is None else str(row.layers)
    first = [name, row.status, bound_text(row), rigor, row.domain or "", layers, gates_text(row, brief)]
    return [*first, costliest, share, problem]


def _flat(row: Row, name: str) -> object:
    value = getattr(row, name)
    if name == "gates":
        return None if value is None else ",".join(value) or "met"
    return json.dumps(value) if name == "options" else value


def _json(rows: Sequence[Row], settings: dict[str, Any]) -> str:
    document = {
        "kind": f"{KIND} summary",
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "lipaudit", "version": __version__},
        "settings": settings,
        "models": [asdict(row) for row in rows],
    }
    return json.dumps(document, indent=2, allow_nan=False)
