"""How the network's figure builds up from its first row to its last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

from lipaudit.records.groups import is_chain
from lipaudit.records.report import AuditReport, LayerRecord


@dataclass(frozen=True)
class Cumulative:
    """One value after every row: ``kind`` is ``bound`` (log10 of an upper bound) or ``share`` (part of all that stretches).

    ``values`` of the kind ``bound`` are upper bounds, rounded outward.
    """

    kind: str
    values: tuple[float, ...]


def cumulative(report: AuditReport) -> Cumulative | None:
    """The running product of the bounds where the network is a plain chain of its rows, else the running sum of the shares.

    The bound of a value inside a network with branches cannot be told from a report (:func:`~lipaudit.records.groups.is_chain`).
    None where the rows have neither bounds nor shares.
    """
    rows = report.layers
    if not rows:
        return None
    if is_chain(report):
        sums = accumulate(_log10(row) for row in rows)
        slack = 1e-15 * math.fsum(abs(_log10(row)) for row in rows)  # of the rounding of every sum
        return Cumulative("bound", tuple(math.nextafter(value + slack * len(rows), math.inf) for value in sums))
    shares = [row.share for row in rows if row.share is not None]
    if len(shares) < len(rows) or not any(shares):
        return None
    return Cumulative("share", tuple(accumulate(shares)))


def _log10(row: LayerRecord) -> float:
    return row.log10_upper_bound or 0.0
