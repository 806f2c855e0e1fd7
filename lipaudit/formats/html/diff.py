"""The page of a diff: what moved from one report to another, in sentences and row by row."""

from __future__ import annotations

from lipaudit.formats.diff import HEAD, NUMERIC, row_cells
from lipaudit.formats.html.document import Part, document
from lipaudit.formats.html.plain_table import PlainTable
from lipaudit.records.diff import ReportDiff
from lipaudit.text.diff import sections, warning
from lipaudit.text.summary import title


def render(found: ReportDiff) -> str:
    """The page, with every row of either report; the same diff always gives the same text."""
    parts = [
        Part(f"part-{i}", entry.label, "sentences.html", entry.lines)
        for i, entry in enumerate(sections(found), start=1)
    ]
    rows = [row_cells(change) for change in found.layers]
    parts.append(Part("layers", "Layers", "plain_table.html", PlainTable(HEAD, rows, NUMERIC) if rows else ()))
    before, after = found.before.model, found.after.model
    values = {"before": before, "after": after, "titles": (title(before), title(after)), "warning": warning(found)}
    return document("diff.html", "Diff of two Lipschitz audits", found.tool_version, parts, values=values)
