"""Cells of figures: a bound rounded up, an estimate to the nearest with ``~``, an error that is no more than rounding with ``*``."""

from __future__ import annotations

import math

from lipaudit.experiments.harness.result import Shown
from lipaudit.spectral.bracket import Rigor
from lipaudit.text.numbers import estimate_text, upper_text

LEGEND = "~ marks estimates; other figures are upper bounds and rounded up"


def figure_cell(value: float, rigor: Rigor) -> Shown:
    """A method's figure, or its excess over something, in four digits that keep what the rigor promises.

    >>> figure_cell(2.38251, Rigor.CERTIFIED).text, figure_cell(2.38251, Rigor.ESTIMATE).text
    ('2.383', '~2.383')
    >>> figure_cell(2.3821, Rigor.NUMERICAL).text, figure_cell(2.3821, Rigor.ESTIMATE).text
    ('2.383', '~2.382')
    """
    estimate = rigor is Rigor.ESTIMATE
    if not math.isfinite(value):
        return Shown(value, f"{'~' if estimate else ''}{value}")
    return Shown(value, estimate_text(value, None) if estimate else upper_text(value))


def error_cell(error: float, allowance: float) -> Shown:
    """An error, marked where its size is within what rounding may do.

    >>> error_cell(-4.77e-7, 1e-6).text, error_cell(0.25, 1e-6).text
    ('-4.77e-07*', '0.25')
    """
    return Shown(error, f"{error:.4g}{'*' if abs(error) <= allowance else ''}")
