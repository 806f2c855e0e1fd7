"""Conditions that a build puts on a report."""

from __future__ import annotations

from lipaudit.report.record import AuditReport


def gate_problem(report: AuditReport, max_log10: float) -> str:
    """Why the network is not shown to stretch by at most 10^max_log10; empty where it is.

    Compares the exact figure, not the rounded one that a table shows. Without a finite, proven bound the gate fails.
    """
    network = report.network
    if network.status != "finite":
        return f"the network's bound is {network.status}, and a gate needs a number"
    if report.settings.structure:
        return "the structure was audited without weights, and a gate needs a number"
    if network.rigor == "estimate":
        return "the network's figure is an estimate, and a gate needs a bound"
    if network.log10_upper_bound is None:
        return "" if network.upper_bound == 0 else "the report has no log10 upper bound of the network"
    if network.log10_upper_bound > max_log10:
        return f"the log10 upper bound {network.log10_upper_bound!r} is above {max_log10!r}"
    return ""


def strict_problem(report: AuditReport) -> str:
    """Which operations have no bound, with their places; empty where every row and the network are finite."""
    gaps = [f"{layer.name} ({layer.status})" for layer in report.layers if layer.status != "finite"]
    if not gaps and report.network.status == "finite":
        return ""
    places = ", ".join(gaps[:5]) + (f" and {len(gaps) - 5} more" if len(gaps) > 5 else "")
    return f"the network is {report.network.status}" + (f"; without a bound: {places}" if places else "")
