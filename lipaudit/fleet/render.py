"""The summary of a fleet as a table, Markdown, tab-separated values or JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from tabulate import tabulate

from lipaudit.escaping import escape_markdown, printable
from lipaudit.fleet.reading import KIND, SCHEMA_VERSION
from lipaudit.fleet.summary import Row, counts
from lipaudit.fleet.typed_command import names
from lipaudit.formats import separated_values
from lipaudit.text.numbers import log10_estimate_text, log10_upper_text, share_text
from lipaudit.text.shorten import WIDTH, shorten_end, shorten_paths
from lipaudit.version import __version__

SUMMARY_FORMATS = ("table", "json", "markdown", "tsv", "csv")
HEADINGS = ("model", "status", "log10", "rigor", "domain", "layers", "costs most / problem")
GATES = "gates"  # a column before the last where any gate was asked for
_NUMERIC = (2, 5)
_GAP = 2  # characters between columns
_ESTIMATE = "~ marks an estimate, which is no bound."


def render(rows: Sequence[Row], settings: dict[str, Any], form: str, wide: bool = True) -> str:
    """The summary in one of the :data:`SUMMARY_FORMATS`.

    Upper bounds are rounded up in table and Markdown, and exact in the others. A table that is not ``wide`` fits a terminal.
    """
    if form == "json":
        return _json(rows, settings)
    if form in ("tsv", "csv"):
        keys = [entry.name for entry in fields(Row)]
        text = "\n".join(["\t".join(keys), *(separated_values.row(_flat(row, key) for key in keys) for row in rows)])
        return separated_values.as_csv(text) if form == "csv" else text
    called = names([(row.spec, row.options) for row in rows])
    judged = any(row.gates is not None for row in rows)
    brief = form == "table" and not wide
    head = (*HEADINGS[:-1], *([GATES] if judged else []), HEADINGS[-1])
    table = [_cells(row, name, judged, brief) for row, name in zip(rows, called, strict=True)]
    remarks = [counts(rows), *([_ESTIMATE] if any(row.rigor == "estimate" for row in rows) else [])]
    if form == "markdown":
        return _markdown(head, table, remarks)
    return _table(head, [[printable(cell) for cell in cells] for cells in table], remarks, wide)


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


def _cells(row: Row, name: str, judged: bool, brief: bool) -> list[str]:
    last = row.problem  # without the model's name, which stands in the first column
    for start in (f"{row.spec}: ", f"{row.spec} "):
        last = last.removeprefix(start)
    if not last and row.costliest is not None:
        last = row.costliest + ("" if row.share is None else f" ({share_text(row.share)})")
    rigor = "structure" if row.structure else row.rigor or ""
    layers = "" if row.layers is None else str(row.layers)
    gates = [gates_text(row, brief)] if judged else []
    return [name, row.status, bound_text(row), rigor, row.domain or "", layers, *gates, last]


def _table(head: Sequence[str], table: list[list[str]], remarks: list[str], wide: bool) -> str:
    if not wide:
        _narrow(head, table)
    widths = [max(map(len, column)) for column in zip(head, *table, strict=True)]
    text = tabulate(
        [head, ["-" * width for width in widths], *table],
        tablefmt="plain",
        disable_numparse=True,
        colalign=["right" if number in _NUMERIC else "left" for number in range(len(head))],
    )
    return "\n".join(
        [*(line.rstrip() for line in text.splitlines()), "", *(textwrap.fill(remark, WIDTH) for remark in remarks)]
    )


def _narrow(head: Sequence[str], table: list[list[str]]) -> None:
    """Shorten the first and the last column until a terminal has room for all of them."""
    first, *others, last = [max(map(len, column)) for column in zip(head, *table, strict=True)]
    room = WIDTH - sum(others) - _GAP * (len(head) - 1)
    first = min(first, max(room - last, room // 2))
    for cells, name in zip(table, shorten_paths([cells[0] for cells in table], first), strict=True):
        cells[0], cells[-1] = name, _shorten(cells[-1], room - first)


def _shorten(last: str, width: int) -> str:
    """A problem keeps its beginning, a layer both ends of its name and its share."""
    share = re.search(r" \([0-9.]+%\)$", last)
    if share is None:
        return shorten_end(last, width)
    return shorten_paths([last[: share.start()]], width - len(share[0]))[0] + share[0]


def _markdown(head: Sequence[str], table: list[list[str]], remarks: list[str]) -> str:
    lines = ["| " + " | ".join(head) + " |"]
    lines.append("|" + "|".join("---:" if number in _NUMERIC else "---" for number in range(len(head))) + "|")
    lines += ["| " + " | ".join(escape_markdown(printable(cell)) for cell in cells) + " |" for cells in table]
    return "\n".join([*lines, "", *(escape_markdown(remark) for remark in remarks)])


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
