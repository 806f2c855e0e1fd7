"""How much each row does to the move of the network's figure, to first order in the logarithms of the rows' figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lipaudit.records.report import LayerRecord

# the constant of a row this close to 1 (in log10) does not tell how much the network depends on it
_ONE = 1e-6


def contribution(before: LayerRecord | None, after: LayerRecord | None, elasticities: Sequence[float]) -> float | None:
    """The mean elasticity of the network's figure in a row times the change of the row's log10 figure; an absent row counts as 1.

    None where an elasticity or a figure is not known, or a figure is 0.
    """
    logs = [0.0 if row is None else row.log10 for row in (before, after)]
    if not elasticities or -math.inf in logs:
        return None
    return math.fsum(elasticities) / len(elasticities) * (logs[1] - logs[0])


def elasticities(layers: Sequence[LayerRecord]) -> dict[int, float]:
    """d log L / d log c of rows by their number, from the shares, each of which is elasticity times log c over one common sum.

    Elasticities are at most 1, and 1 at a row that every path passes: that fixes the common sum. Empty without shares.
    """
    quotients = {}
    for i, row in enumerate(layers):
        if row.share is not None and math.isfinite(row.log10) and abs(row.log10) > _ONE:
            quotients[i] = row.share / row.log10
    most = max(quotients.values(), default=0.0)
    return {i: value / most for i, value in quotients.items()} if most > 0 else {}
