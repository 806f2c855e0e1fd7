"""Intervals in arrays hold what 50-digit arithmetic finds in them, and are hardly wider."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import flint
import pytest
import torch

from lipaudit.spectral import interval_arrays as arrays

EXACT: dict[str, Callable[[flint.arb], flint.arb]] = {
    "exp": lambda x: x.exp(),
    "log": lambda x: x.log(),
    "sigmoid": lambda x: 1 / (1 + (-x).exp()),
    "softplus": lambda x: (1 + x.exp()).log(),
    "erf": lambda x: x.erf(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "atan": lambda x: x.atan(),
    "asinh": lambda x: x.asinh(),
    "absolute": abs,
}


def points(positive: bool) -> list[float]:
    generator = random.Random(3)
    found = [generator.uniform(-1, 1) * 10 ** generator.uniform(-8, 2.4) for _ in range(300)]
    found += [0.0, 1.0, -1.0, math.pi, math.pi / 2, -math.pi, 1e-300, 37.5]
    return sorted({abs(x) for x in found if x} if positive else set(found))


@pytest.fixture(autouse=True)
def digits() -> None:
    flint.ctx.dps = 250


def holds(low: float, high: float, value: flint.arb) -> bool:
    """Whether 250 digits do not refute it."""
    return not bool(flint.arb(low) > value) and not bool(value > flint.arb(high))


@pytest.mark.parametrize("name", EXACT)
def test_functions_at_points_and_on_intervals(name: str) -> None:
    x = points(positive=name == "log")
    exact = [EXACT[name](flint.arb(v)) for v in x]
    line = torch.tensor(x, dtype=torch.float64)
    found = getattr(arrays, name)(arrays.of(line, line))
    for v, low, high, value in zip(x, *found.tolist(), exact, strict=True):
        assert holds(low, high, value), v
        assert high - low <= 1e-13 * max(abs(high), 1e-1 if name in ("sin", "cos") else 0) + 1e-300, v
    wide = getattr(arrays, name)(arrays.of(line[:-3], line[3:]))
    for i, (low, high) in enumerate(wide.T.tolist()):
        assert all(holds(low, high, value) for value in exact[i : i + 4]), x[i]


@pytest.mark.parametrize("exponent", [2, 3, 4, -1, -2, -3, "1/2", "-1/2", "3/2", "0.3", "-1.7"])
def test_powers(exponent: int | str) -> None:
    p = Fraction(exponent)
    x = points(positive=p.denominator != 1)
    x = [v for v in x if abs(v) > 1e-60 and (v or p > 0)]
    line = torch.tensor(x, dtype=torch.float64)
    exact = [flint.arb(v) ** flint.arb(flint.fmpq(p.numerator, p.denominator)) for v in x]
    found = arrays.power(arrays.of(line, line), p)
    for low, high, value in zip(*found.tolist(), exact, strict=True):
        assert holds(low, high, value)
        assert high - low <= 1e-10 * abs(high)
    wide = arrays.power(arrays.of(line[:-2], line[2:]), p)
    for i, (low, high) in enumerate(wide.T.tolist()):
        assert all(holds(low, high, value) for value in exact[i : i + 3])


def test_products_and_sums() -> None:
    generator = random.Random(5)
    ends = [sorted(generator.uniform(-1, 1) * 10 ** generator.uniform(-170, 3) for _ in range(2)) for _ in range(400)]
    a, b = (torch.tensor(part, dtype=torch.float64).T for part in (ends[:200], ends[200:]))
    product, total = arrays.times(a, b), arrays.linear((0.1, 0.1), [((-3.0, -3.0), a), ((1 / 3, 1 / 3), b)])
    for i in range(200):
        for x in map(Fraction, a[:, i].tolist()):
            for y in map(Fraction, b[:, i].tolist()):
                assert Fraction(float(product[0, i])) <= x * y <= Fraction(float(product[1, i]))
                value = Fraction(0.1) - 3 * x + Fraction(1 / 3) * y
                assert Fraction(float(total[0, i])) <= value <= Fraction(float(total[1, i]))


def test_where_nothing_is_known() -> None:
    x = arrays.of(torch.tensor([-1.0, -1.0, 0.0]), torch.tensor([2.0, math.inf, math.inf])).double()
    assert arrays.log(x)[:, :2].tolist() == [[-math.inf] * 2, [math.inf] * 2]
    assert arrays.power(x, Fraction(-1))[:, 0].tolist() == [-math.inf, math.inf]
    assert arrays.power(x, Fraction(1, 2))[:, 0].tolist() == [-math.inf, math.inf]
    assert arrays.sin(x)[:, 1].tolist() == [-1.0, 1.0]
    assert arrays.times(x, 0 * x.nan_to_num(posinf=1.0))[:, 1].tolist() == [0.0, 0.0]
