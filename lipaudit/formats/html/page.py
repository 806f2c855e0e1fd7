"""The page of one report: its parts in reading order, and the report itself as JSON."""

from __future__ import annotations

from lipaudit.formats.html.depth import charts as depth_charts
from lipaudit.formats.html.document import Part, document
from lipaudit.formats.html.facts import facts
from lipaudit.formats.html.graph import graph
from lipaudit.formats.html.headline import head
from lipaudit.formats.html.scale import Scale
from lipaudit.formats.html.shares import charts as share_charts
from lipaudit.formats.html.table import table
from lipaudit.records.report import AuditReport
from lipaudit.text.summary import sections

_NO_ROWS = ("No operation of this network can stretch a perturbation.",)


def render(report: AuditReport) -> str:
    """The page of one report; the same report always gives the same text.

    It is to be written as UTF-8 and holds everything that it needs. Every text from the report is escaped; the report itself is
    inside as JSON, which the page offers as a file.
    """
    title = f"Lipschitz audit of {report.model.spec}"
    data = report.to_json(indent=None)
    values = {"head": head(report)}
    return document("report.html", title, report.tool_version, _parts(report), values, "script.js", data)


def _parts(report: AuditReport) -> list[Part]:
    """Every part in reading order."""
    said = {entry.label: entry.lines for entry in sections(report)}
    rows, scale = report.layers, Scale.of(report.layers)
    costs = said.get("Costs most", ())
    layers = Part("layers", "Layers", "layers.html", table(rows, scale))
    return [
        Part("result", "Result", "sentences.html", said.get("Result", ())[1:]),  # the first is the headline
        Part("missing", "Missing", "list.html", said.get("Missing", ())),
        Part("advice", "What to do", "sentences.html", said.get("What to do", ())),
        Part("costs", "Costs most", "costs.html", (costs, share_charts(rows)) if costs else ()),
        Part("depth", "Over depth", "depth.html", depth_charts(report, scale)),
        Part("graph", "Graph", "graph.html", graph(rows, scale) if rows else ()),
        layers if rows else Part("layers", "Layers", "sentences.html", _NO_ROWS),
        Part("scope", "Scope", "sentences.html", said.get("Scope", ())),
        Part("remarks", "Remarks", "sentences.html", said.get("Remarks", ())),
        Part("facts", "Model and settings", "facts.html", facts(report)),
        Part("time", "Time", "sentences.html", said.get("Time", ())),
        Part("data", "Data", "data.html", True),
    ]
