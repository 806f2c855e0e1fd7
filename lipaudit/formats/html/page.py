"""The page of one report: its parts in reading order, and the report itself as JSON."""

from __future__ import annotations

from lipaudit.formats.html import depth, facts, graph, headline, shares, table
from lipaudit.formats.html.document import contents, document, embedded
from lipaudit.formats.html.markup import paragraphs, section, text
from lipaudit.formats.html.scale import Scale
from lipaudit.records.report import AuditReport
from lipaudit.text.numbers import count_text
from lipaudit.text.summary import sections

_PATTERNS = """<svg class="unseen" aria-hidden="true" width="0" height="0"><defs>
<pattern id="unbounded" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">\
<rect class="ground" width="6" height="6"/><rect class="stripe" width="3" height="6"/></pattern>
<pattern id="unsupported" width="5" height="5" patternUnits="userSpaceOnUse">\
<rect class="ground" width="5" height="5"/><circle class="stripe" cx="2.5" cy="2.5" r="1.4"/></pattern>
</defs></svg>"""
_DATA = """<p>The report is inside this page as JSON, with all that <code>lipaudit --format json</code> writes.</p>
<p class="controls" hidden><button type="button" id="download">Save the report as JSON</button></p>"""
_NO_ROWS = "No operation of this network can stretch a perturbation."
_GRAPH = (
    "From top to bottom in the order of computation; lines lead from a row to the rows that read it. Operations that neither stretch nor "
    "shrink have no row. Every row is a link to its line in the table."
)


def render(report: AuditReport) -> str:
    """The page of one report; the same report always gives the same text.

    It is to be written as UTF-8 and holds everything that it needs. Every text from the report is escaped; the report itself is
    inside as JSON, which the page offers as a file.
    """
    parts = _sections(report)
    body = "\n".join(section(key, name, content) for key, name, content in parts)
    main = f"{_PATTERNS}\n<main>\n{headline.render(report)}\n{contents(parts)}\n{body}\n</main>"
    title = f"Lipschitz audit of {report.model.spec}"
    return document(title, report.tool_version, main, "script.js", embedded(report.to_json(indent=None)))


def _sections(report: AuditReport) -> list[tuple[str, str, str]]:
    """Key, heading and content of every part; a part without content is not shown."""
    said = {entry.label: entry.lines for entry in sections(report)}
    rows, scale = report.layers, Scale.of(report.layers)
    costs = paragraphs(said.get("Costs most", ()))
    return [
        ("result", "Result", paragraphs(said.get("Result", ())[1:])),  # the first is the headline
        ("missing", "Missing", _listed(said.get("Missing", ()))),
        ("advice", "What to do", paragraphs(said.get("What to do", ()))),
        ("costs", "Costs most", costs and f'<div class="columns"><div>{costs}</div>{shares.render(rows)}</div>'),
        ("depth", "Over depth", depth.render(report, scale)),
        ("graph", "Graph", _graph(report, scale) if rows else ""),
        ("layers", "Layers", _layers(report, scale) if rows else f"<p>{_NO_ROWS}</p>"),
        ("scope", "Scope", paragraphs(said.get("Scope", ()))),
        ("remarks", "Remarks", paragraphs(said.get("Remarks", ()))),
        ("facts", "Model and settings", facts.render(report)),
        ("time", "Time", paragraphs(said.get("Time", ()))),
        ("data", "Data", _DATA),
    ]


def _listed(lines: tuple[str, ...]) -> str:
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>" if lines else ""


def _graph(report: AuditReport, scale: Scale | None) -> str:
    legend, drawing = graph.draw(report.layers, scale)
    return (
        f"<p>{_GRAPH}</p>\n{legend}\n"
        f'<div class="box network" tabindex="0" role="region" aria-label="Graph of the network">{drawing}</div>\n'
        '<p id="readout" class="readout" aria-live="polite" hidden>Point at a row, or go through them with the arrow keys, to read its '
        "figures here.</p>"
    )


def _layers(report: AuditReport, scale: Scale | None) -> str:
    words = table.scale_words(report.layers)
    return (
        '<div class="controls" hidden><label>Filter <input type="search" id="filter" placeholder="name, operation, unbounded" '
        f'autocomplete="off"></label><output id="count" for="filter">{count_text(len(report.layers), "row")}</output></div>\n'
        f"{f'<p>{words}</p>' if words else ''}\n"
        f'<div class="box" tabindex="0" role="region" aria-label="Table of layers">{table.render(report.layers, scale)}</div>'
    )
