"""Sedghi, Gupta and Long, *The Singular Values of Convolutional Layers*, ICLR 2019.

Theorem 6: the singular values of a circular convolution on n x n inputs with stride 1 are those of the c_out x c_in
matrices D(w) = sum_t K_t exp(-i <w, t>) at the n^2 frequencies w of the grid. So sigma_1 = max_w sigma_1(D(w)), by one
singular value decomposition per frequency; real kernels have D(-w) = conj D(w), so half of them suffice.

Exact for circular padding, and a bound without padding, where the operator selects rows of the circular one. With zero
padding it is an estimate that can lie on either side. The authors' code pads the kernel with ``fft2(kernel, (n, n))``,
which cuts a kernel that is larger than the input; here its taps wrap around, as in a circular convolution.
"""

from __future__ import annotations

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


def sedghi2019(convolution: Convolution, options: Options) -> Bracket:
    """max over the grid of the input's size of sigma_1(D(w)), by singular value decomposition."""
    refuse_copied_borders(convolution, "sedghi2019")
    largest = max(
        float(torch.linalg.svdvals(symbols).max()) for symbols in grid_symbols(convolution, convolution.input_size)
    )
    return figure(largest, Rigor.NUMERICAL if bounded_by_grid(convolution) else Rigor.ESTIMATE)


SEDGHI2019 = register(
    Method(
        "sedghi2019",
        "Sedghi 2019",
        "Sedghi, Gupta, Long: The Singular Values of Convolutional Layers, ICLR 2019",
        "singular value decomposition of the symbol at every frequency of the input's grid",
        "exact for circular padding at stride 1, an upper bound without padding, an estimate on either side for zero padding; "
        "stride is ignored: a bound stays an upper bound of the strided layer, but is not exact",
        sedghi2019,
    )
)
