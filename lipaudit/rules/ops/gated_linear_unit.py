"""Gated linear units: a sigmoid(b) for the two halves a, b of a tensor, |a| <= A.

With s = sigmoid(b) the gradient in (a, b) is (s, a s (1 - s)), of norm s sqrt(1 + a^2 (1 - s)^2) at most

    sup over s in [0, 1] of s sqrt(1 + A^2 (1 - s)^2).

The square has the derivative 2 s (1 + A^2 (1 - s) (1 - 2 s)), which vanishes at s = (3 -+ sqrt(1 - 8 / A^2)) / 4: for A^2 <= 8 the
supremum is 1, at s = 1; beyond, it is the larger of 1 and the value at the smaller of the two. The entries of the output read
disjoint pairs (a, b), so that it bounds the whole. Attained where b is the logit of that s and |a| = A.
"""

from __future__ import annotations

import math

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.interval_facets import of_entries
from lipaudit.rules.operands import count_refs, rounded
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

# Beyond this A is the whole of the square root: sqrt(1 + A^2 / 16) is above the supremum by less than its rounding.
_LARGE_LOG = 100.0
GLU = operations(*aten("glu"))


def glu_slope(bound: Bracket) -> Bracket:
    """sup over s in [0, 1] of s sqrt(1 + A^2 (1 - s)^2) for A up to the upper end of ``bound``.

    s (1 - s) <= 1/4, so that sqrt(1 + A^2 / 16) is a bound where A^2 would overflow.

    >>> glu_slope(Bracket.exact(2.0)).upper
    1.0
    >>> round(glu_slope(Bracket.exact(10.0)).upper, 4)
    2.5505
    """
    if bound.log_upper > _LARGE_LOG:
        return Bracket.root_sum_squares([Bracket.exact(1.0), bound * Bracket.exact(0.25)]) * Bracket(-math.inf, 0.0)
    square = bound.upper**2 * (1 + 2.0**-50)
    if square <= 8:
        return Bracket(-math.inf, 0.0, bound.rigor)
    s = (3 - math.sqrt(1 - 8 / square)) / 4
    # the maximum is flat: an error of s counts with its square
    supremum = rounded(s * math.sqrt(1 + square * (1 - s) ** 2), 2.0**-44)
    return Bracket(-math.inf, max(0.0, supremum.log_upper), bound.rigor)


@GLU.constant(
    formula="unbounded; sup over s in [0, 1] of s sqrt(1 + A^2 (1 - s)^2) where the half that is gated is within A",
    source="d(a s(b)) = s da + a s (1 - s) db, in closed form",
    where_bounded=True,
)
def glu(node: Node, _settings: Settings) -> Effect:
    """a sigmoid(b) for the two halves a, b of the input along an axis."""
    reason = (
        "glu multiplies one half of its input by the sigmoid of the other: no finite constant holds over all inputs"
    )
    if not count_refs(node["self"]):
        return Effect.unsupported("glu of a constant")
    return Effect.where_bounded(reason, lambda operands: Effect.stretch(glu_slope(_largest(operands))))


def _largest(operands: tuple[Magnitude, ...]) -> Bracket:
    return operands[0].largest


GLU.interval(of_entries(lambda x: x * Interval(0.0, 1.0)))
