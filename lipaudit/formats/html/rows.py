"""What one row of a report is, for drawings and for the words beside them."""

from __future__ import annotations

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
    return row.log10 if kind(row) in ("bound", "estimate") else None


def log10_lower(row: LayerRecord) -> float | None:
    """The decimal logarithm of a row's lower bound, minus infinity for 0; None where there is none."""
    return None if row.status != "finite" or row.lower is None else row.lower.log10


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
