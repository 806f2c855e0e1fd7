"""The figures and verdicts of a diff in words: with as many digits as a move needs to be seen, and still rounded outward."""

from __future__ import annotations

import math
from decimal import Decimal

from lipaudit.records.diff import (
    FELL,
    GAINED,
    GREW,
    LOST,
    MISSING,
    ROSE,
    SAME,
    SHRANK,
    STATUS,
    LayerChange,
    Move,
)
from lipaudit.records.figure import Figure, log10_of, value_of
from lipaudit.records.report import LayerRecord, Record
from lipaudit.text.numbers import (
    DIGITS,
    estimate_text,
    log10_estimate_text,
    log10_upper_text,
    lower_bound_text,
    upper_bound_text,
)

LOUD = (LOST, STATUS, GAINED)
WORDS = {LOST: "BOUND LOST", STATUS: "STATUS CHANGED", GAINED: "BOUND GAINED", MISSING: "no bound"}
BOUNDS = {ROSE: "bound rose", FELL: "bound fell", SAME: "same bound"}
ESTIMATES = {ROSE: "estimate rose", FELL: "estimate fell", SAME: "same estimate"}
_MOVES = (GREW, SHRANK, ROSE, FELL)
_MOST_DIGITS = 12  # what a table of 100 characters has room for; smaller moves are of the size of rounding errors


def verdict_text(change: LayerChange) -> str:
    """The verdict on a row, or why it has none."""
    if change.move is None or (change.match == "changed" and change.move.verdict not in LOUD):
        return change.match
    words = WORDS | (ESTIMATES if is_estimated(change.before, change.after) else BOUNDS)
    return words.get(change.move.verdict, change.move.verdict)


def is_estimated(*records: Record | None) -> bool:
    """Whether a figure among the records is an estimate."""
    return any(record is not None and record.rigor == "estimate" for record in records)


def quotient_text(move: Move | None, estimated: bool = False) -> str:
    """The factor rounded to the nearest, for it is no bound; marked where a figure is an estimate.

    >>> quotient_text(Move(GREW, 1.000012, 5.2e-6)), quotient_text(Move("within brackets", 1.000012, 5.2e-6))
    ('1.00001', '1')
    """
    if move is None:
        return ""
    text = estimate_text(move.factor, move.log10_factor)
    for digits in range(DIGITS + 1, _MOST_DIGITS + 1):
        if move.verdict not in _MOVES or text != "~1":
            break
        text = estimate_text(move.factor, move.log10_factor, digits)
    return text if estimated else text[1:]


def times_text(log10: float) -> str:
    """10 to a power, to the nearest.

    >>> times_text(2.0), times_text(-1234.5)
    ('100', '10^-1234.50')
    """
    return estimate_text(10.0**log10 if abs(log10) < 300 else None, log10)[1:]


def digits_apart(before: Record | None, after: Record | None, move: Move | None) -> int:
    """How many digits show that a figure has moved: usually four.

    What is proven to have grown or shrunk has brackets that are apart as they are shown, too.
    """
    if before is None or after is None or move is None or move.verdict not in _MOVES:
        return DIGITS
    high, low = (after, before) if move.verdict in (GREW, ROSE) else (before, after)
    proven = move.verdict in (GREW, SHRANK)
    for digits in range(DIGITS, _MOST_DIGITS):
        least = high.lower if proven and isinstance(high, LayerRecord) else high.figure
        if _size(_lower_text(least, digits)) > _size(upper_bound_text(*_numbers(low.figure), digits)):
            return digits
    return _MOST_DIGITS


def upper_text_of(record: Record, digits: int = DIGITS) -> str:
    """A finite record's figure: an upper bound rounded up, or an estimate with its mark."""
    text = estimate_text if record.rigor == "estimate" else upper_bound_text
    return text(*_numbers(record.figure), digits)


def _lower_text(figure: Figure | None, digits: int) -> str:
    """A figure rounded down; empty where there is none."""
    return lower_bound_text(*_numbers(figure), digits)


def figure_text(row: LayerRecord | None, digits: int = DIGITS, upper_only: bool = False) -> str:
    """A bracket, a bound, an estimate, or the status where there is no figure."""
    if row is None or row.status != "finite":
        return "" if row is None else row.status
    upper = upper_text_of(row, digits)
    if upper_only or not row.has_bracket:
        return upper
    lower = _lower_text(row.lower, digits)
    return upper if lower == upper else f"{lower}..{upper}"


def said(record: Record, digits: int = DIGITS) -> str:
    """The figure of a network as what it is, or the status where there is none."""
    if record.status != "finite":
        return record.status
    estimated = record.rigor == "estimate"
    value, log10 = _numbers(record.figure)
    text = f"about {upper_text_of(record, digits)[1:]}" if estimated else f"at most {upper_text_of(record, digits)}"
    if value is not None and log10 is not None:
        shown = log10_estimate_text(log10, digits) if estimated else log10_upper_text(log10, digits)
        text += f" (10^{shown})"
    return text + (" (estimate)" if estimated else "")


def _numbers(figure: Figure | None) -> tuple[float | None, float | None]:
    """A figure in plain units and as a logarithm."""
    return value_of(figure), log10_of(figure)


def _size(text: str) -> Decimal:
    """A shown figure as a number that can be compared with others: its decimal logarithm."""
    if text.startswith("10^"):
        return Decimal(text[3:])
    value = Decimal(text or 0)
    return value.log10() if value else Decimal(-math.inf)
