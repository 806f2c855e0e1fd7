"""Layers and networks of deel-torchlip and orthogonium: what they claim, what is proved, what is found.

    python -m benchmarks.one_lipschitz [WORD ...]

prints a table in Markdown, of the rows whose names contain one of the words. Both packages are in the extra ``peers``.
"""

from __future__ import annotations

import inspect
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

import lipaudit

FLAT, IMAGE, LARGER = (1, 16), (1, 4, 8, 8), (1, 3, 16, 16)


@dataclass(frozen=True)
class Row:
    """A module as a user builds it, the shape of its input, and the constant that it claims."""

    package: str
    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    claimed: float = 1.0


class OfTwo(nn.Module):
    """deel-torchlip's residual connection reads x and f(x)."""

    def __init__(self, residual: nn.Module, inner: nn.Module) -> None:
        super().__init__()
        self.residual, self.inner = residual, inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The connection around the inner module."""
        y: torch.Tensor = self.residual(x, self.inner(x))
        return y


def deel() -> Iterator[Row]:
    """The layers of deel-torchlip."""
    from deel import torchlip
    from deel.torchlip import modules
    from deel.torchlip.modules.downsampling import InvertibleDownSampling
    from deel.torchlip.modules.normalization import BatchCentering, LayerCentering
    from deel.torchlip.modules.pooling import ScaledAdaptativeL2NormPool2d, ScaledL2NormPool2d
    from deel.torchlip.modules.residual import LipResidual
    from deel.torchlip.modules.upsampling import InvertibleUpSampling

    def network() -> nn.Module:
        return torchlip.Sequential(
            torchlip.SpectralConv2d(3, 16, 3, padding=1, padding_mode="circular"),
            torchlip.GroupSort2(),
            ScaledL2NormPool2d(2),
            torchlip.SpectralConv2d(16, 16, 3, padding=1, padding_mode="circular"),
            torchlip.GroupSort2(),
            nn.Flatten(),
            torchlip.SpectralLinear(1024, 64),
            torchlip.FullSort(),
            torchlip.FrobeniusLinear(64, 1),
        )

    rows: list[tuple[str, Callable[[], nn.Module], tuple[int, ...]]] = [
        ("SpectralLinear", lambda: torchlip.SpectralLinear(16, 16), FLAT),
        ("SpectralLinear, wide", lambda: torchlip.SpectralLinear(16, 40), FLAT),
        ("FrobeniusLinear", lambda: torchlip.FrobeniusLinear(16, 1), FLAT),
        ("SpectralConv1d", lambda: modules.SpectralConv1d(4, 8, 3, padding=1), (1, 4, 16)),
        ("SpectralConv2d", lambda: torchlip.SpectralConv2d(4, 8, 3, padding=1), IMAGE),
        (
            "SpectralConv2d, circular",
            lambda: torchlip.SpectralConv2d(4, 8, 3, padding=1, padding_mode="circular"),
            IMAGE,
        ),
        ("SpectralConv2d, stride 2", lambda: torchlip.SpectralConv2d(4, 8, 2, stride=2), IMAGE),
        ("FrobeniusConv2d", lambda: torchlip.FrobeniusConv2d(4, 8, 3, padding=1), IMAGE),
        ("SpectralConvTranspose2d", lambda: modules.SpectralConvTranspose2d(8, 4, 2, stride=2), (1, 8, 4, 4)),
        ("ScaledAvgPool2d", lambda: torchlip.modules.ScaledAvgPool2d(2), IMAGE),
        ("ScaledAdaptiveAvgPool2d", lambda: torchlip.modules.ScaledAdaptiveAvgPool2d((1, 1)), IMAGE),
        ("ScaledL2NormPool2d", lambda: ScaledL2NormPool2d(2), IMAGE),
        ("ScaledAdaptativeL2NormPool2d", lambda: ScaledAdaptativeL2NormPool2d((1, 1)), IMAGE),
        ("InvertibleDownSampling", lambda: InvertibleDownSampling(2), IMAGE),
        ("InvertibleUpSampling", lambda: InvertibleUpSampling(2), IMAGE),
        ("MaxMin", torchlip.MaxMin, IMAGE),
        ("GroupSort(4)", lambda: torchlip.GroupSort(4), IMAGE),
        ("GroupSort2", torchlip.GroupSort2, IMAGE),
        ("FullSort", torchlip.FullSort, FLAT),
        ("LPReLU", modules.LPReLU, IMAGE),
        ("HouseHolder", lambda: modules.HouseHolder(4), IMAGE),
        ("LayerCentering", lambda: LayerCentering(4), IMAGE),
        ("BatchCentering", lambda: BatchCentering(4), IMAGE),
        ("LipResidual", lambda: OfTwo(LipResidual(), torchlip.SpectralLinear(16, 16)), FLAT),
        ("network", network, LARGER),
    ]
    for name, make, shape in rows:
        yield Row("deel-torchlip", name, make, shape)
        exported = name.startswith(("Spectral", "Frobenius", "Scaled", "BatchCentering", "network"))
        if exported:
            yield Row("deel-torchlip", f"{name}, vanilla_export", lambda make=make: _vanilla(make()), shape)  # type: ignore[misc]


def _vanilla(module: nn.Module) -> nn.Module:
    exported: nn.Module = module.eval().vanilla_export()
    return exported


def orthogonium() -> Iterator[Row]:
    """The layers of orthogonium, the Cayley convolution of its legacy ones, and a network."""
    from orthogonium import layers
    from orthogonium.layers.conv.adaptiveSOC import AdaptiveSOCConv2d, AdaptiveSOCConvTranspose2d
    from orthogonium.layers.conv.AOC import RKOConv2d
    from orthogonium.layers.conv.AOL import AOLConv2D, AOLConvTranspose2D
    from orthogonium.layers.conv.SLL import (
        AOCLipschitzResBlock,
        SDPBasedLipschitzDense,
        SDPBasedLipschitzResBlock,
        SLLxAOCLipschitzResBlock,
    )
    from orthogonium.layers.residual import AdditiveResidual, ConcatResidual, L2NormResidual, PrescaledAdditiveResidual
    from orthogonium.legacy.cayley_ortho_conv import Cayley

    conv, deconv = layers.AdaptiveOrthoConv2d, layers.AdaptiveOrthoConvTranspose2d
    inner = lambda channels=4: nn.Sequential(conv(channels, channels, 3, padding="same"), layers.MaxMin())  # noqa: E731

    def network() -> nn.Module:
        return nn.Sequential(
            conv(3, 16, 3, padding=1, padding_mode="circular"), layers.MaxMin(), layers.BatchCentering2D(16),
            conv(16, 32, 4, stride=2, padding=1, padding_mode="circular"), layers.MaxMin(),
            conv(32, 32, 3, padding=1, padding_mode="circular"), layers.MaxMin(),
            nn.AvgPool2d(8, divisor_override=8), nn.Flatten(), layers.OrthoLinear(32, 10),
        )  # fmt: skip

    rows: list[tuple[str, Callable[[], nn.Module], tuple[int, ...]]] = [
        ("AdaptiveOrthoConv2d", lambda: conv(4, 8, 3, padding=1), IMAGE),
        ("AdaptiveOrthoConv2d, circular", lambda: conv(4, 8, 3, padding=1, padding_mode="circular"), IMAGE),
        ("AdaptiveOrthoConv2d, stride 2", lambda: conv(4, 8, 3, padding=1, stride=2), IMAGE),
        ("AdaptiveOrthoConv2d, kernel = stride", lambda: conv(4, 8, 2, stride=2, padding=0), IMAGE),
        ("AdaptiveOrthoConv2d, groups", lambda: conv(4, 8, 3, padding=1, groups=2), IMAGE),
        ("AdaptiveOrthoConvTranspose2d", lambda: deconv(8, 4, 4, stride=2, padding=1), (1, 8, 4, 4)),
        ("RKOConv2d", lambda: RKOConv2d(4, 8, 2, stride=2, padding=0), IMAGE),
        ("OrthoLinear", lambda: layers.OrthoLinear(16, 10), FLAT),
        ("UnitNormLinear", lambda: layers.UnitNormLinear(16, 10), FLAT),
        ("AOLConv2D", lambda: AOLConv2D(4, 8, 3, padding=1), IMAGE),
        ("AOLConvTranspose2D", lambda: AOLConvTranspose2D(8, 4, 4, stride=2, padding=1), (1, 8, 4, 4)),
        ("SDPBasedLipschitzResBlock", lambda: SDPBasedLipschitzResBlock(4, 2), IMAGE),
        ("SDPBasedLipschitzDense", lambda: SDPBasedLipschitzDense(16, 16, 24), FLAT),
        ("AOCLipschitzResBlock", lambda: AOCLipschitzResBlock(4, 2, 3), IMAGE),
        ("AOCLipschitzResBlock, zeros", lambda: AOCLipschitzResBlock(4, 2, 3, padding_mode="zeros"), IMAGE),
        ("SLLxAOCLipschitzResBlock", lambda: SLLxAOCLipschitzResBlock(4, 8, 2, kernel_size=3, stride=2), IMAGE),
        ("AdaptiveSOCConv2d", lambda: AdaptiveSOCConv2d(4, 8, 3, padding=1), IMAGE),
        ("AdaptiveSOCConvTranspose2d", lambda: AdaptiveSOCConvTranspose2d(8, 4, 4, stride=2, padding=1), (1, 8, 4, 4)),
        ("MaxMin", layers.MaxMin, IMAGE),
        ("Abs", layers.Abs, IMAGE),
        ("HouseHolder", lambda: layers.HouseHolder(4), IMAGE),
        ("HouseHolder_Order_2", lambda: layers.HouseHolder_Order_2(4), IMAGE),
        ("BatchCentering2D", lambda: layers.BatchCentering2D(4), IMAGE),
        ("LayerCentering2D", lambda: layers.LayerCentering2D(4), IMAGE),
        ("ChannelShuffle", lambda: layers.ChannelShuffle(2, 2), IMAGE),
        ("ConcatResidual", lambda: ConcatResidual(inner(2)), IMAGE),
        ("L2NormResidual", lambda: L2NormResidual(inner()), IMAGE),
        ("AdditiveResidual", lambda: AdditiveResidual(inner()), IMAGE),
        ("PrescaledAdditiveResidual", lambda: PrescaledAdditiveResidual(inner()), IMAGE),
        ("legacy Cayley", lambda: Cayley(4, 4, 3, padding=1), IMAGE),
        ("network", network, LARGER),
    ]
    for name, make, shape in rows:
        yield Row("orthogonium", name, make, shape)


def line(row: Row) -> str:
    """One line of the table: the upper and the lower bound of a module in evaluation mode, after two steps of training mode."""
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = row.make()
            module.train()
            for _ in range(2):
                module(torch.randn(4, *row.shape[1:]))
            module.eval()(torch.randn(4, *row.shape[1:]))
            report = lipaudit.audit(module, input_shape=_literally(module, row.shape), lower_bound=True)
    except Exception as error:
        text = str(error).splitlines()[0]
        return f"| {row.package} | {row.name} | {row.claimed:g} | {type(error).__name__}: {text[:60]} | |"
    network = report.network
    upper = (
        network.status
        if network.upper_bound is None
        else f"{math.ceil(network.upper_bound * 1e6) / 1e6:.6f}, {network.rigor}"
    )
    lower = "" if network.lower_bound is None else f"{math.floor(network.lower_bound * 1e6) / 1e6:.6f}"
    return f"| {row.package} | {row.name} | {row.claimed:g} | {upper} | {lower} |"


def _literally(module: nn.Module, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """A full shape by the name of the module's input."""
    return {next(iter(inspect.signature(module.forward).parameters)): shape}


def main() -> None:
    """Print the table."""
    words = sys.argv[1:]
    print("| package | layer | claimed | certified upper | lower |\n|---|---|---|---|---|")
    for row in (*deel(), *orthogonium()):
        if not words or any(word in f"{row.package} {row.name}" for word in words):
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
