"""The explicit gradient of the Gram bound: equal to automatic differentiation and to the singular value decomposition."""

from __future__ import annotations

import pytest
import torch

from lipaudit.spectral.matrix.gradient import MOST_PRODUCTS, schatten_norm
from lipaudit.spectral.published.gram_iteration import schatten_norms


def naive(matrices: torch.Tensor, products: int) -> torch.Tensor:
    """[P] Algorithm 2, as it is written."""
    iterate = matrices
    for _ in range(products):
        iterate = iterate.mH @ iterate
    return torch.linalg.matrix_norm(iterate) ** (2.0**-products)


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def gradient(function, matrices: torch.Tensor, products: int) -> torch.Tensor:
    leaf = matrices.clone().requires_grad_()
    function(leaf, products).sum().backward()
    return leaf.grad


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (2, 3, 4, 6), (1, 9), (9, 1)])
@pytest.mark.parametrize("products", [0, 1, 2, 5])
def test_equals_automatic_differentiation(dtype: torch.dtype, shape: tuple[int, ...], products: int) -> None:
    matrices = random(*shape, dtype=dtype)
    matrices = matrices / torch.linalg.matrix_norm(matrices, 2).max()
    torch.testing.assert_close(schatten_norm(matrices, products), naive(matrices, products), rtol=1e-12, atol=0)
    expected = gradient(naive, matrices, products)
    torch.testing.assert_close(gradient(schatten_norm, matrices, products), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_equals_finite_differences(dtype: torch.dtype) -> None:
    for shape in ((4, 3), (2, 3, 5)):
        matrices = random(*shape, dtype=dtype, seed=1).requires_grad_()
        assert torch.autograd.gradcheck(lambda m: schatten_norm(m, 3), (matrices,))


@pytest.mark.parametrize("products", [0, 3, 10, 20])
def test_equals_the_derivative_by_singular_values(products: int) -> None:
    matrix = random(6, 4, dtype=torch.complex128, seed=2)
    u, sigma, vh = torch.linalg.svd(matrix, full_matrices=False)
    weights = (sigma / sigma[0]) ** (2.0 ** (products + 1) - 1)
    weights = weights / (((sigma / sigma[0]) ** 2.0 ** (products + 1)).sum() ** (1 - 2.0 ** -(products + 1)))
    expected = (u * weights) @ vh
    torch.testing.assert_close(gradient(schatten_norm, matrix, products), expected, rtol=1e-7, atol=1e-7)
    value = sigma[0] * (sigma / sigma[0]).pow(2.0 ** (products + 1)).sum() ** (2.0 ** -(products + 1))
    torch.testing.assert_close(schatten_norm(matrix, products), value, rtol=1e-13, atol=0)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_any_scale(scale: float, dtype: torch.dtype) -> None:
    matrix = random(5, 8, dtype=dtype)
    large = matrix * scale
    tolerance = 1e-9 if dtype == torch.float64 else 2e-5
    value, expected = schatten_norm(large, 6).double() / scale, schatten_norm(matrix, 6).double()
    torch.testing.assert_close(value, expected, rtol=tolerance, atol=0)
    torch.testing.assert_close(
        gradient(schatten_norm, large, 6), gradient(schatten_norm, matrix, 6), rtol=tolerance, atol=tolerance
    )


def test_single_precision_keeps_its_digits_after_many_products() -> None:
    matrix = random(30, 20, dtype=torch.float32, seed=4)
    found = gradient(schatten_norm, matrix, 12).double()
    u, _, vh = torch.linalg.svd(matrix.double())
    torch.testing.assert_close(found, torch.outer(u[:, 0], vh[0]), rtol=0, atol=1e-4)


def test_a_zero_matrix_has_gradient_zero_beside_others() -> None:
    matrices = random(3, 4, 4)
    matrices[1] = 0
    assert schatten_norm(matrices, 6)[1] == 0
    found = gradient(schatten_norm, matrices, 6)
    assert bool((found[1] == 0).all())
    assert bool(torch.isfinite(found).all())
    torch.testing.assert_close(found[2], gradient(naive, matrices[2], 6), rtol=1e-9, atol=1e-9)


def test_the_maximum_of_a_batch_passes_its_gradient_to_one_matrix() -> None:
    matrices = random(4, 3, 5, dtype=torch.complex128).requires_grad_()
    bounds = schatten_norm(matrices, 4)
    (7 * bounds.max()).backward()
    top = int(bounds.argmax())
    expected = torch.zeros_like(matrices)
    expected[top] = 7 * gradient(naive, matrices.detach()[top], 4)
    torch.testing.assert_close(matrices.grad, expected, rtol=1e-9, atol=1e-9)


def test_only_the_input_and_the_bound_are_kept() -> None:
    kept: list[int] = []
    matrices = random(2, 6, 5).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        schatten_norm(matrices, 9)
    assert sorted(kept) == [2, 60]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_most_products_neither_overflow_nor_vanish(dtype: torch.dtype) -> None:
    matrices = random(4, 300, 200, dtype=dtype, seed=6)
    u, sigma, vh = torch.linalg.svd(matrices.double(), full_matrices=False)
    torch.testing.assert_close(schatten_norm(matrices, MOST_PRODUCTS).double(), sigma[:, 0], rtol=1e-5, atol=0)
    expected = u[:, :, :1] @ vh[:, :1]
    torch.testing.assert_close(gradient(schatten_norm, matrices, MOST_PRODUCTS).double(), expected, rtol=0, atol=1e-3)


def test_a_second_derivative_is_refused() -> None:
    matrix = random(4, 5).requires_grad_()
    with pytest.raises(RuntimeError, match=r"cannot be differentiated again.*gram_iteration\.schatten_norms"):
        torch.autograd.grad(schatten_norm(matrix, 2), matrix, create_graph=True)
    (by_torch,) = torch.autograd.grad(naive(matrix, 2), matrix, create_graph=True)
    (second,) = torch.autograd.grad((by_torch**3).sum(), matrix)
    assert float(torch.linalg.vector_norm(second)) > 0  # what a silent first-order gradient would lose
    *_, bound = schatten_norms(matrix[None], 2)
    (way_out,) = torch.autograd.grad(bound.sum(), matrix, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad((way_out**3).sum(), matrix)[0], second)


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_autocast_does_not_lower_the_precision(low: torch.dtype) -> None:
    matrix = random(64, 64, dtype=torch.float32)
    value, expected = schatten_norm(matrix, 8), gradient(schatten_norm, matrix, 8)
    with torch.autocast("cpu", dtype=low):
        inside, found = schatten_norm(matrix, 8), gradient(schatten_norm, matrix, 8)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, value)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single_precision(low: torch.dtype) -> None:
    matrix = random(64, 64, dtype=torch.float32).to(low)
    assert torch.equal(schatten_norm(matrix, 12), schatten_norm(matrix.float(), 12))
    found = gradient(schatten_norm, matrix, 12)
    assert found.dtype == low
    assert torch.equal(found, gradient(schatten_norm, matrix.float(), 12).to(low))


def test_nan_is_not_hidden() -> None:
    matrices = random(2, 3, 3)
    matrices[0, 1, 1] = torch.nan
    assert schatten_norm(matrices, 5).isnan().tolist() == [True, False]


@pytest.mark.parametrize(
    ("matrices", "products", "message"),
    [
        (torch.zeros(3), 1, "needs matrices"),
        (torch.zeros(0, 3), 1, "needs matrices"),
        (torch.zeros(2, 2, dtype=torch.long), 1, "floating-point"),
        (torch.zeros(2, 2), -1, "from 0 to 20, not -1"),
        (torch.zeros(2, 2), 21, "from 0 to 20, not 21"),
    ],
)
def test_bad_arguments(matrices: torch.Tensor, products: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        schatten_norm(matrices, products)
