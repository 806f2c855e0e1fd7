"""The comparison of an eigenvalue with a threshold: proofs of true claims, never of false ones."""

from __future__ import annotations

import math

import pytest
import torch

from lipaudit.spectral.matrix.cholesky_certificate import is_below
from tests.spectral.matrices import gaussian


def _ulps(value: float, steps: int) -> float:
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.inf if steps > 0 else -math.inf)
    return value


@pytest.mark.parametrize("side", [1, 2, 5, 16, 64])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 3.0, 1e8])
def test_diagonal_matrices_at_thresholds_a_few_ulps_around(side: int, scale: float) -> None:
    """The largest eigenvalue is a float, so that every threshold below it is a false claim."""
    values = torch.rand(side, dtype=torch.float64, generator=torch.Generator().manual_seed(side)) * scale
    largest = float(values.max())
    gram = torch.diag(values)[None]
    for steps in (1, 2, 3, 5, 10, 1000):
        assert not is_below(gram, 0.0, _ulps(largest, -steps)).item()
    for distance in (1e-12, 1e-6, 0.5):
        assert not is_below(gram, 0.0, largest * (1 - distance)).item()
    assert is_below(gram, 0.0, largest * (1 + 1e-10)).item()


@pytest.mark.parametrize("side", [2, 4, 8, 32, 128])
def test_matrices_of_ones_at_thresholds_a_few_ulps_around(side: int) -> None:
    """lambda_max of the all-ones matrix is its side: rank one, the factorisation cancels in every pivot."""
    gram = torch.ones(1, side, side, dtype=torch.float64)
    for steps in range(1, 40):
        assert not is_below(gram, 0.0, _ulps(float(side), -steps)).item()
    assert is_below(gram, 0.0, side * (1 + 1e-9)).item()
    assert is_below(gram.to(torch.complex128), 0.0, side * (1 + 1e-9)).item()


@pytest.mark.parametrize("complex_entries", [False, True])
def test_random_matrices_of_known_largest_eigenvalue(complex_entries: bool) -> None:
    """lambda_max >= the Rayleigh quotient of any vector: thresholds below it by more than its own rounding are false."""
    for side in (3, 20, 60):
        matrix = gaussian(side, 2 * side, side)
        if complex_entries:
            matrix = torch.complex(matrix, gaussian(side + 1, 2 * side, side))
        gram = matrix.mH @ matrix
        largest = float(torch.linalg.eigvalsh(gram)[-1])
        for distance in (1e-13, 1e-12, 1e-10, 1e-6, 1e-2):
            assert not is_below(gram[None], 0.0, largest * (1 - side * distance)).item()
        assert is_below(gram[None], 0.0, largest * (1 + 1e-9)).item()


def test_a_near_singular_claim_is_not_proved() -> None:
    """t I - G is singular to the last bit; a factorisation that happens to end is no proof without its margin."""
    accepted_without_margin = 0
    for seed in range(200):
        q, _ = torch.linalg.qr(gaussian(seed, 12, 12))
        values = torch.linspace(0.1, 1, 12, dtype=torch.float64)
        gram = (q * values) @ q.T
        gram = (gram + gram.T) / 2
        largest = float(torch.linalg.eigvalsh(gram)[-1])
        shifted = largest * torch.eye(12, dtype=torch.float64) - gram
        accepted_without_margin += int(torch.linalg.cholesky_ex(shifted).info) == 0
        assert not is_below(gram[None], 0.0, largest).item()
    assert accepted_without_margin > 10, "the draws do not show why a margin is needed"


def test_the_error_of_the_matrix_is_subtracted_from_the_threshold() -> None:
    gram = torch.diag(torch.tensor([1.0, 2.0], dtype=torch.float64))[None]
    assert is_below(gram, 0.05, 2.1).item()
    assert not is_below(gram, 0.15, 2.1).item()
    assert not is_below(gram, 5.0, 2.1).item()


def test_only_the_lower_triangle_is_read() -> None:
    gram = torch.tensor([[1.0, 1e9], [0.5, 1.0]], dtype=torch.float64)
    assert is_below(gram[None], 0.0, 1.6).item()
    assert not is_below(gram.mT[None], 0.0, 1.6).item()


def test_a_batch_is_compared_entry_by_entry() -> None:
    gram = torch.stack([torch.diag(torch.tensor([a, 1.0], dtype=torch.float64)) for a in (2.0, 3.0, 4.0)])
    assert is_below(gram, 0.0, 3.5).tolist() == [True, True, False]
    assert is_below(gram, 0.0, torch.tensor([1.9, 3.1, 4.1])).tolist() == [False, True, True]
    assert is_below(gram, torch.tensor([0.0, 0.6, 0.0]), 3.5).tolist() == [True, False, False]


@pytest.mark.parametrize("threshold", [0.0, -1.0])
def test_no_positive_threshold_no_proof(threshold: float) -> None:
    assert not is_below(torch.zeros(1, 3, 3, dtype=torch.float64), 0.0, threshold).item()


def test_nan_proves_nothing() -> None:
    gram = torch.full((1, 3, 3), math.nan, dtype=torch.float64)
    assert not is_below(gram, 0.0, 1e9).item()
    assert not is_below(torch.eye(3, dtype=torch.float64)[None], 0.0, math.nan).item()
    assert not is_below(torch.eye(3, dtype=torch.float64)[None], math.nan, 9.0).item()


def test_a_matrix_of_a_thousand_columns() -> None:
    side = 1000
    gram = torch.ones(1, side, side, dtype=torch.float64)
    assert not is_below(gram, 0.0, _ulps(1000.0, -1)).item()
    assert is_below(gram, 0.0, 1000 * (1 + 1e-8)).item()
