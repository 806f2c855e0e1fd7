"""The supremum of |slope| of written-out activations against dense scans, root finding and 40-digit arithmetic."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from lipaudit.graph.functions.normal_form import Expression, Inner
from lipaudit.graph.functions.normal_form_slope import _CUBIC, _CUBIC_G, _CUBIC_SLOPE, _RANGES, slope_bound
from lipaudit.spectral.bracket import Bracket

SMOOTH: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "tanh_softplus": lambda t: torch.tanh(-torch.nn.functional.logsigmoid(-t)),
}
PRECISE = {
    "sigmoid": lambda t: 1 / (1 + mpmath.exp(-t)),
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "tanh_softplus": lambda t: mpmath.tanh(mpmath.log(1 + mpmath.exp(t))),
}
K = math.sqrt(2 / math.pi)


def normal_form(inner: Inner, c1: float, c2: float, c3: float = 0.0) -> Expression:
    terms = {(1, 0): c1, (1, 1): c2, (0, 1): c3}
    return Expression({powers: Fraction(c) for powers, c in terms.items() if c}, inner)


def inner(function: str, *coefficients: float, low: float = -math.inf, high: float = math.inf) -> Inner:
    limits = [limit if math.isinf(limit) else Fraction(limit) for limit in (low, high)]
    padded = (*coefficients, 0, 0, 0, 0)[:4]
    return Inner(function, tuple(Fraction(c) for c in padded), *limits)


def steepest(phi: Callable[[torch.Tensor], torch.Tensor], points: np.ndarray) -> float:
    """Largest |phi'| found: at the points, then by a bounded search around the best of them."""

    def slope(x: np.ndarray) -> np.ndarray:
        t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(phi(t).sum(), t)
        return gradient.abs().numpy()

    values = slope(points)
    best = int(values.argmax())
    around = points[max(0, best - 1)], points[min(len(points) - 1, best + 1)]
    refined = minimize_scalar(lambda x: -float(slope(np.array([x]))[0]), bounds=around, method="bounded")
    return max(float(values[best]), -float(refined.fun))


def check(bound: Bracket | None, found: float, attained: bool = True) -> None:
    assert bound is not None
    assert found <= bound.upper * (1 + 1e-12)
    assert bound.lower <= found * (1 + 1e-6)
    assert not attained or found >= bound.upper / 1.001


@pytest.mark.parametrize("function", _RANGES)
def test_ranges_to_forty_digits(function: str) -> None:
    h, stored = PRECISE[function], _RANGES[function]
    with mpmath.workdps(40):

        def m(t: mpmath.mpf) -> mpmath.mpf:
            return h(t) + t * mpmath.diff(h, t)

        points = [mpmath.mpf(i) / 10 for i in range(-100, 101)]
        for value, f, pick in (
            (stored.low, m, min),
            (stored.high, m, max),
            (stored.steepest, lambda t: mpmath.diff(h, t), max),
        ):
            start = pick(points, key=f)
            exact = f(mpmath.findroot(lambda t, f=f: mpmath.diff(f, t), start))
            assert math.nextafter(value, -math.inf) < exact < math.nextafter(value, math.inf)


@pytest.mark.parametrize("function", _RANGES)
def test_smooth_functions(function: str) -> None:
    generator = random.Random(function)
    h = SMOOTH[function]
    t = np.linspace(-30, 30, 20001)
    for trial in range(40):
        c1, c2, k, c3, d = (generator.gauss(0, 1) * 10 ** generator.uniform(-2, 2) for _ in range(5))
        d, c3 = ((0, 0), (d, c2 * d / k), (0, c3), (d, c3))[trial % 4]
        bound = slope_bound(normal_form(inner(function, d, k), c1, c2, c3))
        found = steepest(
            lambda x, c1=c1, c2=c2, c3=c3, d=d, k=k: c1 * x + (c2 * x + c3) * h(k * x + d), np.sort((t - d) / k)
        )
        check(bound, found, attained=trial % 4 < 2)


