"""Every published method against its definition, written out with explicit matrices by numpy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.signal import convolve

from lipaudit.spectral.bracket import Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.delattre2023 import delattre2023
from lipaudit.spectral.published.registry import Options, find_method, measure
from tests.spectral.published.operators import GEOMETRIES, Array, Geometry, blocks, norm, operator, symbols

pytestmark = pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: f"{g.kernel_size} {g.mode} {g.seed}")


def value(name: str, convolution: Convolution, **options: object) -> float:
    return measure(find_method(name), convolution, Options(**options)).upper


def grid_norms(convolution: Convolution) -> list[float]:
    return [
        norm(symbol)
        for kernel in blocks(convolution)
        for symbol in symbols(kernel, convolution.dilation, convolution.input_size)
    ]


@pytest.mark.parametrize("name", ["sedghi2019", "bibi2019"])
def test_exact_norms_on_the_grid(geometry: Geometry, name: str) -> None:
    convolution = geometry.convolution()
    assert value(name, convolution) == pytest.approx(max(grid_norms(convolution)), rel=1e-12)
    assert value(name, convolution, dtype=torch.float32) == pytest.approx(max(grid_norms(convolution)), rel=1e-5)


def test_power_iteration_on_the_grid(geometry: Geometry) -> None:
    convolution = geometry.convolution()
    exact = max(grid_norms(convolution))
    assert value("yi2020", convolution, iterations=300) == pytest.approx(exact, rel=1e-3)
    assert value("yi2020", convolution, iterations=1) <= exact * (1 + 1e-12)


@pytest.mark.parametrize("products", [1, 2, 7])
def test_gram_iteration_on_the_grid(geometry: Geometry, products: int) -> None:
    convolution = geometry.convolution()
    power = 2 ** (products + 1)
    expected = max(
        float((np.linalg.svd(symbol, compute_uv=False) ** power).sum() ** (1 / power))
        for kernel in blocks(convolution)
        for symbol in symbols(kernel, convolution.dilation, convolution.input_size)
    )
    assert value("delattre2023", convolution, iterations=products) == pytest.approx(expected, rel=1e-12)


def test_gram_iteration_on_fewer_points(geometry: Geometry) -> None:
    convolution = geometry.convolution()
    points = 2 * (max(geometry.kernel_size) // 2) + 2
    ones = (1,) * len(geometry.kernel_size)
    largest = max(
        float((np.linalg.svd(symbol, compute_uv=False) ** 256).sum() ** (1 / 256))
        for kernel in blocks(convolution)
        for symbol in symbols(kernel, ones, tuple(points * one for one in ones))
    )
    factor = math.prod((1 - 2 * (k // 2) / points) ** -0.5 for k in geometry.kernel_size)
    bracket = delattre2023(convolution, Options(), points)
    assert bracket.upper == pytest.approx(factor * largest, rel=1e-12)
    assert bracket.rigor is Rigor.NUMERICAL
    assert bracket.upper >= norm(operator(convolution)) * (1 - 1e-12)


def start(size: int) -> Array:
    drawn: Array = torch.randn(size, generator=torch.Generator().manual_seed(5), dtype=torch.float64).numpy()
    return drawn


@pytest.mark.parametrize("iterations", [1, 4])
def test_power_iteration_on_the_operator(geometry: Geometry, iterations: int) -> None:
    convolution = geometry.convolution()
    matrix = operator(convolution)
    gram, dual = matrix.T @ matrix, matrix @ matrix.T
    x, y = start(matrix.shape[1]), start(matrix.shape[0])
    before = np.linalg.matrix_power(gram, iterations - 1) @ x
    after = gram @ before
    options = {"iterations": iterations, "seed": 5}
    # ||K* v|| for the unit vector v along K u
    ryu = np.linalg.norm(after) / np.linalg.norm(matrix @ before)
    assert value("ryu2019", convolution, **options) == pytest.approx(ryu, rel=1e-10)
    gouk = np.linalg.norm(matrix @ after) / np.linalg.norm(after)
    assert value("gouk2021", convolution, **options) == pytest.approx(gouk, rel=1e-10)
    from_output = np.linalg.matrix_power(dual, iterations - 1) @ y
    farnia = np.linalg.norm(dual @ from_output) / np.linalg.norm(matrix.T @ from_output)
    assert value("farnia2019", convolution, **options) == pytest.approx(farnia, rel=1e-10)
    assert max(ryu, gouk, farnia) <= norm(matrix) * (1 + 1e-12)


def reshapings(kernel: Array) -> list[Array]:
    """Every choice of kernel axes for the rows, filled entry by entry."""
    c_out, c_in, *size = kernel.shape
    found = []
    for rows in itertools.product([False, True], repeat=len(size)):
        down = [k if row else 1 for k, row in zip(size, rows, strict=True)]
        across = [1 if row else k for k, row in zip(size, rows, strict=True)]
        matrix = np.zeros((c_out, *down, c_in, *across))
        for i, j, *tap in np.ndindex(*kernel.shape):
            places = [t if row else 0 for t, row in zip(tap, rows, strict=True)]
            others = [0 if row else t for t, row in zip(tap, rows, strict=True)]
            matrix[(i, *places, j, *others)] = kernel[(i, j, *tap)]
        found.append(matrix.reshape(c_out * math.prod(down), -1))
    return found


def test_four_reshapings(geometry: Geometry) -> None:
    convolution = geometry.convolution()
    root = math.sqrt(math.prod(geometry.kernel_size))
    exact = root * max(min(norm(matrix) for matrix in reshapings(kernel)) for kernel in blocks(convolution))
    assert value("singla2021", convolution, iterations=1000) == pytest.approx(exact, rel=1e-4)
    assert value("singla2021", convolution) <= exact * (1 + 1e-12)
    # with exact norms it is a bound of the operator, whose padding here is zero or circular and "same" or less
    assert exact >= norm(operator(convolution)) * (1 - 1e-12)
    # and already of the symbol at every frequency
    assert exact >= max(grid_norms(convolution)) * (1 - 1e-12)


@pytest.mark.parametrize("name", ["miyato2018", "yoshida2017"])
def test_one_reshaping_without_a_factor(geometry: Geometry, name: str) -> None:
    convolution = geometry.convolution()
    exact = max(norm(kernel.reshape(kernel.shape[0], -1)) for kernel in blocks(convolution))
    assert value(name, convolution, iterations=1000) == pytest.approx(exact, rel=1e-4)
    assert value(name, convolution) <= exact * (1 + 1e-12)


def test_suprema_of_rows(geometry: Geometry) -> None:
    convolution = geometry.convolution()
    samples, ones = 2 * (max(geometry.kernel_size) // 2) + 3, (1,) * len(geometry.kernel_size)
    totals = []
    for kernel in blocks(convolution):
        squares = np.abs(np.array(symbols(kernel, ones, tuple(samples * one for one in ones)))) ** 2
        outer = squares.sum(2 if kernel.shape[0] <= kernel.shape[1] else 1)
        totals.append(math.sqrt(outer.max(0).sum()))
    factor = math.prod((1 - 2 * (k // 2) / samples) ** -0.5 for k in geometry.kernel_size)
    computed = value("araujo2021", convolution, iterations=samples)
    assert computed == pytest.approx(factor * max(totals), rel=1e-12)
    assert computed >= norm(operator(convolution)) * (1 - 1e-12)


def seen(convolution: Convolution) -> int:
    """The largest number of windows that see a pixel, counted on the operator with kernel 1 of one channel."""
    ones = torch.ones(1, 1, *convolution.kernel_size, dtype=torch.float64)
    counts = operator(
        Convolution(
            ones,
            convolution.input_size,
            convolution.stride,
            convolution.padding,
            convolution.dilation,
            padding_mode=convolution.padding_mode,
        )
    )
    return int(counts.sum(0).max())


def test_windows_on_the_reshaped_kernel(geometry: Geometry) -> None:
    convolution = geometry.convolution()
    exact = max(norm(kernel.reshape(kernel.shape[0], -1)) for kernel in blocks(convolution))
    axes = zip(geometry.kernel_size, convolution.input_size, convolution.padding, convolution.stride, strict=True)
    computed = value("tsuzuku2018", convolution)
    if max(convolution.dilation) == 1:
        formula = math.prod(math.ceil(min(k, n + sum(p) - k + 1) / s) for k, n, p, s in axes)
        assert computed == pytest.approx(exact * math.sqrt(formula), rel=1e-12)
    bracket = measure(find_method("tsuzuku2018"), convolution)
    if bracket.rigor is Rigor.NUMERICAL:
        assert computed >= exact * math.sqrt(seen(convolution)) * (1 - 1e-12)
        assert computed >= norm(operator(convolution)) * (1 - 1e-12)


@pytest.mark.parametrize("products", [1, 2, 3])
def test_kernels_convolved_with_themselves(geometry: Geometry, products: int) -> None:
    convolution = geometry.convolution()
    values = []
    for kernel in blocks(convolution):
        taps = kernel if kernel.shape[0] >= kernel.shape[1] else kernel.swapaxes(0, 1)
        axes = tuple(range(1, taps.ndim - 1))
        for _ in range(products):
            # G_l[i, j] = sum_c sum_t K_t[c, i] K_{t+l}[c, j]
            side = taps.shape[1]
            rows = [
                [
                    sum(
                        convolve(np.flip(taps[c, i], tuple(a - 1 for a in axes)), taps[c, j], method="direct")
                        for c in range(taps.shape[0])
                    )
                    for j in range(side)
                ]
                for i in range(side)
            ]
            taps = np.array(rows)
        sizes = np.sqrt((taps**2).sum((0, 1)))
        values.append(sizes.sum() ** (0.5**products))
    computed = value("delattre2024", convolution, iterations=products)
    assert computed == pytest.approx(max(values), rel=1e-10)
    assert computed >= norm(operator(convolution)) * (1 - 1e-12)


def test_our_own_bracket_holds_the_norm(geometry: Geometry) -> None:
    convolution = geometry.convolution()
    bracket = measure(find_method("gram"), convolution)
    assert bracket.lower <= norm(operator(convolution)) * (1 + 1e-13)
    assert bracket.upper >= norm(operator(convolution)) * (1 - 1e-13)
    assert bracket.rigor is Rigor.CERTIFIED
