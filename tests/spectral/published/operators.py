"""Convolutions written out as matrices by numpy, and their symbols by the definition, without any transform."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lipaudit.spectral.convolution.geometry import Convolution

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class Geometry:
    """A convolution of small size with Gaussian weights; ``padding`` the same on both sides unless pairs are given."""

    channels: tuple[int, int]
    kernel_size: tuple[int, ...]
    input_size: tuple[int, ...]
    mode: str = "zeros"
    padding: tuple[tuple[int, int], ...] | None = None
    stride: tuple[int, ...] | None = None
    dilation: tuple[int, ...] | None = None
    groups: int = 1
    seed: int = 0

    def convolution(self) -> Convolution:
        c_in, c_out = self.channels
        ones = (1,) * len(self.kernel_size)
        shape = (c_out, c_in // self.groups, *self.kernel_size)
        kernel = torch.from_numpy(np.random.default_rng(self.seed).standard_normal(shape))
        dilation = self.dilation or ones
        same = tuple(
            (d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2) for k, d in zip(self.kernel_size, dilation, strict=True)
        )
        padding = same if self.padding is None else self.padding
        return Convolution(
            kernel, self.input_size, self.stride or ones, padding, dilation, self.groups, padding_mode=self.mode
        )


def source(position: int, size: int, mode: str) -> int | None:
    """The pixel that stands at a position of the padded axis."""
    if 0 <= position < size:
        return position
    return {"zeros": None, "circular": position % size, "replicate": min(max(position, 0), size - 1)}[mode]


def selection(convolution: Convolution, axis: int, tap: int) -> Array:
    """The matrix (outputs, inputs) by which one tap reads one axis."""
    size, outputs = convolution.input_size[axis], convolution.output_size[axis]
    matrix = np.zeros((outputs, size))
    for j in range(outputs):
        position = j * convolution.stride[axis] + tap * convolution.dilation[axis] - convolution.padding[axis][0]
        pixel = source(position, size, convolution.padding_mode)
        if pixel is not None:
            matrix[j, pixel] = 1
    return matrix


def blocks(convolution: Convolution) -> list[Array]:
    """The kernel of each group, (c_out / groups, c_in / groups, *k)."""
    kernel: Array = convolution.kernel.double().numpy()
    return np.split(kernel, convolution.groups)


def operator(convolution: Convolution) -> Array:
    """The matrix (outputs, inputs) of an ordinary convolution."""
    groups = []
    for kernel in blocks(convolution):
        parts = []
        for taps in np.ndindex(*convolution.kernel_size):
            axes = [selection(convolution, axis, tap) for axis, tap in enumerate(taps)]
            parts.append(np.kron(kernel[(slice(None), slice(None), *taps)], functools.reduce(np.kron, axes)))
        groups.append(sum(parts))
    rows, columns = groups[0].shape
    matrix = np.zeros((rows * len(groups), columns * len(groups)))
    for i, group in enumerate(groups):
        matrix[i * rows : (i + 1) * rows, i * columns : (i + 1) * columns] = group
    return matrix


def norm(matrix: Array | Complex) -> float:
    return float(np.linalg.norm(matrix, 2))


def symbols(kernel: Array, dilation: tuple[int, ...], period: tuple[int, ...]) -> list[Complex]:
    """D(w) = sum_t K_t exp(-i <w, t>) at every frequency of the grid."""
    found = []
    for frequency in itertools.product(*[range(n) for n in period]):
        total = np.zeros(kernel.shape[:2], dtype=complex)
        for taps in np.ndindex(*kernel.shape[2:]):
            turn = sum(f * d * t / n for f, d, t, n in zip(frequency, dilation, taps, period, strict=True))
            total += kernel[(slice(None), slice(None), *taps)] * np.exp(-2j * np.pi * turn)
        found.append(total)
    return found


GEOMETRIES = [
    Geometry((2, 4), (3, 3), (5, 6)),
    Geometry((4, 2), (3, 3), (5, 5), "circular"),
    Geometry((3, 3), (1, 1), (4, 4)),
    Geometry((3, 2), (2, 3), (4, 6), "circular"),
    Geometry((2, 3), (3, 2), (6, 7), dilation=(2, 1)),
    Geometry((2, 2), (3, 3), (7, 7), "circular", dilation=(2, 2)),
    Geometry((4, 6), (3, 3), (5, 5), groups=2),
    Geometry((4, 4), (3, 3), (5, 5), "circular", groups=4),
    Geometry((2, 3), (3, 3), (7, 8), stride=(2, 2)),
    Geometry((2, 2), (3, 3), (6, 6), "circular", stride=(2, 1)),
    Geometry((2, 3), (3, 3), (6, 5), padding=((0, 0), (0, 0))),
    Geometry((1, 2), (5, 5), (3, 3), "circular", padding=((2, 2), (2, 2))),
    Geometry((2, 3), (4,), (9,)),
    Geometry((3, 2), (3,), (7,), "circular"),
    Geometry((2, 2), (2, 3, 2), (3, 4, 3)),
    Geometry((1, 2), (2, 2, 2), (3, 3, 4), "circular"),
]
