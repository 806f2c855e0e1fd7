"""The symbol of a kernel over a grid of frequencies, as the published methods use it.

D(w) = sum_t K_t exp(-i <w, t>) at w = 2 pi j / period, what a fast Fourier transform of the padded kernel gives. Stride is ignored, as in
those papers; a dilated kernel is one with zeros between its taps; a kernel larger than the period wraps around.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from lipaudit.spectral.geometry import Convolution
from lipaudit.spectral.symbol import Frequencies


def grid_symbols(
    convolution: Convolution, period: tuple[int, ...], chunk_numbers: int = 2**24
) -> Iterator[torch.Tensor]:
    """The symbols of all groups on the grid, in chunks of (frequencies, groups, c_out / groups, c_in / groups).

    One of each pair w, -w is left out, because real kernels have D(-w) = conj D(w). About ``chunk_numbers`` numbers are
    held at once.
    """
    taps = convolution.grouped_taps().flatten(3)  # (groups, c_out / groups, c_in / groups, taps)
    positions = torch.cartesian_prod(
        *[torch.arange(k) * d for k, d in zip(convolution.kernel_size, convolution.dilation, strict=True)]
    ).reshape(taps.shape[3], -1)
    flat = torch.complex(taps, torch.zeros_like(taps)).reshape(-1, taps.shape[3])
    index = Frequencies.lattice(period).index
    for part in torch.split(index, max(1, chunk_numbers // len(flat))):
        turns = torch.zeros(len(part), len(positions), dtype=torch.float64)
        for axis, n in enumerate(period):
            turns += (torch.outer(part[:, axis], positions[:, axis]) % n).to(torch.float64) / n
        waves = torch.polar(torch.ones_like(turns), -2 * math.pi * turns).to(flat)  # (frequencies, taps)
        yield (waves @ flat.mT).reshape(-1, *taps.shape[:3])
