"""What one number of a report is: how large, and what it is worth.

This is the only file that takes the decimal logarithm of a figure, and the only one that compares two figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

from lipaudit.spectral.bracket import Bracket, Rigor, round_down, round_up

CERTIFIED, NUMERICAL, ESTIMATE = (rigor.value for rigor in Rigor)
EMPIRICAL = "empirical"  # measured at some inputs: a lower bound of what happens over all of them
BOUNDS = (CERTIFIED, NUMERICAL)

_LOG10 = math.log(10)
_SMALLEST = 1e-300  # below it floats lose digits, and rounding up moves a bound by more than rounding


@dataclass(frozen=True)
class Figure:
    """A non-negative number: its decimal logarithm, what it is worth, and the number itself where that fits a float.

    Attributes:
        log10: the decimal logarithm, minus infinity for 0.
        rigor: ``certified`` or ``numerical`` (a bound, with or without a margin for rounding), ``estimate`` (no bound), or ``empirical``
            (a lower bound that was measured at some inputs).
        value: the number in plain units; None where it does not fit a float.

    Both numbers of a bound are rounded outward from the same bracket, so that each of them is a bound by itself: an upper bound of exactly
    1 has the value 1.0 and the logarithm 0.0. A number below the range of floats has a value that is rounded outward to a float,
    and only the logarithm says how small it is.

    >>> Figure.upper(Bracket.exact(1.0)), Figure.of(100.0).log10
    (Figure(log10=0.0, rigor='certified', value=1.0), 2.0)
    """

    log10: float
    rigor: str = CERTIFIED
    value: float | None = None

    @classmethod
    def upper(cls, bracket: Bracket) -> Figure:
        """The upper end of a bracket, rounded up; an estimate where that is the bracket's rigor."""
        if bracket.log_upper == -math.inf:
            return cls(-math.inf, bracket.rigor.value, 0.0)
        value = bracket.upper
        log10 = 0.0 if value == 1.0 else round_up(bracket.log_upper / _LOG10)
        return cls(log10, bracket.rigor.value, value if math.isfinite(value) else None)

    @classmethod
    def lower(cls, bracket: Bracket) -> Figure | None:
        """The lower end of a bracket, rounded down; None where no lower bound above 0 is known.

        The rigor of a bracket is that of its upper end. A lower end beside an estimate is ``numerical``.
        """
        rigor = NUMERICAL if bracket.rigor is Rigor.ESTIMATE else bracket.rigor.value
        if bracket.log_upper == -math.inf:
            return cls(-math.inf, rigor, 0.0)
        if bracket.log_lower == -math.inf:
            return None
        value = bracket.lower
        return cls(0.0 if value == 1.0 else round_down(bracket.log_lower / _LOG10), rigor, value)

    @classmethod
    def estimate(cls, log: float) -> Figure:
        """An estimate from its natural logarithm, to the nearest."""
        if log == -math.inf:
            return cls(log, ESTIMATE, 0.0)
        return cls(log / _LOG10, ESTIMATE, math.exp(log) if log < 709 else None)

    @classmethod
    def of(cls, value: float, rigor: str = CERTIFIED, upwards: bool = True) -> Figure:
        """A figure given in plain units; its logarithm is rounded up, or down where it is a lower bound."""
        return cls(_log10(value, upwards), rigor, value)

    @property
    def is_bound(self) -> bool:
        """Whether a theorem stands behind the figure: it is certified or numerical."""
        return self.rigor in BOUNDS

    @property
    def is_exact(self) -> bool:
        """Whether the plain value has all its digits: there is one, and it is not rounded to the smallest floats."""
        return self.value is not None and self.value >= _SMALLEST

    def is_above(self, other: Figure, times: float = 1.0) -> bool:
        """Whether this figure is more than ``times`` as large as another one, ``times`` > 0.

        Without rounding where both plain values have all their digits, else by the logarithms.

        >>> Figure.of(3.0).is_above(Figure.of(2.0)), Figure.of(3.0).is_above(Figure.of(2.0), times=1.5)
        (True, False)
        """
        if self.is_exact and other.is_exact:
            return Fraction(self.value or 0) > Fraction(times) * Fraction(other.value or 0)
        return self.log10 > other.log10 + math.log10(times)

    def exceeds(self, limit: float) -> bool:
        """Whether the figure is not shown to be at most a plain number.

        >>> Figure.of(2.0).exceeds(2.0), Figure(400.0).exceeds(1e300)
        (False, True)
        """
        if self.value is not None:
            return self.value > limit
        with localcontext(prec=50):  # a number that fits no float
            return Decimal(10) ** Decimal(self.log10) > Decimal(limit)


