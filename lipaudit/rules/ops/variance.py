"""Variances of slices, a quadratic form: var(x) = ||P x||^2 / (m - correction), P removing the mean of m entries.

Its gradient is 2 P x / (m - correction). Three bounds of ||P x|| follow from what is known of x, and the least counts: ||x||;
||P c|| + ||x - c|| for a centre c; and sqrt(m) (high - low) / 2 where every entry lies in [low, high] (Popoviciu 1935).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.interval_facets import NOT_NEGATIVE, always
from lipaudit.rules.movement import Movement, Neighbourhood
from lipaudit.rules.operands import data, root, rounded
from lipaudit.rules.ops.reduction import degrees_lost, reduced_axes
from lipaudit.rules.reduction_movement import slices, variance_movement
from lipaudit.rules.region.magnitude import Magnitude, computed_size
from lipaudit.rules.region.radii import axes_of
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.interval import Interval

VARIANCE = operations(*aten("var", "var.dim", "var.correction"))
VARIANCE_AND_MEAN = operations(*aten("var_mean", "var_mean.dim", "var_mean.correction"))


def centred_size(operand: Magnitude, axes: Iterable[int]) -> Bracket:
    """A bound of ||P v_T|| over all slices over the axes T, P removing the mean of the slice."""
    chosen = axes_of(axes, len(operand.shape))
    bounds = [operand.size(chosen)]
    radius = operand.spread_from_computed(chosen)
    if radius.log_upper < math.inf and operand.centre is not None and operand.centre.numel() and chosen:
        deviations = operand.centre - operand.centre.mean(sorted(chosen), keepdim=True)
        bounds.append(Bracket.sum([radius, computed_size(deviations, chosen)]))
    half = (operand.interval.high - operand.interval.low) / 2
    if half < math.inf:
        count = math.prod(operand.shape[axis] for axis in chosen)
        bounds.append(Bracket.at_most(half * (1 + 2.0**-50), Rigor.NUMERICAL) * root(count))
    return min(bounds, key=lambda bound: bound.log_upper)


@(VARIANCE | VARIANCE_AND_MEAN).constant(
    formula="unbounded; 2 ||P x|| / (m - correction) where the m entries are bounded, P removing their mean",
    source="a quadratic form; its gradient is 2 P x / (m - correction)",
    where_bounded=True,
)
def variance(node: Node, _settings: Settings) -> Effect:
    """The variance is quadratic: its gradient grows with the input."""
    shape = data(node, "self").shape
    axes = reduced_axes(node, len(shape))
    count = math.prod(shape[a] for a in axes)
    correction = degrees_lost(node)
    if count <= correction:
        return Effect.unsupported(f"a variance over {count} entries with correction {correction:g} is not defined")

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        gradient = centred_size(operands[0], axes) * rounded(2 / (count - correction))
        if "var_mean" in node.op:  # both outputs, each with its own constant; the mean has 1 / sqrt(m)
            gradient = Bracket.maximum([gradient, rounded(1 / math.sqrt(count))])
        return Effect.stretch(gradient)

    return Effect.where_bounded(
        "a variance is quadratic in its input; the standard deviation would have a finite constant", given
    )


@VARIANCE.movement
def variances_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """Variances of slices."""
    axes = reduced_axes(node, operands[0].centre.dim())
    degrees = math.prod(operands[0].centre.shape[a] for a in axes) - degrees_lost(node)
    return variance_movement(slices(operands[0], axes), node.output.shape, degrees) if degrees > 0 else None


VARIANCE.interval(always(NOT_NEGATIVE))


@VARIANCE_AND_MEAN.interval
def variance_and_mean(_node: Node, intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """The mean lies among the entries."""
    return NOT_NEGATIVE, intervals[0]
