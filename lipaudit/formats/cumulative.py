"""How the network's figure builds up from its first row to its last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

from lipaudit.records.report import AuditReport, LayerRecord

# Branches, and several outputs, move the network's figure away from the product of its rows by more than this (log10).
_SAME = 1e-6


@dataclass(frozen=True)
class Cumulative:
    """One value after every row: ``kind`` is ``bound`` (log10 of an upper bound) or ``share`` (part of all that stretches).

    ``values`` of the kind ``bound`` are upper bounds, rounded outward.
    """

    kind: str
    values: tuple[float, ...]


def cumulative(report: AuditReport) -> Cumulative | None:
    """The running product of the bounds where the network is a plain chain of its rows, else the running sum of the shares.

    A report says which rows a row reads, but not how their values are joined, so that the bound of a value inside a network with
    branches cannot be told from it. A chain is recognised by its rows, each of which reads the one before and nothing else, and
    by its figure: the product of the rows' bounds is the network's. None where the rows have neither bounds nor shares.
    """
    rows = report.layers
    if not rows:
        return None
    if _is_chain(report):
        sums = accumulate(_log10(row) for row in rows)
        slack = 1e-15 * math.fsum(abs(_log10(row)) for row in rows)  # of the rounding of every sum
        return Cumulative("bound", tuple(math.nextafter(value + slack * len(rows), math.inf) for value in sums))
    shares = [row.share for row in rows if row.share is not None]
    if len(shares) < len(rows) or not any(shares):
        return None
    return Cumulative("share", tuple(accumulate(shares)))


def _is_chain(report: AuditReport) -> bool:
    network, rows = report.network, report.layers
    if network.log10_upper_bound is None or len(network.outputs) > 1 or len(report.model.input_shapes) > 1:
        return False
    if any(row.log10_upper_bound is None or len(row.inputs) != 1 for row in rows):
        return False
    names = [row.name for row in rows]
    follows = all(row.inputs == (before,) for row, before in zip(rows[1:], names, strict=False))
    starts = rows[0].inputs[0] not in names
    product = math.fsum(map(_log10, rows))
    return follows and starts and abs(product - network.log10_upper_bound) <= _SAME * max(1.0, abs(product))


def _log10(row: LayerRecord) -> float:
    return row.log10_upper_bound or 0.0