class WithFigure:
    """What records have in common whose one figure is an upper bound or an estimate; none of the numbers where there is no figure."""

    figure: Figure | None

    @property
    def rigor(self) -> str | None:
        """What the figure is worth: ``certified``, ``numerical`` or ``estimate``."""
        return None if self.figure is None else self.figure.rigor

    @property
    def log10(self) -> float:
        """The decimal logarithm of the figure, a bound or an estimate; minus infinity for 0 and where there is no figure."""
        return -math.inf if self.figure is None else self.figure.log10

    @property
    def has_bound(self) -> bool:
        """Whether there is a proven upper bound; an estimate is none."""
        return self.figure is not None and self.figure.is_bound

    @property
    def upper_bound(self) -> float | None:
        """The upper bound in plain units; None where it does not fit a float, or there is none."""
        return value_of(_bound(self.figure))

    @property
    def log10_upper_bound(self) -> float | None:
        """The decimal logarithm of the upper bound; None where the bound is 0, or there is none."""
        return log10_of(_bound(self.figure))

    @property
    def estimate(self) -> float | None:
        """The estimate in plain units; None where it does not fit a float, or there is none."""
        return value_of(_estimate(self.figure))

    @property
    def log10_estimate(self) -> float | None:
        """The decimal logarithm of the estimate; None where the estimate is 0, or there is none."""
        return log10_of(_estimate(self.figure))


class WithPixelFigure(WithFigure):
    """The same with a second figure, with respect to pixels in [0, 1]."""

    pixel_figure: Figure | None

    @property
    def pixel_upper_bound(self) -> float | None:
        """The upper bound with respect to pixels."""
        return value_of(_bound(self.pixel_figure))

    @property
    def pixel_log10_upper_bound(self) -> float | None:
        """Its decimal logarithm."""
        return log10_of(_bound(self.pixel_figure))

    @property
    def pixel_estimate(self) -> float | None:
        """The estimate with respect to pixels."""
        return value_of(_estimate(self.pixel_figure))

    @property
    def pixel_log10_estimate(self) -> float | None:
        """Its decimal logarithm."""
        return log10_of(_estimate(self.pixel_figure))


def value_of(figure: Figure | None) -> float | None:
    """The plain value of a figure; None where there is no figure, or its value fits no float."""
    return None if figure is None else figure.value


def log10_of(figure: Figure | None) -> float | None:
    """The decimal logarithm of a figure as JSON has it: None where there is no figure, or it is 0."""
    return None if figure is None or figure.log10 == -math.inf else figure.log10


def log10_of_plain(value: float | None, log10: float | None) -> float | None:
    """The decimal logarithm of a number given plainly, as a logarithm or both: minus infinity for 0, None where it is not known.

    >>> log10_of_plain(None, 412.0), log10_of_plain(100.0, None), log10_of_plain(0.0, None)
    (412.0, 2.0, -inf)
    """
    if log10 is not None or value is None:
        return log10
    return math.log10(value) if value > 0 else -math.inf


def _bound(figure: Figure | None) -> Figure | None:
    return None if figure is None or figure.rigor == ESTIMATE else figure


def _estimate(figure: Figure | None) -> Figure | None:
    return None if figure is None or figure.rigor != ESTIMATE else figure


def _log10(value: float, upwards: bool) -> float:
    """The decimal logarithm of a plain number, rounded outward unless it is a whole number; minus infinity for 0."""
    if value <= 0:
        return -math.inf
    log10 = math.log10(value)
    if 0 <= log10 <= 22 and log10.is_integer() and 10.0**log10 == value:  # powers of ten up to 10^22 are floats
        return log10
    return round_up(log10) if upwards else round_down(log10)
