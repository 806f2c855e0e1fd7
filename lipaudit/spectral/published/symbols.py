"""The symbol of a kernel over a grid of frequencies, as the published methods use it.

D(w) = sum_t K_t exp(-i <w, t>) at w = 2 pi j / period is the fast Fourier transform of the kernel padded to the period.
Stride is ignored, as in those papers; a dilated kernel is one with zeros between its taps; a kernel larger than the
period wraps around, as it does in a circular convolution, where a transform that pads would cut it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from lipaudit.spectral.convolution.geometry import Convolution


def grid_symbols(
    convolution: Convolution, period: tuple[int, ...], chunk_numbers: int = 2**24
) -> Iterator[torch.Tensor]:
    """The symbols of all groups on the grid, in chunks of (frequencies, groups, c_out / groups, c_in / groups).

    Real kernels have D(-w) = conj D(w), so that the last axis is covered by half of its frequencies. The transform is taken
    over that axis first and then over the others for some of its frequencies after another: about ``chunk_numbers`` numbers
    are held at once, the same ones that a transform of the whole gives.

    >>> kernel = torch.tensor([[[1.0, -1.0]]])
    >>> convolution = Convolution(kernel, (4,), (1,), ((0, 1),), (1,), padding_mode="circular")
    >>> [round(float(x.abs()), 3) for x in torch.cat(list(grid_symbols(convolution, (4,))))]
    [0.0, 1.414, 2.0]
    """
    kernel = convolution.grouped_taps()
    matrices = math.prod(kernel.shape[:3])
    for axis, (n, dilation) in enumerate(zip(period, convolution.dilation, strict=True), start=3):
        kernel = _wrapped(kernel, axis, n, dilation)
    columns = torch.fft.rfft(kernel, n=period[-1], dim=-1).movedim(-1, 0)  # (frequencies, groups, c_out, c_in, *k)
    others = period[:-1]
    for part in columns.split(max(1, chunk_numbers // (matrices * math.prod(others)))):
        if others:
            part = torch.fft.fftn(part, s=others, dim=tuple(range(4, 4 + len(others))))
        symbols = part.flatten(4) if others else part[..., None]
        symbols = symbols.movedim(-1, 1).reshape(-1, *kernel.shape[:3])
        yield from symbols.split(max(1, chunk_numbers // matrices))


def undilated_symbols(
    convolution: Convolution, period: tuple[int, ...], chunk_numbers: int = 2**24
) -> Iterator[torch.Tensor]:
    """The symbols of the same taps next to each other: D(w) for D(d w), with the same supremum over all frequencies."""
    yield from grid_symbols(replace(convolution, dilation=(1,) * len(period)), period, chunk_numbers)


def _wrapped(kernel: torch.Tensor, axis: int, period: int, dilation: int) -> torch.Tensor:
    """The kernel with its taps ``dilation`` apart along one axis, those beyond the period added to where they wrap to."""
    taps = kernel.shape[axis]
    extent = (taps - 1) * dilation + 1
    if dilation == 1 and extent <= period:
        return kernel
    shape = list(kernel.shape)
    shape[axis] = min(extent, period)
    positions = torch.arange(taps, device=kernel.device) * dilation % period
    return kernel.new_zeros(shape).index_add(axis, positions, kernel)
