"""The figures of records in words."""

from __future__ import annotations

import math

from lipaudit.records.groups import Group
from lipaudit.records.report import LayerRecord
from lipaudit.text.numbers import estimate_text, upper_bound_text


def factor_text(layer: LayerRecord) -> str:
    """A finite row's figure: an upper bound rounded up, or an estimate with its mark."""
    if layer.rigor == "estimate":
        return estimate_text(layer.estimate, layer.log10_estimate)
    return upper_bound_text(layer.upper_bound, layer.log10_upper_bound)


def group_factor_text(group: Group) -> str:
    """The figure of several rows together: a bound of the part where they follow each other, else the largest of their factors (max).

    A status other than finite stands in its place.
    """
    if group.status != "finite" or group.largest.rigor is None:
        return group.status
    if len(group.layers) == 1:
        return factor_text(group.layers[0])
    log10 = group.log10_product
    if log10 is None:
        return f"max {factor_text(group.largest)}"
    if any(layer.rigor == "estimate" for layer in group.layers):
        return "~0" if log10 == -math.inf else estimate_text(_plain(log10), log10)
    return "0" if log10 == -math.inf else upper_bound_text(_plain(log10), log10)


def _plain(log10: float) -> float | None:
    """A number at least 10^log10; None where it does not fit a float."""
    if abs(log10) > 300:
        return None
    return math.nextafter(10**log10 * (1 + 1e-12), math.inf)
