"""The suprema of activation_slopes, recomputed to 40 digits: each lies between its two floats, 4 units in the last place apart at most."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mpmath import diff, erf, exp, findroot, linspace, log, mp, mpf, pi, sqrt, tanh

from lipaudit.rules.ops import (
    activation_slopes,
)
from lipaudit.spectral.interval import Interval

mp.dps = 40


def silu(x: mpf) -> mpf:
    return x / (1 + exp(-x))


def gelu_erf(x: mpf) -> mpf:
    return x / 2 * (1 + erf(x / sqrt(2)))


def gelu_tanh(x: mpf) -> mpf:
    return x / 2 * (1 + tanh(sqrt(2 / pi) * (x + mpf("0.044715") * x**3)))


def mish(x: mpf) -> mpf:
    return x * tanh(log(1 + exp(x)))


def encloses(constant: Interval, true: mpf) -> None:
    assert mpf(constant.low) < true < mpf(constant.high) <= mpf(constant.low) * (1 + mpf(2) ** -50)


@pytest.mark.parametrize(
    ("function", "constant"),
    [
        (silu, activation_slopes.SILU),
        (gelu_erf, activation_slopes.GELU_ERF),
        (gelu_tanh, activation_slopes.GELU_TANH),
        (mish, activation_slopes.MISH),
    ],
)
def test_supremum_of_the_slope(function: Callable[[mpf], mpf], constant: Interval) -> None:
    grid = linspace(-8, 8, 321)
    steepest = max(grid, key=lambda x: abs(diff(function, x)))
    peak = findroot(lambda x: diff(function, x, 2), steepest)
    supremum = abs(diff(function, peak))
    assert all(abs(diff(function, x)) <= supremum for x in grid)
    encloses(constant, supremum)


def test_closed_forms() -> None:
    selu = mpf("1.0507009873554804934193349852946") * mpf("1.6732632423543772848170429916717")
    for exact, constant in ((selu, activation_slopes.SELU), (2 / sqrt(pi), activation_slopes.ERF)):
        encloses(constant, exact)
