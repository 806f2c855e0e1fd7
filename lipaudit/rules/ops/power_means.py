"""Norms and means of powers, as the graph recognises them."""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.graph.passes.power_means import POWER_MEAN, PowerMean
from lipaudit.rules.effect import Combination, Effect, Settings
from lipaudit.rules.interval_facets import NOT_NEGATIVE, always
from lipaudit.rules.movement import Movement, Neighbourhood
from lipaudit.rules.reduction_movement import power_mean_movement
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Rigor

MEAN = operations(POWER_MEAN)


@MEAN.constant(
    formula="max_i sqrt(sum_j A_ji^(2/p)) for (A |u|^p + e)^(1/p), A >= 0, e >= 0, p >= 2; root of the sum of squares",
    source="reverse triangle inequality of weighted p-norms (Minkowski), row by row",
)
def power_mean(node: Node, _settings: Settings) -> Effect:
    """A norm or a mean of powers that arrived written out: one operand, or several whose squares add up."""
    payload: PowerMean = node.payload
    note = f"written out: a {payload.order:g}-norm"
    return Effect.stretch(*payload.factors, combination=Combination.ROOT_SUM_SQUARES, note=note)


MEAN.interval(always(NOT_NEGATIVE))


@MEAN.movement
def power_means_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """Roots of weighted sums of squares; certified factors are those of exponents that are exactly reciprocal."""
    payload: PowerMean = node.payload
    if payload.order != 2 or any(factor.rigor is not Rigor.CERTIFIED for factor in payload.factors):
        return None
    return power_mean_movement(payload.evaluate, operands, tuple(factor.upper for factor in payload.factors))
