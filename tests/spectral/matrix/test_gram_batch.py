"""The largest norm of a batch of matrices against singular values and against the dense routine."""

from __future__ import annotations

import math

import pytest
import torch

from lipaudit.errors import NonFiniteWeightsError
from lipaudit.spectral.matrix.gram import spectral_norm
from lipaudit.spectral.matrix.gram_batch import largest_spectral_norm


def _batches() -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)

    def random(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=dtype)

    scales = torch.logspace(-30, 30, 9, dtype=torch.float64)[:, None, None]
    zeros = random(5, 4, 4)
    zeros[2:] = 0
    return [
        random(1, 1, 1),
        random(7, 3, 5),
        random(6, 5, 3),
        random(4, 6, 6, dtype=torch.complex128),
        random(40, 16, 16),
        random(9, 4, 3) * scales,
        torch.eye(6, dtype=torch.float64).expand(5, 6, 6) * torch.arange(1, 6, dtype=torch.float64)[:, None, None],
        torch.eye(8, dtype=torch.float64).expand(64, 8, 8),
        random(5, 6, 1) @ random(5, 1, 6),
        zeros,
        random(3, 5, 5) * 1e-200,
        random(3, 5, 5) * 1e200,
    ]


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("index", range(12))
def test_bracket_holds_the_largest_norm(index: int, tol: float) -> None:
    batch = _batches()[index]
    top = batch.abs().max()
    exact = math.log(float(torch.linalg.matrix_norm(batch / top, 2).max())) + math.log(float(top))
    found = largest_spectral_norm(batch, tol)
    assert found.log_lower <= exact + 1e-13 * abs(exact) + 1e-14
    assert found.log_upper >= exact - 1e-13 * abs(exact) - 1e-14
    assert found.log_upper - found.log_lower <= math.log1p(tol) * (1 + 1e-9)


def test_agrees_with_the_dense_routine_and_with_the_order() -> None:
    batch = _batches()[4]
    each = [spectral_norm(m, 1e-8) for m in batch]
    found = largest_spectral_norm(batch, 1e-8)
    assert found.upper == pytest.approx(max(b.upper for b in each), rel=2e-8)
    assert found.upper == pytest.approx(largest_spectral_norm(batch.flip(0), 1e-8).upper, rel=2e-8)


def test_zero_empty_and_refused_batches() -> None:
    assert largest_spectral_norm(torch.zeros(3, 2, 2)).log_upper == -math.inf
    assert largest_spectral_norm(torch.zeros(0, 2, 2)).log_upper == -math.inf
    with pytest.raises(ValueError, match="3 axes"):
        largest_spectral_norm(torch.zeros(2, 2))
    with pytest.raises(NonFiniteWeightsError):
        largest_spectral_norm(torch.full((1, 2, 2), math.nan))
