"""Which rows and blocks of a report stretch, by the decimal logarithms of what they do to its figure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from lipaudit.records.report import AuditReport, LayerRecord

# Blocks that stretch less than this part of what the costliest row or block does are not named.
_LEAST_PART = 1e-3
_CONSTANT = re.compile(r"≤ ([0-9.e+]+)$")


@dataclass(frozen=True)
class Cost:
    """A row, or the ``rows`` of a ``block`` with one text, and the decimal logarithm of what it multiplies the bound by.

    ``share`` is the row's; None for a block, and beside blocks, which shares leave out.
    """

    rows: tuple[LayerRecord, ...]
    log10: float
    block: str = ""
    share: float | None = None

    @property
    def name(self) -> str:
        """The row, or the first row of a block with the block's constant."""
        return f"{self.rows[0].name} ({self.block})" if self.block else self.rows[0].name


def stretching(report: AuditReport) -> list[LayerRecord]:
    """The rows that make the bound larger, most first: by their shares, or where there are none by the factors of those in no block."""
    finite = [layer for layer in report.layers if layer.status == "finite"]
    shared = [layer for layer in finite if (layer.share or 0.0) > 0]
    if shared:
        return sorted(shared, key=lambda layer: -(layer.share or 0.0))
    return sorted((layer for layer in finite if layer.log10 > 0 and not layer.block), key=lambda layer: -layer.log10)


def costs(report: AuditReport) -> list[Cost]:
    """Rows outside of blocks and blocks in one order, the costliest first; without blocks, those of :func:`stretching`.

    A row counts by its elasticity times the logarithm of its factor, which are its share times one common sum (elasticities are at
    most 1, and 1 at a row that every path passes), a block by the logarithm of its constant. Blocks that are negligible are left out.
    """
    sums = [layer.log10 / layer.share for layer in report.layers if layer.share and math.isfinite(layer.log10)]
    whole = min((total for total in sums if total > 0), default=None)
    rows = [
        Cost((layer,), layer.log10 if layer.share is None or whole is None else layer.share * whole)
        for layer in stretching(report)
    ]
    blocks = _blocks(report)
    most = max((cost.log10 for cost in (*rows, *blocks)), default=0.0)
    blocks = [block for block in blocks if block.log10 > _LEAST_PART * most]
    if not blocks:
        return [replace(row, share=row.rows[0].share) for row in rows]
    return sorted((*rows, *blocks), key=lambda cost: -cost.log10)


def _blocks(report: AuditReport) -> list[Cost]:
    """The blocks whose constants are above 1; those with the same text are one."""
    rows: dict[str, list[LayerRecord]] = {}
    for layer in report.layers:
        if layer.block and report.network.status == "finite":
            rows.setdefault(layer.block, []).append(layer)
    constants = {block: _CONSTANT.search(block) for block in rows}
    logs = {block: math.log10(float(match[1])) for block, match in constants.items() if match}
    return [Cost(tuple(rows[block]), log, block) for block, log in logs.items() if log > 0]
