"""Bibi, Ghanem, Koltun and Ranftl, *Deep Layers as Stochastic Solvers*, ICLR 2019.

The blocks of Sedghi 2019 through their Gram matrices: with circular padding the Fourier transform block-diagonalises K*
K, so that ||K||^2 is the largest eigenvalue of D(w)* D(w) over the frequencies of the input's grid. The Gram matrix is
taken on the smaller side, which has the same largest eigenvalue.

Exact for circular padding, and a bound without padding; with zero padding an estimate on either side.
"""

from __future__ import annotations

import math

import torch

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.registry import (
    Method,
    Options,
    bounded_by_grid,
    figure,
    refuse_copied_borders,
    register,
)
from lipaudit.spectral.published.symbols import grid_symbols


def bibi2019(convolution: Convolution, options: Options) -> Bracket:
    """max over the grid of the input's size of the root of the largest eigenvalue of D(w)* D(w)."""
    refuse_copied_borders(convolution, "bibi2019")
    largest = 0.0
    for symbols in grid_symbols(convolution, convolution.input_size):
        tall = symbols.mH if symbols.shape[2] < symbols.shape[3] else symbols
        largest = max(largest, float(torch.linalg.eigvalsh(tall.mH @ tall).max()))
    return figure(math.sqrt(largest), Rigor.NUMERICAL if bounded_by_grid(convolution) else Rigor.ESTIMATE)


BIBI2019 = register(
    Method(
        "bibi2019",
        "Bibi 2019",
        "Bibi, Ghanem, Koltun, Ranftl: Deep Layers as Stochastic Solvers, ICLR 2019",
        "largest eigenvalue of the symbol's Gram matrix at every frequency of the input's grid",
        "exact for circular padding at stride 1, an upper bound without padding, an estimate on either side for zero padding; "
        "stride is ignored: a bound stays an upper bound of the strided layer, but is not exact",
        bibi2019,
    )
)
