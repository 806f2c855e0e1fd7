"""Conditions that a build puts on a diff: by how much bounds may have grown.

Figures are judged as they are, not as a table rounds them.
"""

from __future__ import annotations

import math

from lipaudit.records.diff import LayerChange, Move, ReportDiff
from lipaudit.records.report import Record
from lipaudit.text.numbers import MOST, log10_upper_text


def growth_problem(diff: ReportDiff, limit: float) -> str:
    """Why the network's bound is not shown to be at most ``limit`` times what it was; empty where it is.

    Fails where there is no finite, proven bound after; passes where there was none before and is one after.
    """
    problem = _problem(diff.before.network, diff.after.network, diff.network, limit)
    return f"the network's {problem}" if problem else ""


def growth_remark(diff: ReportDiff) -> str:
    """What to say of a network that passes because there was nothing to grow from; empty otherwise."""
    if diff.after.network.has_bound and not diff.before.network.has_bound:
        return "the network had no proven bound before and has one after, so the gate on its growth passes"
    return ""


def layer_growth_problem(diff: ReportDiff, limit: float) -> str:
    """Which matched rows have grown by more than ``limit``, the worst first; empty where none has.

    Each is judged as the network is. Rows that have no counterpart are not judged, and named by :func:`unjudged`.
    """
    worst = sorted((change for change in _matched(diff) if _layer_problem(change, limit)), key=_size)
    if not worst:
        return ""
    shown = "; ".join(f"{change.record.name}: {_layer_problem(change, limit)}" for change in worst[:MOST])
    return shown + (f"; and {len(worst) - MOST} more rows" if len(worst) > MOST else "")


def unjudged(diff: ReportDiff) -> list[LayerChange]:
    """Rows that a gate on layers cannot judge: added, or another operation or weight shape under the same name."""
    return [change for change in diff.layers if change.match in ("added", "changed")]


def _matched(diff: ReportDiff) -> list[LayerChange]:
    return [change for change in diff.layers if change.match in ("name", "shape")]


def _layer_problem(change: LayerChange, limit: float) -> str:
    if change.before is None or change.after is None or change.move is None:
        return ""
    return _problem(change.before, change.after, change.move, limit)


def _problem(before: Record, after: Record, move: Move, limit: float) -> str:
    if after.status != "finite":
        return f"bound is {after.status} after, and a gate needs a number"
    if after.figure is None or not after.has_bound:
        return "figure after is an estimate, and an estimate is no bound"
    if before.figure is None or not before.has_bound or not after.figure.is_above(before.figure, limit):
        return ""
    if move.log10_factor is None:
        return f"bound was 0 before and is above 0 after, more than {limit!r} times as large"
    grown = f"{move.factor!r}" if move.factor is not None else f"10^{log10_upper_text(move.log10_factor)}"
    return f"bound has grown by a factor of {grown}, more than {limit!r}"


def _size(change: LayerChange) -> float:
    """Rows without a bound first, then the largest factors."""
    log10 = change.move.log10_factor if change.move is not None else None
    return -math.inf if log10 is None else -log10
