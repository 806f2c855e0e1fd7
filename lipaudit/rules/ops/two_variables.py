"""Functions of two tensors, entry by entry, whose gradient is bounded although each part is no norm by itself.

With |grad f| <= k the mean value theorem gives |f(a, b) - f(a', b')|^2 <= k^2 (|a - a'|^2 + |b - b'|^2), so that the constants
join as the root of the sum of squares. Operands that are broadcast count once per copy.
"""

from __future__ import annotations

import math

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Combination, Effect, Settings
from lipaudit.rules.interval_facets import NOT_NEGATIVE, always
from lipaudit.rules.operands import constant, count_refs, interval_of_operand, repeats, root, rounded, stretch
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii, joined
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import PI, Interval

HYPOT = operations(*aten("hypot"))
LOGADDEXP = operations(*aten("logaddexp", "logaddexp2"))
ATAN2 = operations(*aten("atan2"))


def _each(node: Node, factor: Bracket) -> Effect:
    copies = {key: factor * root(repeats(node[key], node.output)) for key in ("self", "other")}
    return stretch(node, copies, Combination.ROOT_SUM_SQUARES)


@(HYPOT | LOGADDEXP).constant(
    formula="1 each, times sqrt(copies by broadcasting); root of the sum of squares",
    source="the gradient is (a, b) / sqrt(a^2 + b^2), or a softmax of (a, b): of norm 1 at most",
)
def hypot(node: Node, _settings: Settings) -> Effect:
    """sqrt(a^2 + b^2), log(exp(a) + exp(b)) and log2(2^a + 2^b)."""
    if any(not count_refs(node[key]) and constant(node, key) is None for key in ("self", "other")):
        return Effect.unsupported(f"{node.op.split('.')[1]} of what is neither data-dependent nor a real constant")
    return _each(node, Bracket.exact(1.0))


@(HYPOT | LOGADDEXP).radii
def joint_deviations(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """An entry strays by the root of the sum of squares of what its operands do."""
    return (joined(node.output.shape, [(Bracket.exact(1.0), m.radii) for m in operands], power=2),)


HYPOT.interval(always(NOT_NEGATIVE))


@LOGADDEXP.interval
def above_the_larger(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """From the larger operand to that plus log(2), or 1 for powers of two."""
    left, right = (interval_of_operand(node, key, intervals) for key in ("self", "other"))
    return left.maximum(right) + Interval(
        0.0, 1.0 if node.op.startswith("aten.logaddexp2") else Interval.point(2.0).log().high
    )


@ATAN2.constant(
    formula="unbounded; 1 / m where b >= m > 0 everywhere",
    source="the gradient of the angle of (b, a) has the norm 1 / sqrt(a^2 + b^2); it jumps where b < 0 and a changes its sign",
    where_bounded=True,
)
def atan2(node: Node, _settings: Settings) -> Effect:
    """The angle of the point (other, self), away from the half-line on which it jumps."""

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        least = interval_of_operand(node, "other", tuple(m.interval for m in operands)).low
        if least <= 0 or least == math.inf:
            return Effect.unbounded("an angle of points that may come close to the half-line on which it jumps")
        return _each(node, rounded(1 / least))

    return Effect.where_bounded("the angle of a point jumps by 2 pi and turns without bound near 0", given)


ATAN2.interval(always(PI.union(-PI)))
