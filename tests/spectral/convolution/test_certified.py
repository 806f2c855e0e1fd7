"""Certified means certified: convolution norms against 400-bit references of their written-out operators.

Weights are multiples of 2^-18, so that entries in which copies of a pixel meet are exact sums, and are then scaled by powers
of two from 1e-30 to 1e30.
"""

from __future__ import annotations

import math
import random

import pytest
import torch

from tests.spectral.geometries import MODES, WEIGHTS, Case
from tests.spectral.reference import check_bracket, log_spectral_norm

LARGEST_SIDE = 10
_SIZES = {1: 7, 2: 3, 3: 2}


def _draw(rng: random.Random) -> Case:
    d = rng.choice([1, 1, 2, 2, 3])
    transposed = rng.random() < 0.25
    groups = rng.choice([1, 1, 1, 2])

    def axes(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.randint(low, high) for _ in range(d))

    stride, dilation = axes(1, 3), axes(1, 2)
    output_padding = tuple(rng.randrange(max(s, e)) for s, e in zip(stride, dilation, strict=True))
    return Case(
        channels=(groups * rng.randint(1, 2), groups * rng.randint(1, 2)),
        kernel_size=axes(1, 3),
        input_size=axes(1, _SIZES[d]),
        stride=stride,
        padding=axes(0, 2),
        dilation=dilation,
        groups=groups,
        padding_mode="zeros" if transposed else rng.choice(MODES),
        transposed=transposed,
        output_padding=output_padding if transposed else (),
        weights=rng.choice([w for w in WEIGHTS if w != "wide range"]),
        seed=rng.randrange(2**31),
    )


def _check(seed: int, count: int) -> int:
    rng = random.Random(seed)
    checked = 0
    while checked < count:
        case = _draw(rng)
        kernel = (case.kernel() * 2.0**18).round() / 2.0**18
        try:
            operator = case.operator(kernel)
        except (RuntimeError, ValueError):
            continue
        if min(operator.shape) > LARGEST_SIDE:
            continue
        scale = 2.0 ** rng.choice([0, 0, -100, 100])
        tol = rng.choice([1e-3, 1e-6])
        bracket = case.norm(kernel * scale, tol)
        assert bracket == case.norm((kernel * scale).float(), tol)
        assert not math.isnan(bracket.upper)
        if not bool(operator.any()):
            assert bracket.upper == 0
        else:
            check_bracket(bracket, log_spectral_norm(operator * scale))
        checked += 1
    return checked


@pytest.mark.parametrize("seed", range(4))
def test_convolutions_against_400_bits(seed: int) -> None:
    assert _check(seed, 15) == 15


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_five_thousand_convolutions_against_400_bits(seed: int) -> None:
    assert _check(seed, 500) == 500


@pytest.mark.parametrize("mode", MODES)
def test_the_same_numbers_in_any_dtype_give_the_same_bracket(mode: str) -> None:
    kernel = torch.randn(2, 3, 3, 3, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    case = Case((3, 2), (3, 3), (5, 4), (1, 2), (1, 1), (1, 1), padding_mode=mode)
    brackets = {case.norm(kernel.to(t)) for t in (torch.bfloat16, torch.float32, torch.float64)}
    assert len(brackets) == 1
