"""Convolution geometries for property tests, and their operators written out through torch's own modules."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn

from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import conv_norm

MODES = ("zeros", "circular", "reflect", "replicate")
# By number of spatial axes: the largest input and kernel side that keep the operator small.
_LARGEST_INPUT = {1: 16, 2: 7, 3: 4}
_LARGEST_KERNEL = {1: 6, 2: 5, 3: 3}
_CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


@dataclass(frozen=True)
class Case:
    """Arguments of one of torch's convolution modules, without the weights."""

    channels: tuple[int, int]
    kernel_size: tuple[int, ...]
    input_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    dilation: tuple[int, ...]
    groups: int = 1
    padding_mode: str = "zeros"
    transposed: bool = False
    output_padding: tuple[int, ...] = ()
    weights: str = "gaussian"
    seed: int = 0

    def kernel(self) -> torch.Tensor:
        c_in, c_out = self.channels
        sides = (c_in, c_out // self.groups) if self.transposed else (c_out, c_in // self.groups)
        generator = torch.Generator().manual_seed(self.seed)
        gaussian = torch.randn(*sides, *self.kernel_size, dtype=torch.float64, generator=generator)
        match self.weights:
            case "gaussian":
                return gaussian
            case "ones":
                return torch.ones_like(gaussian)
            case "rank one":
                factors = (
                    gaussian[(0, 0)][None, None],
                    gaussian.flatten(2)[..., 0].reshape(*sides, *[1] * len(self.kernel_size)),
                )
                return factors[0] * factors[1]
            case "sparse":
                return gaussian * (torch.rand(gaussian.shape, generator=generator) < 0.3)
            case "first tap zero":
                return gaussian.index_fill(2, torch.tensor([0]), 0.0)
            case "wide range":
                spread = torch.rand(gaussian.shape, dtype=torch.float64, generator=generator) * 60 - 30
                return gaussian * 10.0**spread
            case _:
                raise AssertionError(self.weights)

    def module(self, kernel: torch.Tensor) -> nn.Module:
        """torch's module with these weights; ValueError or RuntimeError where torch refuses the arguments."""
        d, (c_in, c_out) = len(self.kernel_size), self.channels
        if self.transposed:
            options = (self.stride, self.padding, self.output_padding, self.groups, False, self.dilation)
            module = _TRANSPOSED[d](c_in, c_out, self.kernel_size, *options)
        else:
            options = (self.stride, self.padding, self.dilation, self.groups, False, self.padding_mode)
            module = _CONV[d](c_in, c_out, self.kernel_size, *options)
        module.weight = nn.Parameter(kernel, requires_grad=False)
        return module

    def operator(self, kernel: torch.Tensor) -> torch.Tensor:
        """The matrix (inputs, outputs) of the map; torch's own refusal where it refuses the geometry."""
        c_in = self.channels[0]
        side = c_in * math.prod(self.input_size)
        basis = torch.eye(side, dtype=kernel.dtype).reshape(side, c_in, *self.input_size)
        with warnings.catch_warnings():
            # torch pads an even kernel with "same" by a copy of the input, and says so
            warnings.filterwarnings("ignore", message="Using padding='same' with even kernel lengths")
            images: torch.Tensor = self.module(kernel)(basis)
        if images.numel() == 0:
            raise RuntimeError("empty output")
        return images.flatten(1)

    def _geometry(self) -> tuple[Any, ...]:
        """The arguments after the kernel, in torch's order."""
        return (
            self.input_size, self.stride, self.padding, self.dilation, self.groups, self.padding_mode, self.transposed,
            self.output_padding or 0,
        )  # fmt: skip

    def convolution(self, kernel: torch.Tensor) -> Convolution:
        """The geometry as lipaudit reads torch's arguments; ValueError where it refuses them."""
        return Convolution.like_torch(kernel, *self._geometry())

    def norm(self, kernel: torch.Tensor, tol: float = 1e-3) -> Bracket:
        return conv_norm(kernel, *self._geometry(), tol)


WEIGHTS = ("gaussian", "gaussian", "ones", "rank one", "sparse", "first tap zero", "wide range")


@st.composite
def cases(draw: st.DrawFn, valid: bool = False) -> Case:
    """Any geometry, in 1 to 3 dimensions; without ``valid`` many are refused by torch."""
    d = draw(st.sampled_from([1, 2, 2, 2, 3]))
    transposed = draw(st.sampled_from([False, False, False, True]))
    mode = "zeros" if transposed else draw(st.sampled_from(["zeros", *MODES]))
    groups = draw(st.sampled_from([1, 1, 2, 3]))

    def axes(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(d))

    channels = (groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3)))
    kernel_size = axes(1, _LARGEST_KERNEL[d])
    input_size, stride, dilation = axes(1, _LARGEST_INPUT[d]), axes(1, 3), axes(1, 3)
    padding: tuple[int, ...] | str = axes(0, 4)
    if not transposed and draw(st.integers(0, 4)) == 0:
        padding, stride = "same", (1,) * d
    output_padding = axes(0, 2) if transposed else ()
    if valid:
        padding, dilation, output_padding = _repaired(
            kernel_size, input_size, stride, padding, dilation, mode, transposed, output_padding
        )
    return Case(
        channels, kernel_size, input_size, stride, padding, dilation, groups, mode, transposed, output_padding,
        draw(st.sampled_from(WEIGHTS)), draw(st.integers(0, 2**31 - 1)),
    )  # fmt: skip


def _repaired(
    kernel_size: tuple[int, ...],
    input_size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...] | str,
    dilation: tuple[int, ...],
    mode: str,
    transposed: bool,
    output_padding: tuple[int, ...],
) -> tuple[tuple[int, ...] | str, tuple[int, ...], tuple[int, ...]]:
    """The nearest padding, dilation and output padding that torch accepts."""
    limits = {"zeros": lambda h: 99, "circular": lambda h: h, "reflect": lambda h: h - 1, "replicate": lambda h: 99}[
        mode
    ]
    if padding == "same":
        fits = all(
            (extra := d * (k - 1)) - extra // 2 <= limits(h)
            for h, k, d in zip(input_size, kernel_size, dilation, strict=True)
        )
        return ("same" if fits else (0,) * len(input_size)), dilation if fits else (1,) * len(input_size), ()
    paddings, dilations, extras = [], [], []
    for axis, (h, k, s, p, d) in enumerate(zip(input_size, kernel_size, stride, padding, dilation, strict=True)):
        p = min(int(p), limits(h))
        if transposed:
            o = min(output_padding[axis], max(s, d) - 1)
            extras.append(o)
            p = min(p, ((h - 1) * s + d * (k - 1) + o) // 2)
        elif h + 2 * p < d * (k - 1) + 1:
            d = 1
        paddings.append(p)
        dilations.append(d)
    return tuple(paddings), tuple(dilations), tuple(extras)
