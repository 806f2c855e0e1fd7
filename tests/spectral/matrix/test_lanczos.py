"""Vectors for lower bounds: their Rayleigh quotients reach the largest eigenvalue, and exhausted spaces do no harm."""

from __future__ import annotations

import pytest
import torch

from lipaudit.spectral.matrix.lanczos import by_squaring, lanczos, leading_vectors


def _quotients(gram: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    images = torch.bmm(gram, vectors[..., None])[..., 0]
    return torch.linalg.vecdot(vectors, images).real / torch.linalg.vecdot(vectors, vectors).real


@pytest.mark.parametrize("n", [1, 5, 32, 33, 60])
def test_quotients_reach_the_largest_eigenvalue(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    factors = torch.randn(3, n, n, dtype=torch.complex128, generator=generator)
    gram = factors.mH @ factors
    start = torch.randn(3, n, dtype=torch.complex128, generator=generator)
    found = _quotients(gram, leading_vectors(gram, start, 40))
    assert found.tolist() == pytest.approx(torch.linalg.eigvalsh(gram)[:, -1].tolist(), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [2, 12, 40])
def test_an_exhausted_space_does_no_harm(dtype: torch.dtype, steps: int) -> None:
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(2, 50, 2, dtype=dtype, generator=generator)
    gram = factor @ factor.mT  # of rank 2, so that the space is exhausted after three steps
    start = torch.randn(2, 50, dtype=dtype, generator=generator)
    found = _quotients(gram, lanczos(lambda v: gram @ v, start, steps))
    exact = torch.linalg.eigvalsh(gram.double())[:, -1]
    assert found.tolist() == pytest.approx(exact.tolist(), rel=1e-4 if steps > 2 else 0.6)


def test_squaring_finds_what_a_decomposition_finds() -> None:
    factors = torch.randn(4, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    gram = factors @ factors.mT
    found = _quotients(gram, by_squaring(gram.tril()))
    assert found.tolist() == pytest.approx(torch.linalg.eigvalsh(gram)[:, -1].tolist(), rel=1e-9)
    assert bool(torch.isfinite(by_squaring(torch.zeros(1, 3, 3))).all())


def test_a_start_that_is_an_eigenvector_is_not_lost() -> None:
    """What is left of it after the first step is rounding noise, which is orthogonal only to the second orthogonalisation."""
    matrix = torch.diag(torch.linspace(1, 2, 80)).to(torch.float32)[None]
    start = torch.zeros(1, 80)
    start[0, -1] = 1.0
    start = start + 1e-8 * torch.randn(1, 80, generator=torch.Generator().manual_seed(0))
    for steps in (2, 5, 12, 24):
        vector = lanczos(lambda v: torch.bmm(matrix, v), start, steps)
        quotient = torch.linalg.vecdot(vector, torch.bmm(matrix, vector[..., None])[..., 0]) / vector.square().sum(-1)
        assert float(quotient) > 2 - 1e-5
