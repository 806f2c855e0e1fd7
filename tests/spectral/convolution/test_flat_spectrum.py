"""Where no cell of the torus can be dropped, one complete lattice and its factor give the bound."""

import math

import pytest
import torch
from torch import nn

from lipaudit.spectral.convolution import search
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.lattice import lattice
from lipaudit.spectral.convolution.norm import conv_norm, convolution_norm
from lipaudit.spectral.convolution.stride import polyphase
from lipaudit.spectral.convolution.symbol import SymbolGram


def largest_on_grid(gram: SymbolGram, points: int) -> float:
    """max sigma_1(D) over a fine grid, a lower bound of the supremum; real kernels need half of the torus only."""
    axes = [torch.arange(points, dtype=torch.float64) * (2 * math.pi / points) for _ in gram.taps.divisors]
    phase = torch.cartesian_prod(*axes) @ gram.taps.offsets.double().T
    waves = torch.polar(torch.ones_like(phase), -phase)
    matrices = gram.taps.matrices[0].to(torch.complex128)
    return float(torch.linalg.matrix_norm(torch.einsum("wt,trn->wrn", waves, matrices), 2).max())


def nearly_orthogonal(channels: int, size: int, seed: int) -> torch.Tensor:
    """One orthogonal tap and little else: sigma_1 hardly depends on the frequency."""
    generator = torch.Generator().manual_seed(seed)
    kernel = 1e-4 * torch.randn(1, channels, channels, size, size, dtype=torch.float64, generator=generator)
    kernel[0, :, :, 0, 0] += torch.eye(channels, dtype=torch.float64)
    return kernel


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("density", [8, 11, 40])
def test_complete_lattice(monkeypatch: pytest.MonkeyPatch, size: int, stride: int, density: int) -> None:
    channels = 5
    taken = []
    complete = search._complete_lattice
    monkeypatch.setattr(
        search, "_complete_lattice", lambda state, period: taken.append(period) or complete(state, period)
    )
    gram = SymbolGram(polyphase(nearly_orthogonal(channels, size, seed=size), (stride, stride), (1, 1)))
    points = math.prod(lattice(gram.taps.degrees, density))
    found = search.torus_supremum(gram, 1e-3, budget=gram.evaluation_cost * points / 2)
    exact = largest_on_grid(gram, 64)
    assert exact <= math.exp(found.log_upper)
    assert len(taken) == 1
    assert 0.8 * points <= math.prod(taken[0]) <= points
    factor = math.prod(math.cos(math.pi * n / p) for n, p in zip(gram.taps.degrees, taken[0], strict=True))
    assert math.exp(found.log_upper) * factor <= 1.0011 * exact
    assert not found.tight


def test_peaked_spectra_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """An averaging kernel has its maximum at frequency 0 and far less elsewhere."""
    monkeypatch.setattr(search, "_complete_lattice", None)
    kernel = nearly_orthogonal(5, 3, seed=0) + 1.0
    gram = SymbolGram(polyphase(kernel, (1, 1), (1, 1)))
    found = search.torus_supremum(gram, 1e-3)
    assert found.tight
    assert largest_on_grid(gram, 64) <= math.exp(found.log_upper) <= 1.001 * math.exp(found.log_lower)


@pytest.mark.parametrize(("grid", "taken"), [((9, 9), True), ((200, 200), False), (None, False)])
def test_flat_spectra_take_the_grid_if_it_is_smaller(grid: tuple[int, int] | None, taken: bool) -> None:
    gram = SymbolGram(polyphase(nearly_orthogonal(5, 3, seed=1), (1, 1), (1, 1)))
    found = search.torus_supremum(gram, 1e-3, grid=grid)
    assert found.grid == (grid if taken else None)
    assert found.tight
    if taken:
        assert math.exp(found.log_upper) <= 1.001 * largest_on_grid(gram, 9)
    else:
        assert largest_on_grid(gram, 64) <= math.exp(found.log_upper) <= 1.001 * math.exp(found.log_lower)


def test_a_grid_beyond_the_budget_is_not_taken() -> None:
    gram = SymbolGram(polyphase(nearly_orthogonal(5, 3, seed=1), (1, 1), (1, 1)))
    found = search.torus_supremum(gram, 1e-3, budget=gram.evaluation_cost * 40, grid=(10, 10))
    assert found.grid is None
    assert largest_on_grid(gram, 64) <= math.exp(found.log_upper)


def test_random_layers_of_networks_are_within_the_tolerance() -> None:
    """Nearly flat spectra, with grids below and above what the search takes."""
    for c_in, c_out, size, stride in ((32, 64, 30, 2), (64, 32, 56, 1), (48, 48, 28, 1), (96, 24, 200, 1)):
        generator = torch.Generator().manual_seed(c_in)
        kernel = torch.randn(c_out, c_in, 3, 3, generator=generator, dtype=torch.float64)
        convolution = Convolution.like_torch(kernel, size, stride=stride, padding=1)
        found = convolution_norm(convolution)
        gram = SymbolGram(polyphase(kernel[None], (stride, stride), (1, 1)))
        assert found.bracket.upper <= 1.001 * math.exp(search.torus_supremum(gram, 1e-3).log_upper)


def test_flat_depthwise_layers_hold_few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = torch.zeros(64, 1, 3, 3, dtype=torch.float64)
    kernel[:, 0, 1, 1] = 1.0
    kernel[:, 0, 0, 1] = kernel[:, 0, 1, 0] = kernel[:, 0, 2, 2] = 1e-9  # every frequency is as good as the maximum
    sizes = []
    bounds = SymbolGram.upper_bounds_at

    def counted(gram: SymbolGram, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        found = bounds(gram, cosine, sine)
        sizes.append(found.numel())
        return found

    monkeypatch.setattr(SymbolGram, "upper_bounds_at", counted)
    bracket = convolution_norm(Convolution.like_torch(kernel, 6000, padding=1, groups=64)).bracket
    assert 1 <= bracket.upper <= 1.02
    assert 0 < sum(sizes) < 2e7


@pytest.mark.parametrize("mode", ["circular", "zeros"])
def test_the_norm_of_an_orthogonal_convolution_is_found_closely(mode: str) -> None:
    """A product of an orthogonal matrix, a projection and a shift of what is left."""
    basis = nn.init.orthogonal_(torch.empty(6, 6, dtype=torch.float64))
    kept = basis[:, :3] @ basis[:, :3].T
    kernel = torch.zeros(6, 6, 3, 3, dtype=torch.float64)
    kernel[:, :, 1, 0], kernel[:, :, 1, 1] = kept, torch.eye(6, dtype=torch.float64) - kept
    for size in (8, 40):
        assert 1 - 1e-9 <= conv_norm(kernel, size, padding=1, padding_mode=mode).upper <= 1 + 2e-6
