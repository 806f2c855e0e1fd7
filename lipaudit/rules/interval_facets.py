"""Intervals of outputs that many operations share.

An interval holds every entry of a tensor, whatever the network's input is. Intervals say which divisors stay away from zero and which
gates are bounded. They are computed with outward rounding (:mod:`lipaudit.spectral.interval`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.from_aten import Translator
from lipaudit.graph.functions.ranges import defined_over, range_over
from lipaudit.graph.functions.terms import NotElementaryError
from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.rules.operands import interval_of_operand
from lipaudit.spectral.interval import Interval

NOT_NEGATIVE = Interval(0.0, math.inf)
ZERO = Interval.point(0.0)


def of_entries(function: Callable[[Interval], Interval]) -> Callable[[Node, tuple[Interval, ...]], Interval]:
    """The interval facet of an element-wise function, given its values on an interval."""
    return lambda _node, intervals: function(intervals[0])


def always(interval: Interval) -> Callable[[Node, tuple[Interval, ...]], Interval]:
    """The interval facet of an operation whose outputs lie in one interval, whatever its inputs are."""
    return lambda _node, _intervals: interval


def entries_of_input(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of the first argument, or means of them with weights that are not negative and add up to 1."""
    return interval_of_operand(node, next(iter(node.arguments)), intervals)


def entries_and_zeros(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of the first argument among zeros."""
    return entries_of_input(node, intervals).union(ZERO)


def entries_and_places(node: Node, intervals: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Entries of the first argument, and in every further output where they stand."""
    return (entries_of_input(node, intervals), *(Interval() for _ in node.outputs[1:]))


def range_of_program(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The values of an element-wise function of one tensor, by interval arithmetic of the terms that it consists of."""
    tape = Tape()
    variable = tape.variable()

    def term(argument: Argument) -> int:
        if isinstance(argument, Ref):
            return variable
        if not isinstance(argument, int | float) or not math.isfinite(argument):
            raise NotElementaryError("neither a tensor nor a number")
        return tape.constant(Fraction(argument))

    try:
        root = Translator(tape, term).term(node)
    except NotElementaryError:
        return Interval()
    low, high = intervals[0].low, intervals[0].high
    return range_over(tape, root, low, high) if defined_over(tape, root, low, high) else Interval()