def test_clamps_are_exact() -> None:
    generator = random.Random(7)
    for _ in range(80):
        c1, c2, c3, k, d, low = (generator.gauss(0, 1) * 10 ** generator.uniform(-1, 1) for _ in range(6))
        high = low + 10 ** generator.uniform(-1, 1)
        bound = slope_bound(normal_form(inner("clamp", d, k, low=low, high=high), c1, c2, c3))
        knots = (np.array([low, high]) - d) / k
        points = np.sort(
            np.concatenate([*(knots + s * 1e-9 for s in (-1, 1)), knots.mean() + np.array([-1e5, 0, 1e5])])
        )
        found = steepest(
            lambda x, c1=c1, c2=c2, c3=c3, d=d, k=k, low=low, high=high: (
                c1 * x + (c2 * x + c3) * torch.clamp(k * x + d, low, high)
            ),
            points,
        )
        check(bound, found)


def test_hardswish_is_three_halves() -> None:
    bound = slope_bound(normal_form(inner("clamp", 0.5, 0.125, low=0, high=1), 0, 1))  # x clamp(x / 8 + 1 / 2, 0, 1)
    assert bound is not None
    assert bound.value == 1.5


@pytest.mark.parametrize("error", [0.0, 1e-8, -1e-8, 4e-4, -4e-4, 9.9e-4, -9.9e-4])
@pytest.mark.parametrize(("c1", "c2", "sign"), [(0.5, 0.5, 1), (-2.0, 3.0, -1), (0.0, -1.0, 1)])
def test_tanh_of_a_cubic(error: float, c1: float, c2: float, sign: int) -> None:
    k, cube = sign * K, sign * K * 0.044715 * (1 + error)
    bound = slope_bound(normal_form(inner("tanh", 0, k, 0, cube), c1, c2))
    found = steepest(lambda x: c1 * x + c2 * x * torch.tanh(k * x + cube * x**3), np.linspace(-10, 10, 20001))
    check(bound, found)
    assert bound is not None
    assert bound.tightness <= 1 + 2 * (abs(error) + 1e-13)


def test_tanh_of_a_cubic_constants() -> None:
    with mpmath.workdps(40):

        def m(t: mpmath.mpf, g: mpmath.mpf) -> mpmath.mpf:
            q = t + g * t**3
            return mpmath.tanh(q) + (t + 3 * g * t**3) * mpmath.sech(q) ** 2

        g = mpmath.mpf("0.044715") * mpmath.pi / 2
        assert abs(mpmath.mpf(_CUBIC_G.numerator) / _CUBIC_G.denominator - g) < 1e-17
        top = mpmath.findroot(lambda t: mpmath.diff(lambda u: m(u, g), t), 1.13)
        assert abs(m(top, g) - _CUBIC) < 2**-52
    # |d m_g / d g| by differences of m over a grid of t and of g within 1 %
    t = np.linspace(0, 30, 30001)
    for factor in np.linspace(0.99, 1.01, 9):
        q = t + float(g) * factor * t**3
        derivative = (1 - np.tanh(q) ** 2) * (4 * t**3 - 2 * t**3 * (t + 3 * float(g) * factor * t**3) * np.tanh(q))
        assert np.abs(derivative).max() < _CUBIC_SLOPE
        assert np.abs(derivative).max() > 0.8


@pytest.mark.parametrize(
    "phi",
    [
        normal_form(inner("sigmoid", 0, 1), 1, 0, 1),  # no product
        normal_form(inner("sigmoid", 0, 0), 1, 1),  # a constant h
        normal_form(inner("sigmoid", 0, 1, 1), 0, 1),  # of a square
        normal_form(inner("sigmoid", 0, K, 0, K * 0.044715), 0.5, 0.5),  # of a cubic
        normal_form(inner("tanh", 0, K, 0, K * 0.0448), 0.5, 0.5),  # another cubic
        normal_form(inner("tanh", 0.1, K, 0, K * 0.044715), 0.5, 0.5),
        normal_form(inner("clamp", 0, 1, low=0), 0, 1),  # x relu(x) grows like x^2
        normal_form(inner("clamp", 0, 1, high=6), 0, 1),
        normal_form(inner("exp", 0, 1), 0, 1),
        normal_form(inner("softplus", 0, 1), 0, 1),
        Expression({(2, 0): Fraction(1)}),
        Expression({(2, 1): Fraction(1)}, inner("sigmoid", 0, 1)),
        Expression({(2, 0): Fraction(1), (1, 1): Fraction(1)}, inner("sigmoid", 0, 1)),
    ],
    ids=str,
)
def test_no_bound(phi: Expression) -> None:
    assert slope_bound(phi) is None
