"""The page of a diff: what moved from one report to another, in sentences and row by row."""

from __future__ import annotations

from lipaudit.formats.diff import HEAD, NUMERIC, row_cells
from lipaudit.formats.html import plain_table
from lipaudit.formats.html.document import contents, document
from lipaudit.formats.html.markup import definitions, paragraphs, section, text
from lipaudit.records.diff import ReportDiff
from lipaudit.text.diff import sections, warning
from lipaudit.text.summary import title


def render(found: ReportDiff) -> str:
    """The page, with every row of either report; the same diff always gives the same text."""
    first = warning(found)
    parts = [(f"part-{i}", entry.label, paragraphs(entry.lines)) for i, entry in enumerate(sections(found), start=1)]
    rows = [row_cells(change) for change in found.layers]
    parts.append(("layers", "Layers", plain_table.render("Layers", HEAD, rows, NUMERIC) if rows else ""))
    body = "\n".join(section(key, text(name), content) for key, name, content in parts)
    head = (
        '<header><p class="kind">Diff of two Lipschitz audits</p>'
        f"<h1>{text(found.before.model.spec)} → {text(found.after.model.spec)}</h1>"
        + (f'<p class="warning" role="note">{text(first)}</p>' if first else "")
        + definitions((("Before", title(found.before.model)), ("After", title(found.after.model))))
        + "</header>"
    )
    main = f"<main>\n{head}\n{contents(parts)}\n{body}\n</main>"
    return document("Diff of two Lipschitz audits", found.tool_version, main)
