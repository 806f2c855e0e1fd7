"""Suprema over grids and over the torus: always above a dense sample, tight where the search may run to its end."""

from __future__ import annotations

import math

import pytest
import torch

from lipaudit.spectral.convolution.search import Supremum, grid_supremum, torus_supremum
from lipaudit.spectral.convolution.stride import polyphase
from lipaudit.spectral.convolution.symbol import Frequencies, SymbolGram


def _gram(kernel: torch.Tensor, groups: int = 1) -> SymbolGram:
    d = kernel.dim() - 2
    blocks = kernel.double().reshape(groups, -1, *kernel.shape[1:])
    return SymbolGram(polyphase(blocks, (1,) * d, (1,) * d))


def _sample(kernel: torch.Tensor, points: int, groups: int = 1) -> float:
    """The largest sigma_1(D(w)) over a regular grid: a lower bound of the supremum."""
    d = kernel.dim() - 2
    transform = torch.fft.fftn(kernel.double(), s=(points,) * d, dim=tuple(range(2, 2 + d)))
    blocks = transform.reshape(groups, -1, *transform.shape[1:]).flatten(3).permute(0, 3, 1, 2)
    return float(torch.linalg.matrix_norm(blocks, 2).max())


def _random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def _check(found: Supremum, sample: float, gap: float, tol: float) -> None:
    """``gap``: how far below the supremum the best point of the sample can be, as a factor."""
    log = math.log(sample)
    assert found.log_upper >= log - 1e-12
    assert found.log_lower <= log - math.log(gap) + 1e-12
    assert found.log_lower <= found.log_upper
    if found.tight:
        assert found.log_upper - found.log_lower <= math.log1p(tol) * (1 + 1e-9)


