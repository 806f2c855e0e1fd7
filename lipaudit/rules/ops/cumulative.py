"""Running extremes and running log-sums along an axis.

Each of the n results along a slice has a gradient of norm 1 at most (one entry, or a softmax of those so far), so that the
Jacobian of a slice has a Frobenius norm of at most sqrt(n), attained where the first entry is larger than all others.
"""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.induced_facets import picked
from lipaudit.rules.interval_facets import entries_and_places
from lipaudit.rules.operands import data, number, root, stretch
from lipaudit.rules.radii_facets import along_dim
from lipaudit.rules.rule import operations

RUNNING_EXTREMES = operations(*aten("cummax", "cummin"))
LOG_SUMS = operations(*aten("logcumsumexp"))


@(RUNNING_EXTREMES | LOG_SUMS).constant(
    formula="sqrt(n) over n entries", source="n gradients of norm 1 at most", exact=True
)
def running_extreme(node: Node, _settings: Settings) -> Effect:
    """The largest, the smallest or the log-sum of the exponentials so far."""
    shape = data(node, "self").shape
    return stretch(node, {"self": root(shape[int(number(node, "dim"))] if shape else 1)})


RUNNING_EXTREMES.interval(entries_and_places)
LOG_SUMS.radii(along_dim)
(RUNNING_EXTREMES | LOG_SUMS).induced_norm(picked)
