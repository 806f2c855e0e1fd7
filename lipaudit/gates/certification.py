"""A condition that a build puts on certified decisions: so many are right and certified at a radius."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from lipaudit.errors import InvalidValueError
from lipaudit.records.certification import Certification

MIN_CERTIFIED_ACCURACY = "min-certified-accuracy"


@dataclass(frozen=True)
class AccuracyGate:
    """The certified accuracy at ``radius`` is at least ``share``; ``text`` is how it was written."""

    share: float
    radius: float
    text: str


def parse_gate(text: str) -> AccuracyGate:
    """The gate in a text SHARE@RADIUS.

    >>> parse_gate("0.8@36/255").share, parse_gate("0.8@36/255").radius == 36 / 255
    (0.8, True)
    """
    share, at, radius = text.partition("@")
    try:
        numbers = float(Fraction(share)), parse_radius(radius)
    except (ValueError, ZeroDivisionError, OverflowError):
        numbers = -1.0, -1.0
    if not at or not 0 < numbers[0] <= 1 or not 0 < numbers[1] < math.inf:
        expected = "SHARE@RADIUS with a share up to 1 and a radius above 0, such as 0.8@36/255"
        raise InvalidValueError(f"--{MIN_CERTIFIED_ACCURACY}", expected, text)
    return AccuracyGate(*numbers, text)


def parse_radius(text: str) -> float:
    """A radius that may be written as a quotient; ValueError or ZeroDivisionError for what is no number.

    >>> parse_radius("36/255") == 36 / 255, parse_radius("0.5")
    (True, 0.5)
    """
    above, slash, below = text.partition("/")
    return float(above) / float(below) if slash else float(text)


def gate_problem(found: Certification, gate: AccuracyGate) -> str:
    """Why the accuracy is not shown to be as large as the gate asks; empty where it is."""
    if found.accuracy is None:
        return "no accuracy is known without labels"
    right = sum(image.radius >= gate.radius and bool(image.is_right) for image in found.images)
    share = right / len(found.images)
    if share >= gate.share:
        return ""
    shown = f"{share:.6g} ({right} of {len(found.images)} images)"
    return f"the certified accuracy at the radius {gate.radius:g} is {shown}, below {gate.share:g}"