def _gap(degrees: tuple[float, ...], points: int) -> float:
    return math.prod(math.cos(math.pi * n / points) for n in degrees)


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize(
    ("shape", "points"),
    [
        ((3, 2, 3, 3), 96),
        ((2, 3, 2, 4), 96),
        ((1, 1, 3, 3), 512),
        ((1, 1, 5, 5), 512),
        ((1, 1, 5, 1), 512),
        ((4, 4, 1, 3), 64),
        ((3, 3, 1, 1), 8),
        ((4, 3, 7), 512),
        ((1, 1, 9), 512),
        ((2, 2, 3, 2, 2), 32),
    ],
)
def test_above_a_dense_sample(shape: tuple[int, ...], points: int, tol: float) -> None:
    for seed in range(3):
        kernel = _random(*shape, seed=seed)
        gram = _gram(kernel)
        found = torus_supremum(gram, tol)
        _check(found, _sample(kernel, points), _gap(gram.taps.degrees, points), tol)
        assert found.tight
        upper = math.exp(found.log_upper)
        assert upper <= _sample(kernel, points) / _gap(gram.taps.degrees, points) * (1 + tol) * (1 + 1e-12)


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_groups_share_one_search(groups: int) -> None:
    kernel = _random(6, 6 // groups, 3, 3, seed=groups)
    found = torus_supremum(_gram(kernel, groups), 1e-3)
    gap = _gap((1.0, 1.0), 96)
    _check(found, _sample(kernel, 96, groups), gap, 1e-3)
    each = [_sample(block, 96) for block in kernel.reshape(groups, -1, *kernel.shape[1:])]
    assert found.group == each.index(max(each))


def test_the_place_of_the_lower_bound_attains_it() -> None:
    for seed, groups in ((0, 1), (1, 2)):
        kernel = _random(4, 4 // groups, 3, 2, seed=seed)
        gram = _gram(kernel, groups)
        found = torus_supremum(gram, 1e-3)
        block = kernel.reshape(groups, -1, *kernel.shape[1:])[found.group]
        offsets = torch.cartesian_prod(torch.arange(3), torch.arange(2)).double()
        waves = torch.polar(torch.ones(()).double(), -(offsets @ torch.tensor(found.angle, dtype=torch.float64)))
        symbol = torch.einsum("t,rct->rc", waves, block.flatten(2).to(torch.complex128))
        assert float(torch.linalg.matrix_norm(symbol, 2)) >= math.exp(found.log_lower) * (1 - 1e-12)
        gain = torch.linalg.vector_norm(symbol.mH @ found.left) / torch.linalg.vector_norm(found.left)
        assert float(gain) >= math.exp(found.log_lower) * (1 - 1e-6)


def _no_budget(kernel: torch.Tensor, groups: int = 1) -> tuple[Supremum, SymbolGram]:
    gram = _gram(kernel, groups)
    return torus_supremum(gram, 1e-3, budget=0.0), gram


@pytest.mark.parametrize("shape", [(3, 2, 3, 3), (5, 4, 3), (1, 1, 3, 3), (2, 2, 5, 2), (2, 2, 2, 2, 2), (3, 3, 1, 1)])
def test_without_a_budget_the_cosine_factor_still_bounds(shape: tuple[int, ...]) -> None:
    kernel = _random(*shape, seed=5)
    found, gram = _no_budget(kernel)
    points = {1: 512, 2: 96, 3: 32}[len(shape) - 2]
    sample = _sample(kernel, points)
    assert found.log_upper >= math.log(sample)
    # one lattice of at least 8 points per degree: at most 1 / cos(pi / 8) per axis above its best point
    worst = math.prod(1 / math.cos(math.pi / 8) for n in gram.taps.degrees if n)
    assert found.log_upper <= math.log(sample / _gap(gram.taps.degrees, points) * worst * 1.001) + 1e-9


def test_two_tap_kernels_between_lattice_points_attain_the_factor() -> None:
    """|1 + exp(-i (w - w0))| = 2 |cos((w - w0)/2)|: with w0 half a step off the lattice the factor is met exactly.

    Realised by a rotation: the 2 x 2 taps I and R(w0) have the singular values |1 + exp(-i (w +- w0))|.
    """
    points = 8
    angle = math.pi + math.pi / points
    rotation = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    kernel = torch.stack([torch.eye(2), rotation], dim=-1).double()
    lattice = grid_supremum(_gram(kernel), (points,), 1e-6)
    factor = math.cos(math.pi * 0.5 / points)
    assert math.exp(lattice.log_upper) == pytest.approx(2 * factor, rel=1e-5), (
        "the lattice misses the maximum by the factor"
    )
    found, _ = _no_budget(kernel)
    assert 2.0 * (1 - 1e-12) <= math.exp(found.log_upper) <= 2.0 / math.cos(math.pi / 8)
    searched = torus_supremum(_gram(kernel), 1e-4)
    assert 2.0 * (1 - 1e-12) <= math.exp(searched.log_upper) <= 2.0 * 1.0002


def _corner_taps(shift: tuple[float, float], epsilon: float = 1e-3) -> torch.Tensor:
    """Taps at (0, 0) and (1, 1) of which D(w) has the norm 2 |cos((w_1 + w_2 - s_1 - s_2)/2)|, and a small perturbation
    that depends on w_1 - w_2 and makes the maximiser (almost) unique."""
    total = sum(shift)
    difference = shift[0] - shift[1]

    def rotation(angle: float) -> torch.Tensor:
        c, s = math.cos(angle), math.sin(angle)
        return torch.tensor([[c, -s], [s, c]], dtype=torch.float64)

    kernel = torch.zeros(2, 2, 2, 2, dtype=torch.float64)
    kernel[..., 0, 0] = torch.eye(2)
    kernel[..., 1, 1] = rotation(total)
    kernel[..., 1, 0] = epsilon * rotation((total + difference) / 2)
    kernel[..., 0, 1] = epsilon * rotation((total - difference) / 2)
    return kernel


def test_the_nearest_lattice_point_obeys_the_cosine_of_the_sum_not_the_product_of_cosines() -> None:
    """Pruning by prod cos(n_a h_a) would drop the cell of the maximiser.

    On a lattice of step 2 h per axis, a maximiser at the corner of a cell is h away from its centre in both axes. Taps at
    opposite corners vary along the diagonal: the centre has cos(2 n h) of the supremum, below cos(n h)^2.
    """
    period = (8, 8)
    h = math.pi / 8
    kernel = _corner_taps((h, h))
    gram = _gram(kernel)
    supremum = torus_supremum(gram, 1e-6)
    upper = math.exp(supremum.log_upper)
    assert upper == pytest.approx(2.002, rel=1e-5)
    # the rotations mix w and -w: their maximisers are (h, h) and (-h, -h)
    angles = [abs((a + math.pi) % (2 * math.pi) - math.pi) for a in supremum.angle]
    assert angles == pytest.approx([h, h], abs=0.05)
    nearest = torch.tensor([[0, 0], [1, 1]])
    grams = gram.at(torch.zeros(2, dtype=torch.long), Frequencies(nearest, period))
    values = torch.linalg.eigvalsh(grams)[:, -1].sqrt() * 2.0**gram.exponent
    product, cosine = math.cos(0.5 * h) ** 2, math.cos(2 * 0.5 * h)
    for value in values.tolist():
        assert value < upper * product * (1 - 1e-4), "pruning by the product of cosines would have dropped this point"
        assert value >= upper * cosine * (1 - 1e-5)
    # the largest value of the whole lattice obeys the product: it lies elsewhere
    best = math.exp(grid_supremum(gram, period, 1e-6).log_upper)
    assert best >= upper * product * (1 - 1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_maximisers_at_the_corners_of_cells_are_not_lost(seed: int) -> None:
    """Random places of the maximiser in its cell, corners included, at several tolerances."""
    h = math.pi / 8
    offset = torch.rand(2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).round(decimals=seed % 3)
    kernel = _corner_taps((float(offset[0]) * h + 2 * h * (seed % 5), float(offset[1]) * h))
    for tol in (1e-2, 1e-4):
        found = torus_supremum(_gram(kernel), tol)
        assert math.exp(found.log_upper) >= 2.002 * (1 - 1e-9)
        assert math.exp(found.log_lower) <= 2.002 * (1 + 1e-9)


@pytest.mark.parametrize("budget", [0.0, 1e6, 3e8])
@pytest.mark.parametrize("kind", ["delta", "shifted delta", "orthogonal taps", "random, 64 channels"])
def test_flat_spectra_stop_at_the_budget_with_a_bound(kind: str, budget: float) -> None:
    points = 12
    if kind == "delta":
        kernel = torch.zeros(4, 4, 3, 3)
        kernel[..., 1, 1] = torch.eye(4) * 3
    elif kind == "shifted delta":
        kernel = torch.zeros(3, 3, 3, 3)
        for channel, (a, b) in enumerate([(0, 0), (1, 2), (2, 0)]):
            kernel[channel, channel, a, b] = 3.0
    elif kind == "orthogonal taps":
        q, _ = torch.linalg.qr(_random(4, 4))
        projection = q[:, :2] @ q[:, :2].T
        kernel = torch.stack([3 * projection, 3 * (torch.eye(4) - projection)], dim=-1)[..., None, :]
    else:
        kernel = _random(64, 64, 3, 3) / 24
    found = torus_supremum(_gram(kernel), 1e-3, budget=budget)
    exact = _sample(kernel, points)
    assert found.log_upper >= math.log(exact) - 1e-12
    assert found.log_lower <= found.log_upper
    # at worst a lattice of 8 points per degree and axis
    assert math.exp(found.log_upper) <= exact * (1.1 if budget == 3e8 else 1.01 / math.cos(math.pi / 8) ** 2)
    if kind == "delta":
        assert found.tight
    if not found.tight:
        assert found.log_upper - found.log_lower > math.log1p(1e-3)


def test_rows_and_columns_of_zeros() -> None:
    kernel = _random(4, 3, 3, 3, seed=9)
    kernel[1], kernel[3] = 0, 0
    kernel[:, 2] = 0
    gram = _gram(kernel)
    _check(torus_supremum(gram, 1e-3), _sample(kernel, 96), _gap((1, 1), 96), 1e-3)


@pytest.mark.parametrize("scale", [1e-290, 1e-30, 1e30, 1e290])
def test_the_scale_of_the_kernel_comes_back(scale: float) -> None:
    kernel = _random(3, 2, 3, 3, seed=10)
    plain, scaled = torus_supremum(_gram(kernel), 1e-3), torus_supremum(_gram(kernel * scale), 1e-3)
    assert scaled.log_upper == pytest.approx(plain.log_upper + math.log(scale), abs=1e-3)
    assert scaled.log_upper >= math.log(_sample(kernel, 96)) + math.log(scale) - 1e-12


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("period", [(1, 1), (2, 2), (3, 8), (7, 5), (16, 16)])
def test_grids_are_met_exactly(period: tuple[int, int], tol: float) -> None:
    for shape in ((3, 2, 3, 3), (1, 1, 3, 3), (2, 4, 1, 2)):
        kernel = _random(*shape, seed=period[0])
        # folding the kernel modulo the period: a short period wraps around
        folded = torch.zeros(*shape[:2], *period, dtype=torch.float64)
        for a in range(shape[2]):
            for b in range(shape[3]):
                folded[..., a % period[0], b % period[1]] += kernel[..., a, b]
        transform = torch.fft.fft2(folded).flatten(2).permute(2, 0, 1)
        exact = float(torch.linalg.matrix_norm(transform, 2).max())
        found = grid_supremum(_gram(kernel), period, tol)
        assert math.log(exact) - 1e-12 <= found.log_upper <= math.log(exact) + math.log1p(tol) + 1e-12
        assert found.log_lower <= math.log(exact) + 1e-12


def test_many_equal_grid_points_are_all_proved() -> None:
    """Identity kernels: every point of the grid has the same matrix, and nothing can be dropped."""
    kernel = torch.zeros(5, 5, 3, 3)
    kernel[..., 0, 0], kernel[..., 2, 2] = torch.eye(5), torch.zeros(5, 5)
    found = grid_supremum(_gram(kernel), (9, 9), 1e-9)
    assert 0.0 <= found.log_upper <= 1.1e-9


@pytest.mark.parametrize("place", [0.9, 0.93])
def test_a_maximiser_near_a_corner_survives_a_rival_of_almost_its_height(place: float) -> None:
    """A rival just below the supremum raises the pruning threshold; the product of cosines would then lose the maximum.

    The corner taps peak at 0.9 of the half width in both axes, so that the centre of the peak's cell has 0.939 of the
    supremum. The rival, of 0.99 times its height, peaks at the frequency 0: 0.99 cos(n h)^2 = 0.952.
    """
    h = math.pi / 8
    epsilon, place = 1e-2, place * h
    kernel = torch.zeros(3, 3, 2, 2, dtype=torch.float64)
    kernel[:2, :2] = _corner_taps((place, place), epsilon)
    supremum = 2 + 2 * epsilon
    kernel[2, 2] = 0.99 * supremum / 4
    for tol in (1e-7, 1e-4):
        found = torus_supremum(_gram(kernel), tol)
        assert math.log(supremum) - 1e-12 <= found.log_upper <= math.log(supremum) + 2 * tol
        assert found.log_lower <= math.log(supremum) + 1e-12


@pytest.mark.parametrize("angle", [0.4, 1.0, 1.7, 2.2, 2.9])
def test_a_narrow_peak_above_a_flat_spectrum_is_bounded(angle: float) -> None:
    """Every frequency holds 0.9995 of the supremum, the rest lies between the points of any lattice."""
    c, s = math.cos(angle), math.sin(angle)
    kernel = torch.zeros(6, 6, 2, 2, dtype=torch.float64)
    kernel[:4, :4, 0, 0] = 0.9995 * torch.eye(4)
    kernel[4:, 4:, 0, 0] = torch.eye(2) / 2
    kernel[4:, 4:, 1, 1] = torch.tensor([[c, -s], [s, c]], dtype=torch.float64) / 2
    for budget in (0.0, 3e8, 3e10):
        found = torus_supremum(_gram(kernel), 1e-6, budget=budget)
        assert found.log_upper >= -1e-13
        assert found.log_lower <= 1e-13


@pytest.mark.parametrize("channels", [4, 40])
def test_zero_groups_do_not_hide_the_others(channels: int) -> None:
    kernel = _random(2 * channels, channels, 2, 2)
    kernel[channels:] = 0
    found = grid_supremum(_gram(kernel, 2), (2, 2), 1e-6)
    symbols = torch.fft.fft2(kernel[:channels], s=(2, 2)).permute(2, 3, 0, 1)
    exact = float(torch.linalg.matrix_norm(symbols, 2).max())
    assert exact * (1 - 1e-6) <= math.exp(found.log_lower) <= exact * (1 + 1e-12)
    assert exact * (1 - 1e-12) <= math.exp(found.log_upper) <= exact * (1 + 2e-6)
