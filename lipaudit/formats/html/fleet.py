"""One page for several models: a row for each, those that failed among them, and below what each audit found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.formats.html import page
from lipaudit.formats.html.document import Part, document
from lipaudit.formats.html.plain_table import Link, PlainTable
from lipaudit.records.failure import Failure
from lipaudit.records.report import AuditReport, NetworkRecord
from lipaudit.records.stretching import Cost, costs
from lipaudit.text.figures import factor_text
from lipaudit.text.numbers import count_text, log10_estimate_text, log10_upper_text, share_text, upper_bound_text
from lipaudit.text.summary import sections, title, warning

_HEAD = ("model", "status", "bound", "log10", "rigor", "domain", "rows", "costs most / problem")
_NUMERIC = ("bound", "log10", "rows")


@dataclass(frozen=True)
class _Audit:
    """What one audit found, in sentences that can be unfolded."""

    key: str
    title: str
    lines: tuple[str, ...]


def render_all(reports: Sequence[AuditReport], failures: Sequence[Failure] = ()) -> str:
    """The page of one report, or one page of several and of the models that have none.

    It is to be written as UTF-8 and holds everything that it needs. Every text from the reports is escaped.
    """
    if len(reports) == 1 and not failures:
        return page.render(reports[0])
    keys = [f"model-{number}" for number in range(1, len(reports) + 1)]
    rows = [_row(key, report) for key, report in zip(keys, reports, strict=True)]
    rows += [(entry.model, "failed", "", "", "", "", "", entry.error) for entry in failures]
    audits = [_Audit(key, title(report.model), _lines(report)) for key, report in zip(keys, reports, strict=True)]
    parts = [
        Part("models", "Models", "plain_table.html", PlainTable(_HEAD, rows, _NUMERIC)),
        Part("found", "What was found", "details.html", audits),
    ]
    version = reports[0].tool_version if reports else ""
    heading = "Lipschitz audits of " + count_text(len(rows), "model")
    return document("several.html", heading, version, parts, {"counts": _count(reports, failures)})


def _count(reports: Sequence[AuditReport], failures: Sequence[Failure]) -> str:
    total = len(reports) + len(failures)
    finite = sum(report.network.status == "finite" for report in reports)
    failed = f", {len(failures)} could not be audited" if failures else ""
    return f"{count_text(total, 'model')}: {finite} with a finite bound{failed}"


def _row(key: str, report: AuditReport) -> tuple[str | Link, ...]:
    network = report.network
    last = next((_cost(cost) for cost in costs(report)), "")
    if network.status != "finite" and network.reasons:
        last = network.reasons[0]
    rigor = "structure" if report.settings.structure else network.rigor or ""
    name = Link(key, report.model.spec)
    return (name, network.status, *_figure(network), rigor, network.domain, str(len(report.layers)), last)


def _cost(cost: Cost) -> str:
    if cost.block:
        return cost.name
    share = "" if cost.share is None else f", {share_text(cost.share)} of the stretching"
    return f"{cost.name} (factor {factor_text(cost.rows[0])}{share})"


def _figure(network: NetworkRecord) -> tuple[str, str]:
    """The figure in plain units and its decimal logarithm; an estimate is marked."""
    if network.status != "finite":
        return "", ""
    if network.rigor == "estimate":
        log10 = "" if network.log10_estimate is None else f"~{log10_estimate_text(network.log10_estimate)}"
        return "estimate", log10
    log10 = "" if network.log10_upper_bound is None else log10_upper_text(network.log10_upper_bound)
    return upper_bound_text(network.upper_bound, network.log10_upper_bound), log10


def _lines(report: AuditReport) -> tuple[str, ...]:
    lines = (warning(report), *(line for entry in sections(report) for line in entry.lines))
    return tuple(filter(None, lines))
