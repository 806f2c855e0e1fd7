"""The head of the page: which model, what the audit says of it, and the few figures that a reader looks for first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lipaudit.escaping import printable
from lipaudit.records.report import AuditReport, DomainRecord, NetworkRecord
from lipaudit.text.domain import pixels_are_the_input, place
from lipaudit.text.numbers import estimate_text, log10_estimate_text, log10_upper_text, lower_text, upper_bound_text
from lipaudit.text.summary import headline, title, warning


@dataclass(frozen=True)
class Head:
    """What the head of the page shows."""

    name: str
    details: str
    warning: str
    verdict: str
    label: str
    loud: bool
    facts: tuple[tuple[str, str], ...]
    headline: str


def head(report: AuditReport) -> Head:
    """The head of a report's page."""
    name = printable(report.model.spec)
    details = title(report.model).removeprefix(name)
    return Head(name, details, warning(report), *_verdict(report), tuple(_facts(report)), headline(report))


def _verdict(report: AuditReport) -> tuple[str, str, bool]:
    """The large figure or word, what it is, and whether it must not be taken for a bound."""
    network = report.network
    if network.status == "unbounded":
        return "UNBOUNDED", "no finite bound", True
    if network.status != "finite":
        return "NOT AVAILABLE", "nothing is claimed for the network as a whole", True
    if report.settings.structure:
        return "FINITE", "there is a bound; the structure alone has no figures", False
    if network.rigor == "estimate":
        return estimate_text(network.estimate, network.log10_estimate), "ESTIMATE, not a bound", True
    return (
        f"≤ {upper_bound_text(network.upper_bound, network.log10_upper_bound)}",
        "upper bound of the l2 Lipschitz constant",
        False,
    )


def _facts(report: AuditReport) -> Iterable[tuple[str, str]]:
    network = report.network
    if network.status == "finite" and network.rigor == "estimate" and network.log10_estimate is not None:
        yield "Estimated power of ten", f"10^{log10_estimate_text(network.log10_estimate)}"
    elif network.status == "finite" and network.log10_upper_bound is not None:
        yield "As a power of ten", f"10^{log10_upper_text(network.log10_upper_bound)}"
    yield "Over", place(report.settings, network.domain)
    if network.status == "finite" and network.rigor is not None:
        yield "Rigor", network.rigor
    if not pixels_are_the_input(report) and (pixel := _pixel_figure(network)):
        yield "Measured in pixels in [0, 1]", pixel
    if network.lower_bound is not None:
        yield "Stretching found (empirical)", f"≥ {lower_text(network.lower_bound)}"
    for other in network.other_domains:
        yield f"Over {place(report.settings, other.domain)}", _elsewhere(other)


def _pixel_figure(record: NetworkRecord) -> str:
    if record.status != "finite":
        return ""
    if record.rigor == "estimate":
        return estimate_text(record.pixel_estimate, record.pixel_log10_estimate)
    bound = upper_bound_text(record.pixel_upper_bound, record.pixel_log10_upper_bound)
    return f"≤ {bound}" if bound else ""


def _elsewhere(other: DomainRecord) -> str:
    if other.status != "finite":
        return other.status
    if other.rigor == "estimate":
        return f"{estimate_text(other.estimate, other.log10_estimate)}, an estimate"
    bound = upper_bound_text(other.upper_bound, other.log10_upper_bound)
    return f"≤ {bound}, {other.rigor}" if bound else "finite"
