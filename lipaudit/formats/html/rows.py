"""What one row of a report is, for drawings and for the words beside them."""

from __future__ import annotations

import math

from lipaudit.formats.columns import COLUMNS
from lipaudit.records.report import LayerRecord
from lipaudit.text.figures import factor_text
from lipaudit.text.numbers import lower_bound_text, names_text, share_text


def kind(row: LayerRecord) -> str:
    """``bound``, ``estimate``, ``plain`` (finite, and no figure was asked for), ``unbounded`` or ``unsupported``."""
    if row.status != "finite":
        return row.status
    if row.rigor is None:
        return "plain"
    return "estimate" if row.rigor == "estimate" else "bound"


def log10_figure(row: LayerRecord) -> float | None:
    """The decimal logarithm of a row's figure, minus infinity for 0; None where the row has no figure."""
    if kind(row) not in ("bound", "estimate"):
        return None
    plain, log10 = row.upper_bound, row.log10_upper_bound
    if kind(row) == "estimate":
        plain, log10 = row.estimate, row.log10_estimate
    if log10 is None and plain:
        return math.log10(plain)
    return -math.inf if log10 is None else log10


def log10_lower(row: LayerRecord) -> float | None:
    """The decimal logarithm of a row's lower bound, minus infinity for 0; None where there is none."""
    if row.status != "finite":
        return None
    if row.log10_lower_bound is None and row.lower_bound is not None:
        return math.log10(row.lower_bound) if row.lower_bound > 0 else -math.inf
    return row.log10_lower_bound


def words(row: LayerRecord) -> str:
    """A row in one line: what it is, its figure as what it is, and what it reads."""
    parts = [f"{row.name} ({row.op})", *filter(None, _figures(row))]
    if row.inputs:
        parts.append(f"reads {names_text(row.inputs)}")
    return "; ".join(parts)


def _figures(row: LayerRecord) -> tuple[str, ...]:
    what = kind(row)
    if what in ("unbounded", "unsupported"):
        return (what.upper(), row.reason)
    if what == "plain":
        return ("finite",)
    lower = lower_bound_text(row.lower_bound, row.log10_lower_bound)
    return (
        f"estimate {factor_text(row)}, no bound" if what == "estimate" else f"at most {factor_text(row)}, {row.rigor}",
        f"at least {lower}" if lower else "",
        "" if row.share is None else f"share {share_text(row.share)}",
        COLUMNS["note"].cell(row),
    )
