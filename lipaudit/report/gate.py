"""Conditions that a build puts on a report."""

from __future__ import annotations

from lipaudit.report.domains import estimated_elsewhere, finite_elsewhere, may_be_finite_on_images, place
from lipaudit.report.methods import has_estimates
from lipaudit.report.record import AuditReport


def gate_problem(report: AuditReport, max_log10: float) -> str:
    """Why the network is not shown to stretch by at most 10^max_log10; empty where it is.

    Judges the domain in force, and the exact figure, not the rounded one that a table shows. Without a finite, proven
    bound over that domain the gate fails, and says where there is one.
    """
    network = report.network
    if network.status != "finite":
        return f"the network's bound is {network.status}{_over(report)}, and a gate needs a number{_hint(report)}"
    if report.settings.structure:
        return "the structure was audited without weights, and a gate needs a number"
    if network.rigor == "estimate":
        return f"the network's figure is an estimate ({report.settings.method}), and an estimate is no bound"
    if network.log10_upper_bound is None:
        return "" if network.upper_bound == 0 else "the report has no log10 upper bound of the network"
    if network.log10_upper_bound > max_log10:
        return f"the log10 upper bound {network.log10_upper_bound!r}{_over(report)} is above {max_log10!r}"
    return ""


def strict_problem(report: AuditReport) -> str:
    """Which operations have no bound over the domain in force, with their places; empty where every figure is a finite bound."""
    gaps = [f"{layer.name} ({layer.status})" for layer in report.layers if layer.status != "finite"]
    problems = []
    if gaps or report.network.status != "finite":
        found = f"the network is {report.network.status}{_over(report)}"
        problems.append(found + (f"; without a bound: {_listed(gaps)}" if gaps else "") + _hint(report))
    if has_estimates(report):
        problems.append(_estimates(report))
    return "; ".join(problems)


def _estimates(report: AuditReport) -> str:
    rows = [layer.name for layer in report.layers if layer.rigor == "estimate"]
    whose = "the network's figure is an estimate" if report.network.rigor == "estimate" else "figures are estimates"
    places = f": {_listed(rows)}" if rows else ""
    return f"{whose} ({report.settings.method}){places}; an estimate is no bound: choose --method gram"


def _listed(places: list[str]) -> str:
    return ", ".join(places[:5]) + (f" and {len(places) - 5} more" if len(places) > 5 else "")


def _over(report: AuditReport) -> str:
    domain = report.network.domain
    return "" if domain == "global" else f" over {place(report.settings, domain)}"


def _hint(report: AuditReport) -> str:
    """Which option would give a figure."""
    other = finite_elsewhere(report)
    if other is not None:
        return f"; over {place(report.settings, other.domain)} it has one: --domain {other.domain}"
    guess = estimated_elsewhere(report)
    if guess is not None:
        return (
            f"; over {place(report.settings, guess.domain)} it has an estimate by {report.settings.method}, which is no bound: "
            f"--method gram with --domain {guess.domain} may give one"
        )
    if may_be_finite_on_images(report):
        return "; if the inputs are images, --domain pixels with --mean and --std may give one"
    return ""
