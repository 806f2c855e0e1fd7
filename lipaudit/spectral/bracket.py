"""Brackets: a lower and an upper bound of a non-negative constant, in the log domain.

Constants of deep networks multiply far beyond 1e308, so that every value is the natural logarithm of the constant;
``-inf`` is the constant 0 and ``+inf`` means that no finite bound exists. All arithmetic rounds outward (upper ends up,
lower ends down), so that a combination of certified brackets is certified.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

_INF = math.inf
# math.exp/log/log1p of the C library are accurate to one unit in the last place or better; four units cover an
# operation together with the arithmetic around it.
_ULPS = 4


class Rigor(StrEnum):
    """How much a figure may be trusted, from strongest to weakest."""

    CERTIFIED = "certified"  # a theorem of real arithmetic plus a margin for floating-point rounding
    NUMERICAL = "numerical"  # the theorem holds, rounding is not accounted for
    ESTIMATE = "estimate"  # no theorem: power iteration, sampling

    @staticmethod
    def weakest(rigors: Iterable[Rigor]) -> Rigor:
        """The weakest of several rigors (``certified`` for none): a figure is as good as its worst part."""
        order = list(Rigor)
        return max(rigors, key=order.index, default=Rigor.CERTIFIED)


def round_up(x: float, ulps: int = _ULPS) -> float:
    """The float ``ulps`` steps above ``x``."""
    for _ in range(ulps):
        x = math.nextafter(x, _INF)
    return x


def round_down(x: float, ulps: int = _ULPS) -> float:
    """The float ``ulps`` steps below ``x``."""
    for _ in range(ulps):
        x = math.nextafter(x, -_INF)
    return x


def log_up(x: float) -> float:
    """An upper bound of log(x) for x >= 0; log 0 = -inf."""
    return -_INF if x == 0 else round_up(math.log(x))


def log_down(x: float) -> float:
    """A lower bound of log(x) for x >= 0; log 0 = -inf."""
    return -_INF if x == 0 else round_down(math.log(x))


@dataclass(frozen=True, repr=False)
class Bracket:
    """``exp(log_lower) <= constant <= exp(log_upper)``; ``rigor`` says in which sense the upper end holds.

    >>> b = Bracket.exact(2.0) * Bracket.exact(3.0)
    >>> round(b.upper, 9), b.rigor.value
    (6.0, 'certified')
    """

    log_lower: float
    log_upper: float
    rigor: Rigor = Rigor.CERTIFIED
    ends: tuple[float, float] | None = field(
        default=None, compare=False
    )  # both ends in plain units where they are floats

    def __repr__(self) -> str:
        ends = (
            f"lower={self.lower:.10g}, upper={self.upper:.10g}"
            if self.log_upper < 700
            else f"log_lower={self.log_lower:.10g}, log_upper={self.log_upper:.10g}"
        )
        return f"Bracket({ends}, {self.rigor.value})"

    def __post_init__(self) -> None:
        if math.isnan(self.log_lower) or math.isnan(self.log_upper):
            raise ValueError("a bracket cannot hold NaN")

    @classmethod
    def exact(cls, value: float, rigor: Rigor = Rigor.CERTIFIED) -> Bracket:
        """The bracket of a constant known to the last bit (a float given in plain units)."""
        return cls.between(value, value, rigor)

    @classmethod
    def between(cls, lower: float, upper: float, rigor: Rigor = Rigor.CERTIFIED) -> Bracket:
        """The bracket of a constant between two floats (plain units), such as 1/6 between its neighbours.

        >>> sixth = Bracket.between(math.nextafter(1 / 6, 0), math.nextafter(1 / 6, 1))
        >>> sixth.lower < 1 / 6 < sixth.upper
        True
        """
        return cls(log_down(lower), log_up(upper), rigor, (lower, upper))

    @classmethod
    def at_most(cls, value: float, rigor: Rigor = Rigor.CERTIFIED) -> Bracket:
        """The bracket of a constant of which only an upper bound (plain units) is known."""
        return cls(-_INF, log_up(value), rigor)

    @property
    def value(self) -> float | None:
        """The constant itself where it is a known float."""
        return self.ends[0] if self.ends is not None and self.ends[0] == self.ends[1] else None

    @property
    def upper(self) -> float:
        """Upper end in plain units, rounded up; ``inf`` where it does not fit a float."""
        if self.ends is not None:
            return self.ends[1]
        if self.log_upper in (-_INF, 0.0):
            return math.exp(self.log_upper)
        try:
            return round_up(math.exp(self.log_upper))
        except OverflowError:
            return _INF

    @property
    def lower(self) -> float:
        """Lower end in plain units, rounded down, never negative."""
        if self.ends is not None:
            return self.ends[0]
        try:
            return max(0.0, round_down(math.exp(self.log_lower)))
        except OverflowError:
            return math.nextafter(_INF, 0.0)

    @property
    def tightness(self) -> float:
        """upper / lower, at least 1; ``inf`` where no lower bound is known."""
        if self.log_upper == -_INF or self.value is not None:
            return 1.0
        gap = self.log_upper - self.log_lower
        return _INF if gap > 700 else math.exp(gap)

    def __mul__(self, other: Bracket) -> Bracket:
        """The bracket of a product of two constants (0 times anything finite or not is 0; times 1 nothing is rounded)."""
        for one, factor in ((self, other), (other, self)):
            if one.value == 1 and one.rigor is Rigor.CERTIFIED:
                return factor
        return Bracket(
            _add_logs(self.log_lower, other.log_lower, up=False),
            _add_logs(self.log_upper, other.log_upper, up=True),
            Rigor.weakest((self.rigor, other.rigor)),
        )

    @staticmethod
    def sum(terms: Iterable[Bracket]) -> Bracket:
        """The bracket of a sum of constants."""
        return _power_sum(list(terms), 1)

    @staticmethod
    def root_sum_squares(terms: Iterable[Bracket]) -> Bracket:
        """The bracket of the root of the sum of squares of constants."""
        return _power_sum(list(terms), 2)

    @staticmethod
    def maximum(terms: Iterable[Bracket]) -> Bracket:
        """The bracket of the largest of several constants (0 for none)."""
        terms = list(terms)
        return Bracket(
            max((t.log_lower for t in terms), default=-_INF),
            max((t.log_upper for t in terms), default=-_INF),
            Rigor.weakest(t.rigor for t in terms),
        )


def _add_logs(a: float, b: float, up: bool) -> float:
    if -_INF in (a, b):
        return -_INF
    return round_up(a + b, 1) if up else round_down(a + b, 1)


def _power_sum(terms: list[Bracket], power: int) -> Bracket:
    if len(terms) == 1:
        return terms[0]

    def end(logs: list[float], up: bool) -> float:
        top = max(logs, default=-_INF)
        if math.isinf(top):
            return top
        rounding = round_up if up else round_down
        total = math.fsum(math.exp(power * (log - top)) for log in logs)
        # each exp is off by a few units, fsum by one; the total is at least 1
        total = total * (1 + 2**-50) if up else max(1.0, total * (1 - 2**-50))
        return rounding(top + rounding(math.log(total) / power))

    return Bracket(
        end([t.log_lower for t in terms], up=False),
        end([t.log_upper for t in terms], up=True),
        Rigor.weakest(t.rigor for t in terms),
    )
