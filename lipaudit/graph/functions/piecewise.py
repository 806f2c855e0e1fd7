"""A function with branches as smooth pieces between joints, and what happens at the joints.

Branches are choices by the sign of a term: absolute values, maxima, steps. Where that term is affine in x on a piece, its zero is an
exact number, the joint, and on each side the choice is made. A choice by a term that keeps its sign on the piece is made, too. What is
left are absolute values and maxima of other terms, which are continuous.

At every joint the function has three values: from the left, at the joint, from the right. All computed from exact numbers, they are
either equal, or differ: a jump.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from lipaudit.graph.functions.differentiation import derivative
from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.ranges import defined_over, range_over
from lipaudit.graph.functions.substitution import replace_terms, value_at
from lipaudit.graph.functions.terms import NotElementaryError, Term
from lipaudit.spectral.interval import Interval

_MAX_JOINTS = 64


@dataclass(frozen=True)
class Piece:
    """A function on the open interval between two joints; None for an end at infinity."""

    low: Fraction | None
    high: Fraction | None
    root: int

    def floats(self) -> tuple[float, float]:
        """The smallest interval of floats that holds the piece."""
        low = -math.inf if self.low is None else Interval.of(self.low).low
        return low, math.inf if self.high is None else Interval.of(self.high).high


@dataclass(frozen=True)
class Step:
    """A jump by ``size`` at x = ``at``; ``small`` says that the floats in use cannot tell it from rounding."""

    at: Fraction
    size: float
    small: bool


class _SplitError(Exception):
    def __init__(self, at: Fraction) -> None:
        self.at = at


def pieces(tape: Tape, root: int, low: float = -math.inf, high: float = math.inf) -> list[Piece]:
    """The pieces of a function on the interval between two floats.

    Raises:
        NotElementaryError: where a step lies at a place that is not known exactly, or there are too many.
    """
    ends = [None if math.isinf(end) else Fraction(end) for end in (low, high)]
    waiting: list[tuple[Fraction | None, Fraction | None]] = [(ends[0], ends[1])]
    pieces: list[Piece] = []
    while waiting:
        left, right = waiting.pop()
        try:
            pieces.append(Piece(left, right, _resolved(tape, root, left, right)))
        except _SplitError as split:
            waiting += [(split.at, right), (left, split.at)]
        if len(pieces) + len(waiting) > _MAX_JOINTS:
            raise NotElementaryError("too many joints")
    return pieces


def _resolved(tape: Tape, root: int, low: Fraction | None, high: Fraction | None) -> int:
    """The function on an open interval, choices made."""

    def change(_number: int, term: Term) -> int | None:
        if term.kind not in ("absolute", "maximum", "step", "select"):
            return None
        chosen = tape.subtract(*term.reads) if term.kind == "maximum" else term.reads[0]
        sign = _sign(tape, chosen, low, high)
        if sign is None:
            if term.kind in ("step", "select"):
                raise NotElementaryError("a step at a place that is not known exactly")
            return None
        match term.kind:
            case "absolute":
                return tape.scale(sign or 1, chosen)
            case "maximum":
                return term.reads[0 if sign >= 0 else 1]
            case "select":
                return term.reads[1 if sign >= 0 else 2]
        return tape.constant(term.numbers[0] if sign == 0 else Fraction(sign > 0))

    return replace_terms(tape, root, change)


def _sign(tape: Tape, number: int, low: Fraction | None, high: Fraction | None) -> int | None:
    """The sign that a term has on an open interval; 0 where it vanishes everywhere, None where it is not known."""
    line = tape.affine(number)
    if line is None:
        return _curved_sign(tape, number, low, high)
    slope, shift = line
    if slope == 0:
        return (shift > 0) - (shift < 0)
    zero = -shift / slope
    if (low is None or low < zero) and (high is None or zero < high):
        raise _SplitError(zero)
    right = low is not None and zero <= low  # the interval lies to the right of the zero
    return 1 if (slope > 0) == right else -1


def _curved_sign(tape: Tape, number: int, low: Fraction | None, high: Fraction | None) -> int | None:
    """The sign of a term that is not affine: from its range, or of a monotone one from its value at an end."""
    try:
        if (
            (low is None or low < 0)
            and (high is None or high > 0)
            and tape.exact(value_at(tape, number, Fraction(0))) == 0
        ):
            raise _SplitError(Fraction(0))
        interval = Piece(low, high, number).floats()
        if not defined_over(tape, number, *interval):
            return None  # it may jump at a pole, and has no sign where it is not defined
        values = range_over(tape, number, *interval)
        if values.low > 0 or values.high < 0:
            return 1 if values.low > 0 else -1
        slope = range_over(tape, derivative(tape, number), *interval)
        for end, outward in ((low, -1), (high, 1)):
            rises = slope.low > 0 if outward < 0 else slope.high < 0  # going inward from this end
            falls = slope.high < 0 if outward < 0 else slope.low > 0
            if end is not None and (rises or falls):
                sign = tape.sign(value_at(tape, number, end))
                if rises and sign >= 0:
                    return 1
                if falls and sign <= 0:
                    return -1
    except NotElementaryError:
        pass
    return None


def steps(tape: Tape, root: int, parts: list[Piece], hidden: Fraction) -> list[Step]:
    """The jumps at the joints of a function, none where it is continuous; those up to ``hidden`` times the terms added up are small.

    Raises:
        NotElementaryError: where rounding hides whether there is one, or the function is not defined at a joint.
    """
    steps = []
    for left, right in pairwise(parts):
        at = left.high
        assert at is not None
        values = [value_at(tape, term, at) for term in (left.root, root, right.root)]
        gaps = [
            tape.subtract(a, b) for a, b in ((values[0], values[1]), (values[2], values[1]), (values[0], values[2]))
        ]
        size = max(max(map(abs, tape.terms[gap].numbers)) for gap in gaps)
        if size == 0:
            continue
        small = size <= hidden * _scale(tape, (left.root, right.root), at)
        if not small and all(min(tape.terms[gap].numbers) <= 0 <= max(tape.terms[gap].numbers) for gap in gaps):
            raise NotElementaryError("a joint that rounding hides")
        steps.append(Step(at, float(size), small))
    return steps


def _scale(tape: Tape, roots: Iterable[int], at: Fraction) -> Fraction:
    """The largest of the terms that a function adds up at a number, and of its value."""
    sizes = [Fraction(0)]
    for root in roots:
        shift, parts = tape.parts(root)
        sizes.append(abs(shift))
        for part, c in parts.items():
            sizes += [abs(c * n) for n in tape.terms[value_at(tape, part, at)].numbers]
    return max(sizes)
