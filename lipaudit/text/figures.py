"""The figures of records in words."""

from __future__ import annotations

from lipaudit.records.report import LayerRecord
from lipaudit.text.numbers import estimate_text, upper_bound_text


def factor_text(layer: LayerRecord) -> str:
    """A finite row's figure: an upper bound rounded up, or an estimate with its mark."""
    if layer.rigor == "estimate":
        return estimate_text(layer.estimate, layer.log10_estimate)
    return upper_bound_text(layer.upper_bound, layer.log10_upper_bound)
