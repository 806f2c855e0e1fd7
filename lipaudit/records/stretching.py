"""Which rows and networks stretch: records compared by the decimal logarithms of their figures, bounds or estimates."""

from __future__ import annotations

import math

from lipaudit.records.report import AuditReport, LayerRecord, NetworkRecord


def stretching(report: AuditReport) -> list[LayerRecord]:
    """The rows that make the bound larger, most first: by their shares, or where there are none by their factors."""
    finite = [layer for layer in report.layers if layer.status == "finite"]
    shared = [layer for layer in finite if (layer.share or 0.0) > 0]
    if shared:
        return sorted(shared, key=lambda layer: -(layer.share or 0.0))
    above_one = [layer for layer in finite if log10_of(layer) > 0]
    return sorted(above_one, key=lambda layer: -log10_of(layer))


def is_above(network: NetworkRecord, log10: float) -> bool:
    """Whether the network has a finite figure above 10^log10."""
    return network.status == "finite" and log10_of(network) > log10


def log10_of(record: NetworkRecord | LayerRecord) -> float:
    """The decimal logarithm of a figure, bound or estimate; minus infinity for 0 and for none."""
    found = record.log10_estimate if record.rigor == "estimate" else record.log10_upper_bound
    return -math.inf if found is None else found
