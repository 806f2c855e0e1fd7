"""The page of one report: the answer, the rows that matter, then everything else, and the report itself as JSON."""

from __future__ import annotations

from lipaudit.escaping import printable
from lipaudit.formats.html.costs import costs
from lipaudit.formats.html.depth import charts as depth_charts
from lipaudit.formats.html.document import Part, document
from lipaudit.formats.html.facts import facts
from lipaudit.formats.html.graph import graph
from lipaudit.formats.html.plain_table import PlainTable
from lipaudit.formats.html.scale import Scale
from lipaudit.formats.html.shares import charts as share_charts
from lipaudit.formats.html.table import table
from lipaudit.records.report import AuditReport
from lipaudit.text.answer import answer, figure_text, meaning, short_title
from lipaudit.text.balls import BALL_HEAD, ball_cells, largest_first
from lipaudit.text.next_steps import next_steps
from lipaudit.text.numbers import lower_text
from lipaudit.text.summary import ADVICE, sections, warning

_MOST_IMAGES = 12
_NO_ROWS = ("No operation of this network can stretch a perturbation.",)


def render(report: AuditReport) -> str:
    """The page of one report; the same report always gives the same text.

    It is to be written as UTF-8 and holds everything that it needs. Every text from the report is escaped; the report itself is
    inside as JSON, which the page offers as a file.
    """
    name = printable(report.model.spec)
    values = {
        "model": name,
        "details": short_title(report.model).removeprefix(f"{name} · "),
        "warning": warning(report),
        "answer": answer(report),
        "meaning": meaning(report),
    }
    heading = f"Lipschitz audit of {report.model.spec}"
    data = report.to_json(indent=None)
    return document("report.html", heading, report.tool_version, _parts(report), values, "script.js", data)


def _bounds(report: AuditReport) -> PlainTable | None:
    """The bounds by every method, the least of which is printed; None where there is only one."""
    bounds = report.network.bounds
    if len(bounds) < 2:
        return None
    rows = [
        (
            bound.name,
            figure_text(bound.figure) or bound.status,
            bound.rigor or "",
            "; ".join(filter(None, (bound.reason, bound.note))),
        )
        for bound in bounds
    ]
    return PlainTable(("method", "bound", "rigor", "remark"), rows)


def _images(report: AuditReport) -> PlainTable | None:
    """The images near which the network stretches most; None where none were given."""
    images = report.network.images
    if images is None:
        return None
    steepest = sorted(images.norms, key=lambda entry: entry.norm, reverse=True)[:_MOST_IMAGES]
    return PlainTable(("image", "Jacobian"), [(entry.image, f"≥ {lower_text(entry.norm)}") for entry in steepest])


def _balls(report: AuditReport) -> PlainTable | None:
    """The bounds over several balls; None where there is one domain."""
    balls = report.network.balls
    if not balls:
        return None
    rows = [tuple(cell or "" for cell in ball_cells(ball)) for ball in largest_first(balls)]
    return PlainTable(BALL_HEAD, rows, BALL_HEAD[1:])


def _parts(report: AuditReport) -> list[Part]:
    """Every part in reading order."""
    said = {entry.label: entry.lines for entry in sections(report)}
    rows, scale = report.layers, Scale.of(report.layers)
    advice = said.get(ADVICE, ())
    steps = [(step.type or f"lipaudit {report.model.spec} {step.add}", step.why) for step in next_steps(report)]
    layers = Part("layers", "Layers", "layers.html", table(rows, scale))
    return [
        Part("missing", "Missing", "list.html", said.get("Missing", ())),
        Part("costs", "Costs most", "costs.html", costs(report, said.get("Costs most", ()))),
        Part("advice", ADVICE, "advice.html", (advice, steps) if advice or steps else ()),
        Part("bounds", "Bounds of the network", "plain_table.html", _bounds(report)),
        Part("balls", "Balls, the largest bound first", "plain_table.html", _balls(report)),
        Part("images", "Images, the steepest first", "plain_table.html", _images(report)),
        Part("segments", "Segments", "sentences.html", said.get("Segments", ())),
        Part("shares", "Shares", "shares.html", share_charts(rows)),
        Part("result", "Result in sentences", "sentences.html", said.get("Result", ())),
        Part("depth", "Over depth", "depth.html", depth_charts(report, scale)),
        Part("graph", "Graph", "graph.html", graph(rows, scale) if rows else ()),
        layers if rows else Part("layers", "Layers", "sentences.html", _NO_ROWS),
        Part("scope", "Scope", "sentences.html", said.get("Scope", ())),
        Part("remarks", "Remarks", "sentences.html", said.get("Remarks", ())),
        Part("facts", "Model and settings", "facts.html", facts(report)),
        Part("time", "Time", "sentences.html", said.get("Time", ())),
        Part("data", "Data", "data.html", True),
    ]
