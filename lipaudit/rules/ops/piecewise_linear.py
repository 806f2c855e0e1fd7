"""Piecewise linear functions of each entry: clamps, leaky and parametric ReLUs, shrinkages, thresholds."""

from __future__ import annotations

import torch

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.interval_facets import ZERO
from lipaudit.rules.movement import Move, Movement, Neighbourhood
from lipaudit.rules.operands import (
    along_channels,
    constant,
    enclosed,
    interval_of_number,
    interval_of_operand,
    is_finite,
    largest,
    number,
    stretch,
)
from lipaudit.rules.ops.activation import SLOPE
from lipaudit.rules.rule import operations
from lipaudit.spectral.interval import Interval

LEAKY_RELU = operations(*aten("leaky_relu"))
RRELU = operations(*aten("rrelu"))
PRELU = operations(*aten("prelu"))
CLAMP = operations(*aten("clamp"))
SOFTSHRINK = operations(*aten("softshrink"))
HARDSHRINK = operations(*aten("hardshrink"))
THRESHOLD = operations(*aten("threshold"))


def _leaky(x: Interval, slope: Interval) -> Interval:
    """x for x > 0, slope x otherwise."""
    return x.maximum(0.0) + slope * x.minimum(0.0)


@LEAKY_RELU.constant(formula="max(1, |negative_slope|)", source=SLOPE, exact=True, entrywise=True)
def leaky_relu(node: Node, _settings: Settings) -> Effect:
    """x for x > 0, negative_slope x otherwise."""
    return stretch(node, {"self": max(1.0, abs(number(node, "negative_slope")))})


@LEAKY_RELU.interval
def leaky_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The values on both sides of 0."""
    return _leaky(intervals[0], Interval.point(number(node, "negative_slope")))


@RRELU.constant(formula="max(1, |lower + upper| / 2)", source=SLOPE, exact=True, entrywise=True)
def rrelu(node: Node, _settings: Settings) -> Effect:
    """In eval mode a leaky ReLU with the mean of the two slopes."""
    if node["training"]:
        return Effect.unsupported("rrelu in training mode is random; audit the network in eval mode")
    slope = abs(Interval.point(number(node, "lower")) + number(node, "upper")) / 2.0
    return stretch(node, {"self": enclosed(slope.maximum(1.0))})


@RRELU.interval
def mean_leaky_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The values on both sides of 0."""
    if node["training"]:
        return Interval()
    return _leaky(intervals[0], (Interval.point(number(node, "lower")) + number(node, "upper")) / 2.0)


@PRELU.constant(formula="max(1, max|weight|)", source=SLOPE, exact=True, entrywise=True)
def prelu(node: Node, _settings: Settings) -> Effect:
    """A leaky ReLU whose slopes are weights, one per channel or one for all."""
    weight = constant(node, "weight")
    if weight is None:
        return Effect.unbounded(
            "prelu multiplies its input by a data-dependent weight: no finite constant holds over all inputs"
        )
    if not is_finite(weight):
        return Effect.unsupported("the weight of prelu holds NaN or infinity")
    return stretch(node, {"self": max(1.0, largest(weight))})


@PRELU.interval
def parametric_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The values on both sides of 0, for all of the weights."""
    return _leaky(intervals[0], interval_of_operand(node, "weight", intervals))


@PRELU.movement
def parametric_slopes_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """The slope of an entry that can be on both sides of 0 moves by |1 - w|, that of any other not at all.

    Where the centre is above 0, f(x) - f(c) - (x - c) = (w - 1) min(x, 0); else f(x) - f(c) - w (x - c) = (1 - w) max(x, 0).
    """
    weight = constant(node, "weight")
    if weight is None:
        return None
    (rows,) = operands
    slope = along_channels(weight.to(rows.centre), rows.centre.dim())
    low, high = rows.centre - rows.below, rows.centre + rows.above
    steepness = (1 - slope).expand(rows.centre.shape)
    move = Move(torch.where((low <= 0) & (high > 0), steepness.abs(), 0.0), ())
    excess = torch.where(rows.centre > 0, -steepness * low.clamp_max(0.0), steepness * high.clamp_min(0.0))
    return Movement((move,), (excess.clamp_max(0.0), excess.clamp_min(0.0)))


@CLAMP.constant(formula="1 (0 where the limits meet)", source=SLOPE, exact=True, entrywise=True)
def clamp(node: Node, _settings: Settings) -> Effect:
    """min(max(x, low), high); torch returns high everywhere where low > high."""
    low, high = node["min"], node["max"]
    constant_output = isinstance(low, int | float) and isinstance(high, int | float) and low >= high
    return stretch(node, {"self": 0.0 if constant_output else 1.0})


@CLAMP.interval
def clamped_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The interval, clamped."""
    low, high = node["min"], node["max"]
    image = intervals[0]
    if isinstance(low, int | float):
        image = image.maximum(interval_of_number(low))
    if isinstance(high, int | float):
        image = image.minimum(interval_of_number(high))
    return image


@SOFTSHRINK.constant(formula="1", source=SLOPE, exact=True, entrywise=True)
def softshrink(node: Node, _settings: Settings) -> Effect:
    """sign(x) max(|x| - lambda, 0)."""
    if number(node, "lambd") < 0:
        return Effect.unbounded("softshrink with a negative lambda jumps")
    return stretch(node, {"self": 1.0})


@SOFTSHRINK.interval
def softly_shrunk_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Rising for a lambda that is not negative."""
    limit, x = number(node, "lambd"), intervals[0]
    return (x - limit).maximum(0.0) + (x + limit).minimum(0.0) if limit >= 0 else Interval()


@HARDSHRINK.constant(formula="1 for lambda <= 0, else unbounded", source=SLOPE, exact=True, entrywise=True)
def hardshrink(node: Node, _settings: Settings) -> Effect:
    """x outside [-lambda, lambda], 0 inside: a jump of lambda at both ends."""
    if number(node, "lambd") > 0:
        return Effect.unbounded("hardshrink jumps at its threshold; softshrink does not")
    return stretch(node, {"self": 1.0})


@HARDSHRINK.interval
def hard_shrunk_entries(_node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of the input, and 0."""
    return intervals[0].union(ZERO)


@THRESHOLD.constant(formula="1 for value = threshold, else unbounded", source=SLOPE, exact=True, entrywise=True)
def threshold(node: Node, _settings: Settings) -> Effect:
    """x above the threshold, a fixed value below: continuous only where that value is the threshold."""
    if number(node, "threshold") != number(node, "value"):
        return Effect.unbounded("threshold jumps unless its value equals its threshold")
    return stretch(node, {"self": 1.0})


@THRESHOLD.interval
def entries_above(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries above the threshold, and the value."""
    return intervals[0].maximum(number(node, "threshold")).union(Interval.point(number(node, "value")))
