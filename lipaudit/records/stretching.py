"""Which rows of a report stretch, by their shares or by the decimal logarithms of their figures, bounds or estimates."""

from __future__ import annotations

from lipaudit.records.report import AuditReport, LayerRecord


def stretching(report: AuditReport) -> list[LayerRecord]:
    """The rows that make the bound larger, most first: by their shares, or where there are none by the factors of those in no block."""
    finite = [layer for layer in report.layers if layer.status == "finite"]
    shared = [layer for layer in finite if (layer.share or 0.0) > 0]
    if shared:
        return sorted(shared, key=lambda layer: -(layer.share or 0.0))
    return sorted((layer for layer in finite if layer.log10 > 0 and not layer.block), key=lambda layer: -layer.log10)
