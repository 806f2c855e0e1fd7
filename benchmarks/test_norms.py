"""Hard cases for the norm of one layer: ``pytest benchmarks`` (the extra ``bench``).

``--benchmark-autosave`` keeps the times, ``--benchmark-compare`` compares with those of an earlier run on the same machine.
Every case states, too, how close its bracket must be, or which number it must hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import convolution_norm
from lipaudit.spectral.matrix.gram import spectral_norm

TOL = 1e-3
# upper / lower of layers with zero padding: the upper end is the supremum over all frequencies, the lower end knows of the border
NEAR, MOSTLY_BORDER = 1.25, 2.0


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def gaussian(*shape: int) -> torch.Tensor:
    """A seeded random kernel, scaled to keep variance: nearly flat spectra."""
    fan_in = math.prod(shape[1:])
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)) / math.sqrt(fan_in)


def convolution(kernel: torch.Tensor, size: int, **geometry: Any) -> Convolution:
    return Convolution.like_torch(kernel, (size,) * (kernel.dim() - 2), **{"padding": "same"} | geometry)


def orthogonal(channels: int, size: int) -> torch.Tensor:
    """Orthogonal matrices that shift every channel by its own offset: every singular value of the circular layer is 1."""
    matrix, _ = torch.linalg.qr(gaussian(channels, channels).double())
    kernel = torch.zeros(channels, channels, size, size, dtype=torch.float64)
    for channel in range(channels):
        kernel[:, channel, channel % size, channel // size % size] = matrix[:, channel]
    return kernel


def rank_one(channels: int, size: int) -> torch.Tensor:
    """Outer products of one vector per axis: one singular value per frequency."""
    out, into, rows, columns = (gaussian(1, n).flatten() for n in (channels, channels, size, size))
    return torch.einsum("o,i,h,w->oihw", out, into, rows, columns)


RANDOM: dict[str, Callable[[], Convolution]] = {
    "flat 64 channels, torus, 224 pixels": lambda: convolution(gaussian(64, 64, 3, 3), 224),
    "flat 256 channels, grid, 14 pixels": lambda: convolution(gaussian(256, 256, 3, 3), 14),
    "grid 8 pixels": lambda: convolution(gaussian(64, 64, 3, 3), 8),
    "grid 32 pixels": lambda: convolution(gaussian(16, 16, 3, 3), 32),
    "torus 1024 pixels": lambda: convolution(gaussian(16, 16, 3, 3), 1024),
    "stride 2": lambda: convolution(gaussian(64, 3, 7, 7), 224, stride=2, padding=3),
    "rank one": lambda: convolution(rank_one(64, 3), 56),
    "7x7": lambda: convolution(gaussian(32, 32, 7, 7), 56),
    "31x31": lambda: convolution(gaussian(4, 4, 31, 31), 56),
    "31x31 depthwise": lambda: convolution(gaussian(64, 1, 31, 31), 56, groups=64),
    "7x7 depthwise": lambda: convolution(gaussian(384, 1, 7, 7), 14, groups=384),
    "3x3 depthwise": lambda: convolution(gaussian(576, 1, 3, 3), 14, groups=576),
    "1 channel": lambda: convolution(gaussian(1, 1, 3, 3), 224),
    "4096 channels, depthwise": lambda: convolution(gaussian(4096, 1, 3, 3), 14, groups=4096),
    "4096 channels, 1x1": lambda: convolution(gaussian(4096, 64, 1, 1), 14),
    "1 dimension": lambda: convolution(gaussian(128, 128, 9), 1000),
    "transposed": lambda: convolution(gaussian(64, 32, 4, 4), 28, stride=2, padding=1, transposed=True),
}


@pytest.mark.parametrize("name", RANDOM)
def test_convolution(benchmark: Any, name: str) -> None:
    layer = RANDOM[name]()
    bracket = benchmark.pedantic(convolution_norm, (layer, TOL), rounds=3, warmup_rounds=1).bracket
    most = MOSTLY_BORDER if 2 * max(layer.kernel_size) > max(layer.input_size) else NEAR
    assert bracket.lower <= bracket.upper <= most * bracket.lower


def test_orthogonal_kernel(benchmark: Any) -> None:
    layer = convolution(orthogonal(64, 3), 32, padding_mode="circular")
    bracket = benchmark.pedantic(convolution_norm, (layer, TOL), rounds=3, warmup_rounds=1).bracket
    assert bracket.lower <= 1 <= bracket.upper <= 1 + 2 * TOL


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_tolerance(benchmark: Any, tolerance: float) -> None:
    layer = convolution(gaussian(64, 64, 3, 3), 56, padding_mode="circular")
    bracket = benchmark.pedantic(convolution_norm, (layer, tolerance), rounds=3, warmup_rounds=1).bracket
    assert bracket.lower <= bracket.upper <= (1 + 2 * tolerance) * bracket.lower


@pytest.mark.parametrize("shape", [(1000, 512), (1000, 2048), (4096, 4096), (4096, 25088)], ids=str)
def test_dense(benchmark: Any, shape: tuple[int, int]) -> None:
    matrix = gaussian(*shape)
    bracket = benchmark.pedantic(spectral_norm, (matrix, TOL), rounds=1)
    assert bracket.lower <= bracket.upper <= (1 + TOL) * bracket.lower
    # the largest singular value of a random matrix is near 1 + sqrt(rows / columns) in units of its deviation
    assert bracket.upper == pytest.approx(1 + math.sqrt(shape[0] / shape[1]), rel=0.02)
