"""Sigma_1 of matrices without negative entries: closed forms to 50 digits, numpy's singular values, huge and zero entries."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import torch

from lipaudit.spectral.matrix.nonnegative import nonnegative_norm


@pytest.mark.parametrize("n", [1, 2, 3, 40, 300])
def test_closed_forms(n: int) -> None:
    """A matrix of ones has sqrt(n m), its lower triangle 1 / (2 sin(pi / (4 n + 2)))."""
    with mpmath.workdps(50):
        triangle = mpmath.log(1 / (2 * mpmath.sin(mpmath.pi / (4 * n + 2))))
        ones = mpmath.log(n * 7) / 2
        for logs, truth in ((torch.zeros(n, n).double(), triangle), (torch.zeros(n, 7).double(), ones)):
            if truth is triangle:
                logs = logs.masked_fill(torch.ones(n, n).triu(1) > 0, -math.inf)
            bound = mpmath.mpf(nonnegative_norm(logs).log_upper)
            assert truth <= bound <= truth + mpmath.mpf("1e-4")


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (3, 5), (40, 40)])
@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize("shift", [0.0, -5000.0, 5000.0])
def test_random_entries(shape: tuple[int, int], spread: float, shift: float) -> None:
    random = np.random.default_rng(0)
    for _ in range(5):
        logs = random.standard_normal(shape) * spread
        logs[random.random(shape) < 0.3] = -math.inf
        truth = np.linalg.svd(np.exp(logs), compute_uv=False)[0]
        bound = nonnegative_norm(torch.from_numpy(logs + shift))
        assert bound.log_lower == -math.inf
        if truth == 0:
            assert bound.upper == 0
        else:
            assert math.log(truth) <= bound.log_upper - shift + 1e-11 * abs(shift) + 1e-12
            assert bound.log_upper - shift <= math.log(truth) + 1e-2


def test_what_is_empty_or_zero_has_norm_zero() -> None:
    assert nonnegative_norm(torch.full((3, 2), -math.inf).double()).upper == 0
    assert nonnegative_norm(torch.zeros(0, 2).double()).upper == 0


def test_the_identity_and_a_shift_have_norm_one() -> None:
    for diagonal in (0, 1):
        logs = torch.diag(torch.ones(30 - diagonal), diagonal).double().log()
        assert 1 <= nonnegative_norm(logs).upper <= 1 + 1e-6
