"""Figures of records compared: exactly where both are plain numbers of the normal range, else by their decimal logarithms.

A plain bound of a constant below the range of floats is rounded up to a tiny number that says nothing of the constant's size; only the
logarithm does.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TypeGuard

from lipaudit.records.report import DomainRecord, LayerRecord, NetworkRecord

Record = LayerRecord | NetworkRecord | DomainRecord
_LARGEST = 307.0  # decades within which a quotient is a normal float
_SMALLEST = 1e-300  # below it floats lose digits, and rounding up moves a bound by more than rounding


def has_bound(record: Record) -> bool:
    """Whether a record has a finite, proven upper bound; an estimate is none.

    >>> has_bound(NetworkRecord("finite", "certified", upper_bound=2.0)), has_bound(NetworkRecord("unbounded"))
    (True, False)
    """
    known = record.upper_bound is not None or record.log10_upper_bound is not None
    return record.status == "finite" and record.rigor != "estimate" and known


def has_bracket(row: LayerRecord) -> bool:
    """Whether a row has a proven lower bound beside its proven upper bound."""
    return has_bound(row) and (row.lower_bound is not None or row.log10_lower_bound is not None)


def log10_figure(record: Record) -> float | None:
    """The decimal logarithm of a record's bound or estimate, minus infinity for 0; None where it has neither.

    >>> log10_figure(NetworkRecord("finite", "estimate", estimate=100.0)), log10_figure(NetworkRecord("unbounded"))
    (2.0, None)
    """
    if record.status != "finite":
        return None
    if record.rigor == "estimate":
        return log10_of(record.estimate, record.log10_estimate)
    return log10_of(record.upper_bound, record.log10_upper_bound)


def factor(before: Record, after: Record, log10: float | None) -> float | None:
    """The figure after over the one before, from the logarithm of the quotient; None where it is not known or fits no float."""
    if log10 is not None:
        return 10.0**log10 if abs(log10) <= _LARGEST else None
    figures = log10_figure(before), log10_figure(after)
    return 0.0 if None not in figures and figures[1] == -math.inf else None


def is_above(row: LayerRecord, other: LayerRecord) -> bool:
    """Whether the constant of one row is proven to be above that of another: its lower bound exceeds the other's upper bound."""
    if not (has_bound(row) and has_bound(other)):
        return False
    if _is_exact(row.lower_bound) and _is_exact(other.upper_bound):
        return row.lower_bound > other.upper_bound
    lower = log10_of(row.lower_bound, row.log10_lower_bound)
    upper = log10_figure(other)
    return lower is not None and upper is not None and lower > upper


def within(before: Record, after: Record, limit: float) -> bool:
    """Whether the bound after is at most ``limit`` times the bound before, without rounding where both are normal numbers."""
    if _is_exact(before.upper_bound) and _is_exact(after.upper_bound):
        return Fraction(after.upper_bound) <= Fraction(limit) * Fraction(before.upper_bound)
    first, second = log10_figure(before), log10_figure(after)
    return first is not None and second is not None and second <= first + math.log10(limit)


def _is_exact(value: float | None) -> TypeGuard[float]:
    """Whether a plain figure has all its digits."""
    return value is not None and value >= _SMALLEST


def log10_of(value: float | None, log10: float | None) -> float | None:
    """The decimal logarithm of a figure given plainly, as a logarithm or both: minus infinity for 0, None where it is not known.

    >>> log10_of(None, 412.0), log10_of(100.0, None), log10_of(0.0, None)
    (412.0, 2.0, -inf)
    """
    if log10 is not None or value is None:
        return log10
    return math.log10(value) if value > 0 else -math.inf
