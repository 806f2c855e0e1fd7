"""Norms and means of powers, as the graph recognises them."""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.graph.passes.power_means import POWER_MEAN, PowerMean
from lipaudit.rules.effect import Combination, Effect, Settings
from lipaudit.rules.rule import ranged, rule
from lipaudit.spectral.interval import Interval


@rule(
    POWER_MEAN,
    formula="max_i sqrt(sum_j A_ji^(2/p)) for (A |u|^p + e)^(1/p), A >= 0, e >= 0, p >= 2; root of the sum of squares",
    source="reverse triangle inequality of weighted p-norms (Minkowski), row by row",
)  # fmt: skip
def power_mean(node: Node, _settings: Settings) -> Effect:
    """A norm or a mean of powers that arrived written out: one operand, or several whose squares add up."""
    payload: PowerMean = node.payload
    note = f"written out: a {payload.order:g}-norm"
    return Effect.stretch(*payload.factors, combination=Combination.ROOT_SUM_SQUARES, note=note)


@ranged(POWER_MEAN)
def not_negative(_node: Node, _intervals: tuple[Interval, ...]) -> Interval:
    """A norm is not negative."""
    return Interval(0.0)
