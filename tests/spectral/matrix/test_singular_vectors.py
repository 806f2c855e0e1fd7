"""Singular triplets and eigenpairs against LAPACK."""

from __future__ import annotations

import pytest
import torch

from lipaudit.spectral.matrix.singular_vectors import leading_eigenpair, leading_singular_triplets


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (1, 3), (3, 1)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_triplets_are_those_of_the_svd(shape: tuple[int, int], dtype: torch.dtype) -> None:
    a = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0)) * 1e20
    count = min(shape)
    u, s, v = leading_singular_triplets(a, count)
    expected = torch.linalg.svd(a, full_matrices=False)
    assert torch.allclose(s, expected.S, rtol=1e-9)
    assert torch.allclose(u * s @ v.mH, a, rtol=1e-7, atol=float(s[0]) * 1e-9)
    overlap = torch.linalg.vecdot(u[:, 0], expected.U[:, 0]).abs()
    assert float(overlap) == pytest.approx(1, abs=1e-9)


def test_rank_one_and_zero_matrices() -> None:
    u, s, v = leading_singular_triplets(torch.ones(3, 2), 2)
    assert s.tolist() == pytest.approx([6**0.5, 0.0], abs=1e-12)
    assert bool(torch.isfinite(u).all())
    assert bool(torch.isfinite(v).all())
    assert leading_singular_triplets(torch.zeros(2, 2))[1].item() == 0


@pytest.mark.parametrize("symmetric", [True, False])
def test_eigenpair(symmetric: bool) -> None:
    a = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    a = a + a.T if symmetric else a @ torch.diag(torch.tensor([9.0, 1, 1, 1, 1, 1]).double()) @ torch.linalg.inv(a)
    value, vector = leading_eigenpair(a)
    expected = torch.linalg.eigvals(a)
    assert value == pytest.approx(complex(expected[expected.abs().argmax()]), rel=1e-9)
    assert torch.allclose(a.to(vector.dtype) @ vector, value.real * vector, atol=1e-8)


def test_refused() -> None:
    with pytest.raises(ValueError, match="dominates"):
        leading_eigenpair(torch.tensor([[0.0, -1.0], [1.0, 0.5]]))
    with pytest.raises(ValueError, match="square"):
        leading_eigenpair(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="nilpotent"):
        leading_eigenpair(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(ValueError, match="triplets"):
        leading_singular_triplets(torch.zeros(2, 3), 3)
