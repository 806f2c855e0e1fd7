"""Batches of convolutions against written-out operators, on every route and with the shortcuts taken away."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from lipaudit.errors import NonFiniteWeightsError
from lipaudit.spectral.convolution import frequencies, norm_batch, search_batch
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import convolution_norm
from lipaudit.spectral.convolution.norm_batch import convolution_norms, matrix_norms
from lipaudit.spectral.convolution.search_batch import gram_iteration
from tests.spectral.geometries import Case, cases
from tests.spectral.reference import check_bracket, log_spectral_norm

SLACK = 1e-13
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
ROUTES = ("default", "grid", "torus", "reshaped", "poor vectors", "small chunks")


@pytest.fixture(params=ROUTES)
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "default":
        monkeypatch.setattr(norm_batch, "is_small", lambda convolution: False)
    if request.param == "torus":
        monkeypatch.setattr(norm_batch, "LATTICE_BUDGET", 0.0)
    if request.param == "reshaped":
        monkeypatch.setattr(frequencies, "LAG_NUMBERS", 0)
    if (
        request.param == "poor vectors"
    ):  # the comparison fails for many frequencies, and the rounds after it must mend that
        monkeypatch.setattr(search_batch, "PRODUCTS", 0)
        monkeypatch.setattr(search_batch, "RANKING_STEPS", 0)
        monkeypatch.setattr(search_batch, "RANKED_NUMBERS", 0)
        monkeypatch.setattr(search_batch, "MOST", 3)
    if request.param == "small chunks":
        monkeypatch.setattr(search_batch, "CHUNK_NUMBERS", {"cpu": 40, "cuda": 40})
        monkeypatch.setattr(norm_batch, "HELD_NUMBERS", 100)
    return str(request.param)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def check(case: Case, kernels: list[torch.Tensor], device: str) -> None:
    """Both ends hold for every layer of a batch of one geometry."""
    try:
        operators = [case.operator(kernel) for kernel in kernels]
    except (RuntimeError, ValueError):
        return
    found = convolution_norms([case.convolution(kernel.to(device)) for kernel in kernels])
    for norm, operator in zip(found, operators, strict=True):
        exact = float(torch.linalg.matrix_norm(operator, 2))
        assert norm.bracket.upper >= exact * (1 - SLACK), (case, norm, exact)
        assert norm.bracket.lower <= exact * (1 + SLACK), (case, norm, exact)


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(case=cases(valid=True))
def test_every_geometry(route: str, device: str, case: Case) -> None:
    kernel = case.kernel()
    check(case, [kernel, -3.0 * kernel.flip(0), torch.zeros_like(kernel)], device)


def _circular(kernel: torch.Tensor, size: int) -> Convolution:
    return Convolution.like_torch(kernel, size, padding="same", padding_mode="circular")


def test_circular_same_padding_is_exact_within_the_tolerance(route: str) -> None:
    if route in ("reshaped", "torus"):
        pytest.skip("circular padding takes the grid unless its symbol is too large")
    generator = torch.Generator().manual_seed(3)
    layers = [
        _circular(torch.randn(shape, dtype=torch.float64, generator=generator), 6)
        for shape in [(5, 3, 3, 3)] * 3 + [(2, 6, 3, 2)]
    ]
    for layer, norm in zip(layers, convolution_norms(layers, 1e-4), strict=True):
        size = layer.input_size
        symbols = torch.fft.fft2(layer.kernel, s=size).permute(2, 3, 0, 1)
        exact = float(torch.linalg.matrix_norm(symbols, 2).max())
        assert norm.bracket.lower <= exact <= norm.bracket.upper <= exact * (1 + 1e-4)
        assert norm.bracket.tightness <= 1 + 1e-4


def test_layers_keep_their_order_and_their_own_scale() -> None:
    generator = torch.Generator().manual_seed(1)
    kernels = [torch.randn(4, 3, 3, 3, generator=generator) for _ in range(5)]
    kernels = [kernel * 10.0 ** (12 * i - 24) for i, kernel in enumerate(kernels)]
    layers = [_circular(kernel, size) for kernel, size in zip(kernels, (7, 8, 7, 8, 7), strict=True)]
    for layer, norm in zip(layers, convolution_norms(layers), strict=True):
        alone = convolution_norm(layer).bracket
        assert norm.bracket.log_lower <= alone.log_upper
        assert alone.log_lower <= norm.bracket.log_upper
        assert norm.bracket.tightness <= 1.001


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_one_bad_kernel_of_a_batch_is_refused(value: float) -> None:
    good, bad = torch.ones(2, 2, 3), torch.ones(2, 2, 3)
    bad[1, 0, 2] = value
    layers = [Convolution.like_torch(kernel, 5) for kernel in (good, bad)]
    with pytest.raises(NonFiniteWeightsError):
        convolution_norms(layers)


def test_nothing_to_do() -> None:
    assert convolution_norms([]) == []
    assert matrix_norms([]) == []
    empty = Convolution.like_torch(torch.zeros(0, 3, 3, 3), 5)
    assert convolution_norms([empty])[0].bracket.upper == convolution_norm(empty).bracket.upper == 0


def test_empty_and_complex_matrices() -> None:
    matrices = [torch.zeros(0, 4), torch.tensor([[3.0 + 4.0j]]), torch.zeros(4, 0), torch.tensor([[2.0]])]
    uppers = [bracket.upper for bracket in matrix_norms(matrices)]
    assert uppers == pytest.approx([0, 5, 0, 2], rel=2e-3)


def test_gram_iteration_proves_nothing_of_what_overflows() -> None:
    gram = torch.diag(torch.tensor([0.0, 0.0, 1e-40], dtype=torch.float64))
    gram[0, 1] = gram[1, 0] = 1e-17  # Hermitian, and not positive semidefinite
    bound, _ = gram_iteration(gram[None], 9)
    assert 1e-17 <= bound.item() <= 1.1e-17
    tiny = torch.full((1, 2, 2), 5e-324, dtype=torch.float64)
    assert gram_iteration(tiny, 9)[0].item() >= 1e-323


@pytest.mark.parametrize("seed", range(6))
def test_symbols_that_cancel_leave_rounding_errors_and_no_claim(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm_batch, "is_small", lambda convolution: False)
    generator = torch.Generator().manual_seed(seed)
    kernel = torch.randn(4, 4, 3, dtype=torch.float64, generator=generator) * 1e-20
    large = torch.round(torch.randn(4, 2, 3, dtype=torch.float64, generator=generator) * 2**30) / 2**33
    large[:, :, 2] = -(large[:, :, 0] + large[:, :, 1])  # exactly zero at frequency 0, the only one
    kernel[:, :2] = large
    layer = Convolution(kernel, (1,), (1,), ((1, 1),), (1,), padding_mode="circular")
    exact = float(torch.linalg.matrix_norm(kernel.sum(2), 2))
    assert convolution_norms([layer])[0].bracket.upper >= exact


@pytest.mark.parametrize(
    "layer",
    [
        Convolution(torch.ones(1, 1, 3), (100,), (1,), ((-20, -20),), (1,)),
        Convolution.like_torch(torch.ones(3, 2, 2), 400, dilation=40, output_padding=39, transposed=True),
    ],
)
def test_negative_padding_leaves_room_for_the_lower_bound(layer: Convolution) -> None:
    for bracket in (convolution_norm(layer).bracket, convolution_norms([layer])[0].bracket):
        assert 0 < bracket.lower <= bracket.upper


def test_lattices_that_are_too_large_are_measured_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Convolution.like_torch(
        torch.randn(4, 1, 3, 3, generator=torch.Generator().manual_seed(0)), 50, padding=1, groups=4
    )
    monkeypatch.setattr(norm_batch, "TABLE_NUMBERS", 100)
    assert convolution_norms([layer, layer]) == [convolution_norm(layer)] * 2


def test_matrices_are_certified(device: str) -> None:
    generator = torch.Generator().manual_seed(0)
    matrices = [torch.randn(shape, generator=generator) for shape in ((9, 5), (9, 5), (4, 11), (1, 1))]
    matrices.append(torch.linalg.qr(torch.randn(8, 8, generator=generator))[0])  # all singular values agree
    for matrix, bracket in zip(matrices, matrix_norms([m.to(device) for m in matrices], 1e-6), strict=True):
        check_bracket(bracket, log_spectral_norm(matrix))
        assert bracket.tightness <= 1 + 1e-6


def test_an_orthogonal_kernel_has_every_frequency_at_the_maximum() -> None:
    matrix = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2)))[0]
    kernel = torch.zeros(6, 6, 3, 3, dtype=torch.float64)
    kernel[:, :, 1, 2] = 5 * matrix  # a shift and a rotation
    (norm,) = convolution_norms([_circular(kernel, 9)])
    assert norm.bracket.lower * (1 - 1e-14) <= 5 <= norm.bracket.upper
    assert norm.bracket.tightness <= 1.001


def test_lower_bounds_are_as_good_as_one_by_one() -> None:
    generator = torch.Generator().manual_seed(5)
    kernels = [torch.randn(24, 16, 3, 3, generator=generator) for _ in range(3)]
    layers = [Convolution.like_torch(kernel, 30, padding=1) for kernel in kernels]
    layers += [Convolution.like_torch(kernel.repeat(2, 1, 1, 1), 30, 2, 1, groups=2) for kernel in kernels]
    for layer, norm in zip(layers, convolution_norms(layers), strict=True):
        assert norm.bracket.lower >= 0.99 * convolution_norm(layer).bracket.lower


def test_large_inputs_take_the_torus_at_its_tolerance() -> None:
    kernel = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    near, far = (convolution_norms([Convolution.like_torch(kernel, n, padding=1)])[0] for n in (500, 5000))
    assert near.note == far.note == "torus"
    assert near.bracket.log_upper == far.bracket.log_upper  # the cost does not depend on the size either
    exact = convolution_norm(Convolution.like_torch(kernel, 5000, padding=1), 1e-6).bracket
    assert exact.lower <= near.bracket.upper <= exact.upper * (1 + 1e-3)


@pytest.mark.parametrize("products", [0, 1, 5, 9, 24])
def test_gram_iteration_bounds_hermitian_matrices(products: int) -> None:
    generator = torch.Generator().manual_seed(products)
    factors = torch.randn(3, 6, 6, dtype=torch.complex128, generator=generator)
    grams = factors.mH @ factors * torch.tensor([1.0, 1e-200, 1e100], dtype=torch.float64)[:, None, None]
    bounds, vectors = gram_iteration(grams, products)
    for gram, bound, vector in zip(grams, bounds.tolist(), vectors, strict=True):
        size = float(gram.abs().max())
        exact = float(torch.linalg.eigvalsh(gram / size)[-1]) * size
        assert exact * (1 - 1e-13) <= bound <= exact * 6 ** (0.5 * 2.0**-products) * (1 + 1e-9)
        if products >= 9:
            image = gram / size @ vector
            assert float(torch.linalg.vector_norm(image) / torch.linalg.vector_norm(vector)) * size >= exact * (
                1 - 1e-3
            )


@pytest.mark.long
@settings(deadline=None, max_examples=1500, suppress_health_check=list(HealthCheck))
@given(case=cases(valid=True))
def test_every_geometry_at_length(route: str, device: str, case: Case) -> None:
    check(case, [case.kernel(), case.kernel() * 7e-5], device)
