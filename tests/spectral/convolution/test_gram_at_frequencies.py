"""The Gram matrix evaluated at every frequency is the one that its lags sum up to, and carries its own error bound."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from lipaudit.spectral.convolution import norm as convolution_module
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.gram_at_frequencies import EvaluatedGram, symbol_gram
from lipaudit.spectral.convolution.norm import convolution_norm
from lipaudit.spectral.convolution.stride import Taps, polyphase
from lipaudit.spectral.convolution.symbol import Frequencies, SymbolGram
from tests.spectral.geometries import Case, cases


def _taps(*shape: int, stride: int = 1, seed: int = 0) -> Taps:
    d = len(shape) - 2
    kernel = torch.randn(1, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return polyphase(kernel, (stride,) * d, (1,) * d)


@pytest.mark.parametrize("shape", [(3, 4, 5), (4, 3, 3, 3), (2, 5, 7, 2), (2, 2, 3, 3, 3), (6, 6, 1, 4)])
@pytest.mark.parametrize("stride", [1, 2])
def test_both_are_the_same_matrices(shape: tuple[int, ...], stride: int) -> None:
    taps = _taps(*shape, stride=stride)
    frequencies = Frequencies.lattice((5,) * (len(shape) - 2))
    groups = torch.zeros(len(frequencies), dtype=torch.long)
    by_lags, evaluated = SymbolGram(taps), EvaluatedGram(taps)
    one, other = by_lags.at(groups, frequencies), evaluated.at(groups, frequencies)
    distance = torch.linalg.matrix_norm(one - other, 2).max()
    assert float(distance) <= by_lags.error + evaluated.error
    assert evaluated.error < 1e-11 * evaluated.scale
    largest = torch.linalg.eigvalsh(other)[:, -1]
    assert bool((evaluated.upper_bounds(frequencies)[0] >= largest).all())


def test_few_frequencies_or_many_taps_are_evaluated() -> None:
    assert type(symbol_gram(_taps(32, 32, 3, 3), 5)) is EvaluatedGram
    assert type(symbol_gram(_taps(32, 32, 3, 3), 2000)) is SymbolGram
    assert type(symbol_gram(_taps(8, 8, 31, 31), 2000)) is EvaluatedGram
    assert type(symbol_gram(_taps(1, 8, 31, 31), 2000)) is SymbolGram  # values instead of matrices
    kernel = torch.randn(4, 8, 8, 15, 15, dtype=torch.float64)
    assert type(symbol_gram(polyphase(kernel, (1, 1), (1, 1)), 5)) is SymbolGram


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases(valid=True))
def test_bounds_hold_for_evaluated_symbols(case: Case) -> None:
    """Every geometry, no written-out matrix between the symbol and the result."""
    kernel = case.kernel()
    try:
        convolution = case.convolution(kernel)
    except ValueError:
        return
    exact = float(torch.linalg.matrix_norm(case.operator(kernel), 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution_module, "is_small", lambda convolution: False)
        patch.setattr(convolution_module, "symbol_gram", lambda taps, _: _evaluated(taps) or SymbolGram(taps))
        bracket = convolution_norm(convolution).bracket
    assert bracket.lower <= exact * (1 + 1e-12) + 1e-300
    assert exact <= bracket.upper * (1 + 1e-13)


def _evaluated(taps: Taps) -> SymbolGram | None:
    return EvaluatedGram(taps) if min(taps.matrices.shape[2:]) > 1 else None


@pytest.mark.parametrize("grid", [True, False])
def test_a_kernel_of_many_taps_is_within_the_tolerance(grid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not grid:
        monkeypatch.setattr(convolution_module, "GRID_FACTOR", 0)
        monkeypatch.setattr(convolution_module, "CHEAP_GRID", 0)
    kernel = torch.randn(4, 4, 21, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    convolution = Convolution.like_torch(kernel, 64, padding="same", padding_mode="circular")
    exact = float(torch.linalg.matrix_norm(torch.fft.fft(kernel, 64).movedim(-1, 0), 2).max())
    with monkeypatch.context() as patch:
        patch.setattr(convolution_module, "symbol_gram", lambda taps, _: EvaluatedGram(taps))
        bracket = convolution_norm(convolution).bracket
    assert exact * (1 - 1e-12) <= bracket.upper
    assert bracket.upper <= exact * (1.0011 if grid else 1 / math.cos(math.pi * 10 / 64))
