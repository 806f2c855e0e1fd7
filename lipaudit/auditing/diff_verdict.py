"""The verdict on two figures of one thing.

A verdict compares brackets [lower, upper] of one row's true constant. The row grew where the lower bound after is above the upper bound
before, and shrank where the upper bound after is below the lower bound before; otherwise the brackets overlap and the tolerance can
explain the difference. Without lower bounds, and for the network, no more can be said than that an upper bound rose or fell.
"""

from __future__ import annotations

import math

from lipaudit.records.diff import FELL, GAINED, GREW, LOST, MISSING, ROSE, ROUNDING, SAME, SHRANK, STATUS, WITHIN, Move
from lipaudit.records.figure import Figure
from lipaudit.records.report import LayerRecord, Record

_LARGEST = 307.0  # decades within which a quotient is a normal float


def move(before: Record, after: Record, bracketed: bool = True) -> Move:
    """The verdict on two figures of the same thing, and their factor.

    ``bracketed`` says whether lower bounds are proven ones; those of networks are not.
    """
    first, second = before.figure, after.figure
    log10 = None if first is None or second is None else _log10_factor(first, second)
    factor = None
    if log10 is not None:
        factor = 10.0**log10 if abs(log10) <= _LARGEST else None
    elif first is not None and second is not None and second.log10 == -math.inf:
        factor = 0.0
    return Move(_verdict(before, after, log10, bracketed), factor, log10)


def _log10_factor(before: Figure, after: Figure) -> float | None:
    """The decimal logarithm of the quotient; None where one of the figures is 0."""
    if before.log10 == after.log10:
        return 0.0  # also where both figures are 0
    return None if -math.inf in (before.log10, after.log10) else after.log10 - before.log10


def _verdict(before: Record, after: Record, log10: float | None, bracketed: bool) -> str:
    if before.has_bound != after.has_bound:
        return GAINED if after.has_bound else LOST
    if (before.status, before.figure is None) != (after.status, after.figure is None):
        return STATUS
    if before.figure is None or after.figure is None:
        return MISSING
    if bracketed and isinstance(before, LayerRecord) and isinstance(after, LayerRecord):
        if _is_proven_above(after, before):
            return GREW
        if _is_proven_above(before, after):
            return SHRANK
        if before.has_bracket and after.has_bracket:
            return WITHIN
    if log10 is not None and abs(log10) <= ROUNDING:
        return SAME
    return ROSE if after.log10 > before.log10 else FELL


def _is_proven_above(row: LayerRecord, other: LayerRecord) -> bool:
    """Whether the constant of one row is proven to be above that of another: its lower bound exceeds the other's upper bound."""
    if not (row.has_bound and other.has_bound) or row.lower is None or other.figure is None:
        return False
    return row.lower.is_above(other.figure)
