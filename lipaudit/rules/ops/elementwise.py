"""Compositions of element-wise operations as one function of each entry: the constant is the supremum of its |slope|."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from lipaudit.graph.functions.largest_slope import Slopes
from lipaudit.graph.node import Node
from lipaudit.graph.passes.elementwise import ELEMENTWISE, Elementwise
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket, Rigor, log_down, log_up
from lipaudit.spectral.interval import Interval

FUNCTION = operations(ELEMENTWISE)


@FUNCTION.constant(
    formula="sup |g'| of the composed function g of one entry, over all numbers or the interval that holds every entry",
    source="interval branch and bound (Hansen and Walster); mean value theorem between continuous joints",
    two_sided=True,
    entrywise=True,
    where_bounded=True,
)
def elementwise(node: Node, _settings: Settings) -> Effect:
    """A function that arrived as element-wise operations of one tensor and constants."""
    payload: Elementwise = node.payload

    everywhere = payload.slopes()

    def within(interval: Interval) -> Bracket:
        slopes = payload.slopes(interval.low, interval.high)
        return Bracket.at_most(slopes.upper, Rigor.NUMERICAL if slopes.steps else Rigor.CERTIFIED)

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        bound = operands[0].least(within)
        if everywhere.upper <= bound.upper:
            return _effect(payload, everywhere)
        return Effect.stretch(bound, note=_note(payload, everywhere))

    return replace(_effect(payload, everywhere), given=given)


def _effect(payload: Elementwise, slopes: Slopes) -> Effect:
    if slopes.jumps:
        jump = slopes.jumps[0]
        return Effect.unbounded(
            f"the function ({payload.formula}) jumps by {jump.size:.3g} where its operand is {float(jump.at):.6g}"
        )
    if math.isinf(slopes.upper):
        grows = "grows beyond every bound" if slopes.grows else "has no bound that is known"
        return Effect.unbounded(f"the slope of the function ({payload.formula}) {grows}")
    rigor = Rigor.NUMERICAL if slopes.steps else Rigor.CERTIFIED
    return Effect.stretch(_bracket(slopes, rigor), note=_note(payload, slopes))


def _note(payload: Elementwise, slopes: Slopes) -> str:
    name = f"written out: {payload.formula}"
    if not slopes.steps:
        return name
    step, digits = slopes.steps[0], "float64" if payload.dtype == torch.float64 else "float32"
    return f"{name}; the step of {step.size:.1e} at {float(step.at):.6g} is below {digits} rounding"


def _bracket(slopes: Slopes, rigor: Rigor) -> Bracket:
    if slopes.lower == slopes.upper:
        return Bracket.exact(slopes.upper, rigor)
    return Bracket(log_down(slopes.lower), log_up(slopes.upper), rigor)


@FUNCTION.interval
def values(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The values of the function on the interval of its operand."""
    image = node.payload.values(intervals[0].low, intervals[0].high)
    return Interval(image.low, image.high)
