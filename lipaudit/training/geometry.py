"""What a bound needs to know of a layer besides its weight, and the symbol of any weight with that geometry.

A convolution with stride, dilation, groups and padding is a stride-free one whose blocks K_t, t a shift, are made of the taps of the
kernel (:func:`lipaudit.spectral.convolution.stride.polyphase`); which tap stands where depends on the geometry alone. So do the
frequencies at which the symbol D(w) = sum_t K_t exp(-i <w, t>) has to be evaluated
(:func:`lipaudit.spectral.convolution.frequencies.reduce`): a grid of N points per axis. A grid of more than M = q e points, e the
extent of the shifts, is replaced by a lattice of M points, over which

    sup_w sigma_1(D(w)) <= max over the lattice / prod cos(pi e / (2 M)) = max over the lattice / cos(pi / (2 q))^axes,

because u* D(w) v is a trigonometric polynomial of degree e / 2 (``lattice``; Ehlich and Zeller, 1964). A dense layer has one block and
one frequency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch.nn import functional

from lipaudit.spectral.convolution.frequencies import Reduction, crop, reduce
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.symbol import Frequencies

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Geometry:
    """A convolution without its kernel; arguments as for ``torch.nn.Conv2d`` and ``ConvTranspose2d`` in 1 to 3 dimensions.

    ``input_size`` are the spatial sizes of the input; ``padding`` may also be a (left, right) pair per axis.

    >>> Geometry((8, 8), padding=1) == Geometry([8, 8], padding=1)
    True
    """

    input_size: int | Sequence[int]
    stride: int | Sequence[int] = 1
    padding: int | str | Sequence[int] | Pairs = 0
    dilation: int | Sequence[int] = 1
    groups: int = 1
    padding_mode: str = "zeros"
    transposed: bool = False
    output_padding: int | Sequence[int] = 0

    def __post_init__(self) -> None:
        for name in ("input_size", "stride", "padding", "dilation", "output_padding"):
            value = getattr(self, name)
            if not isinstance(value, int | str):
                object.__setattr__(self, name, tuple(tuple(v) if isinstance(v, Sequence) else int(v) for v in value))

    @classmethod
    def of(cls, convolution: Convolution) -> Geometry:
        """That of a convolution."""
        return cls(*convolution.geometry)  # type: ignore[arg-type]

    def convolution(self, kernel: torch.Tensor) -> Convolution:
        """The convolution with this kernel; ValueError where torch would refuse it."""
        options = (self.groups, self.padding_mode, self.transposed)
        if isinstance(self.padding, int | str) or not all(isinstance(p, tuple) for p in self.padding):
            padding: Any = self.padding
            return Convolution.like_torch(
                kernel, self.input_size, self.stride, padding, self.dilation, *options, self.output_padding
            )
        sizes, stride, dilation, outer = (
            (value,) * (kernel.dim() - 2) if isinstance(value, int) else tuple(value)
            for value in (self.input_size, self.stride, self.dilation, self.output_padding)
        )
        return Convolution(kernel, sizes, stride, self.padding, dilation, *options, outer)  # type: ignore[arg-type]


def encode(convolution: Convolution) -> list[int]:
    """The integers of a geometry in one list, as an operation of torch takes them."""
    outer = convolution.output_padding or (0,) * len(convolution.stride)
    sides = [p for pair in convolution.padding for p in pair]
    axes = [*convolution.input_size, *convolution.stride, *sides, *convolution.dilation, *outer]
    return [*axes, convolution.groups, int(convolution.transposed)]


def _decode(kernel: torch.Tensor, sizes: Sequence[int], mode: str) -> Convolution:
    d = kernel.dim() - 2
    parts = [tuple(sizes[start * d : (start + 1) * d]) for start in range(6)]
    size, stride, first, second, dilation, outer = parts
    sides = first + second
    pairs = tuple(zip(sides[::2], sides[1::2], strict=True))
    transposed = bool(sizes[-1])
    return Convolution(kernel, size, stride, pairs, dilation, 1, mode, transposed, outer)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the taps of a kernel stand in its symbol, and the frequencies that count.

    ``places`` (shifts, phases) has 1 + the number of the tap, 0 where there is none; ``offsets`` (shifts, d) are the shifts.
    The norm of the layer is at most ``factor`` times the largest sigma_1 of the symbols of all groups at ``frequencies``.
    """

    places: torch.Tensor
    offsets: torch.Tensor
    frequencies: Frequencies
    factor: float
    groups: int

    def waves(self, chosen: slice) -> torch.Tensor:
        """exp(-i <w, t>) for the chosen frequencies and every shift, (points, shifts), in complex128."""
        phases = self.frequencies.select(chosen).phases(self.offsets)
        return torch.polar(torch.ones_like(phases), -phases)

    def blocks(self, weight: torch.Tensor) -> torch.Tensor:
        """K_t for every group and shift, (groups, shifts, c_out / groups, phases * c_in / groups), of a weight as torch stores it."""
        kernels = weight.reshape(self.groups, -1, weight.shape[1], math.prod(weight.shape[2:]))
        taps = functional.pad(kernels, (1, 0)).index_select(3, self.places.flatten().to(weight.device))
        return taps.reshape(*taps.shape[:3], *self.places.shape).permute(0, 3, 1, 4, 2).flatten(3)

    def weight_gradient(self, blocks: torch.Tensor, group: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """The adjoint of :meth:`blocks` on one group (1,), from (shifts, c_out / groups, phases * c_in / groups)."""
        shifts, rows, _ = blocks.shape
        taps = blocks.reshape(shifts, rows, -1, like.shape[1]).permute(1, 3, 0, 2).flatten(2)
        places = self.places.flatten().to(blocks.device)
        kernel = taps.new_zeros(rows, like.shape[1], math.prod(like.shape[2:]) + 1).index_add_(2, places, taps)
        result = taps.new_zeros(self.groups, rows * like[0].numel())
        return result.index_copy_(0, group, kernel[..., 1:].reshape(1, -1)).reshape(like.shape)


@lru_cache(maxsize=512)
def layout(
    kernel_size: tuple[int, ...], sizes: tuple[int, ...], mode: str, oversampling: int, any_size: bool
) -> Layout:
    """The layout of all kernels with these taps per axis and the integers of :func:`encode`; without taps that of a matrix.

    With ``any_size`` the bound is that of the convolution on all of Z^d, and holds for inputs of any size.
    """
    if not kernel_size:
        one = torch.ones(1, 1, dtype=torch.long)
        return Layout(one, torch.zeros(1, 1, dtype=torch.long), Frequencies.lattice((1,)), 1.0, 1)
    # a kernel of one channel whose entries are the numbers of its taps goes the way of every kernel
    numbers = torch.arange(1.0, math.prod(kernel_size) + 1, dtype=torch.float64).reshape(1, 1, *kernel_size)
    convolution = _decode(numbers, sizes, mode)
    convolution = convolution.adjoint() if convolution.transposed else convolution
    reduced = reduce(convolution if any_size else crop(convolution))
    period, factor = _lattice(reduced, oversampling, any_size)
    places = reduced.taps.matrices[0, :, 0].to(torch.long)
    frequencies = Frequencies.lattice(period)
    return Layout(places, reduced.taps.offsets, frequencies, factor * math.sqrt(reduced.copies), sizes[-2])


def _lattice(reduced: Reduction, oversampling: int, any_size: bool) -> tuple[tuple[int, ...], float]:
    """Points per axis and the factor of the axes that get fewer than the grid has."""
    period, factor = list(reduced.period), 1.0
    for axis, degree in enumerate(reduced.taps.degrees):
        points = round(2 * degree) * oversampling
        if degree and (any_size or points < period[axis]):
            period[axis] = points
            factor /= math.cos(math.pi / (2 * oversampling))
    return tuple(period), factor
