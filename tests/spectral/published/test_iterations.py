"""Gram iteration and power iteration on batches, against singular values."""

from __future__ import annotations

import pytest
import torch

from lipaudit.spectral.published.gram_iteration import schatten_norms
from lipaudit.spectral.published.power_iteration import singular_values

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def batch(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    matrices = torch.randn(5, rows, columns, dtype=dtype, generator=torch.Generator().manual_seed(rows + columns))
    matrices[2] = 0
    return matrices


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "columns"), [(4, 7), (7, 4), (1, 5), (5, 1), (3, 3)])
def test_gram_iteration_gives_schatten_norms(rows: int, columns: int, dtype: torch.dtype) -> None:
    matrices = batch(rows, columns, dtype)
    norms = list(schatten_norms(matrices, 8))
    singular = torch.linalg.svdvals(matrices.to(torch.complex128))
    assert len(norms) == 9
    for products, values in enumerate(norms):
        power = 2.0 ** (products + 1)
        top = singular[:, :1].clamp_min(1e-300)
        exact = singular[:, 0] * ((singular / top) ** power).sum(1) ** (1 / power)
        assert values.dtype == matrices.real.dtype
        torch.testing.assert_close(values.double(), exact, rtol=1e-5 if "32" in str(values.dtype) else 1e-12, atol=0)
        assert values[2] == 0


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_gram_iteration_neither_overflows_nor_vanishes(factor: float) -> None:
    matrices = batch(6, 4, torch.float32) * factor
    *_, values = schatten_norms(matrices, 40)
    torch.testing.assert_close(values, torch.linalg.matrix_norm(matrices, 2), rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "columns"), [(4, 7), (7, 4), (1, 5), (5, 1), (3, 3)])
def test_power_iteration_rises_to_the_largest_singular_value(rows: int, columns: int, dtype: torch.dtype) -> None:
    matrices = batch(rows, columns, dtype)
    estimates = torch.stack(list(singular_values(matrices, 200, torch.Generator().manual_seed(1))))
    exact = torch.linalg.matrix_norm(matrices.to(torch.complex128), 2)
    eps = torch.finfo(dtype).eps
    assert estimates.dtype == matrices.real.dtype
    assert estimates.shape == (200, 5)
    assert (estimates.double() <= exact * (1 + 10 * eps)).all()
    assert (estimates.diff(dim=0) >= -10 * eps * exact).all()
    torch.testing.assert_close(estimates[-1].double(), exact, rtol=1e-4, atol=0)


def test_power_iteration_follows_its_definition_and_its_seed() -> None:
    matrix = batch(4, 3, torch.float64)[0]
    u = torch.randn(1, 3, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(3))[0, :, 0]
    expected = []
    for _ in range(5):
        v = matrix @ u / torch.linalg.norm(matrix @ u)
        u = matrix.T @ v / torch.linalg.norm(matrix.T @ v)
        expected.append(torch.dot(matrix @ u, v))
    values = [value[0] for value in singular_values(matrix[None], 5, torch.Generator().manual_seed(3))]
    torch.testing.assert_close(torch.stack(values), torch.stack(expected))
