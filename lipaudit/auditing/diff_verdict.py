"""The verdict on two figures of one thing.

A verdict compares brackets [lower, upper] of one row's true constant. The row grew where the lower bound after is above the upper bound
before, and shrank where the upper bound after is below the lower bound before; otherwise the brackets overlap and the tolerance can
explain the difference. Without lower bounds, and for the network, no more can be said than that an upper bound rose or fell.
"""

from __future__ import annotations

import math

from lipaudit.records.diff import FELL, GAINED, GREW, LOST, MISSING, ROSE, ROUNDING, SAME, SHRANK, STATUS, WITHIN, Move
from lipaudit.records.figure import Record, factor, has_bound, has_bracket, is_above, log10_figure
from lipaudit.records.report import LayerRecord


def move(before: Record, after: Record, bracketed: bool = True) -> Move:
    """The verdict on two figures of the same thing, and their factor.

    ``bracketed`` says whether lower bounds are proven ones; those of networks are not.
    """
    log10 = _log10_factor(before, after)
    return Move(_verdict(before, after, log10, bracketed), factor(before, after, log10), log10)


def _log10_factor(before: Record, after: Record) -> float | None:
    logs = log10_figure(before), log10_figure(after)
    if None in logs:
        return None
    first, second = (float(log) for log in logs if log is not None)
    if first == second:
        return 0.0  # also where both figures are 0
    return None if -math.inf in (first, second) else second - first


def _verdict(before: Record, after: Record, log10: float | None, bracketed: bool) -> str:
    if has_bound(before) != has_bound(after):
        return GAINED if has_bound(after) else LOST
    figures = log10_figure(before), log10_figure(after)
    if (before.status, figures[0] is None) != (after.status, figures[1] is None):
        return STATUS
    if figures[0] is None or figures[1] is None:
        return MISSING
    if bracketed and isinstance(before, LayerRecord) and isinstance(after, LayerRecord):
        if is_above(after, before):
            return GREW
        if is_above(before, after):
            return SHRANK
        if has_bracket(before) and has_bracket(after):
            return WITHIN
    if log10 is not None and abs(log10) <= ROUNDING:
        return SAME
    return ROSE if figures[1] > figures[0] else FELL
