"""Araujo, Negrevergne, Chevaleyre and Atif, *On Lipschitz Regularization of Convolutional Layers using Toeplitz Matrix Theory*, AAAI 2021.

LipBound: with the scalar symbols f_ij(w) of the kernel from channel j to channel i,

    ||K|| <= sqrt( sum_i sup_w sum_j |f_ij(w)|^2 ).

Proof: on Z^d the operator consists of rows, one per channel i, each a map from all channels j to one, of norm sup_w
(sum_j |f_ij(w)|^2)^(1/2); stacking maps adds the squares of their norms. A zero-padded operator of any size is a
compression of it. As transposing changes no norm, i may run over the inputs or the outputs; here it runs over the
smaller side, as in the authors' code. Dilation changes no supremum.

LipGrid: the suprema are taken over a grid of S samples per axis, 50 unless told otherwise as in [P], and multiplied by
prod (1 - alpha)^(-1/2), alpha = 2 floor(k / 2) / S, in 2-D 1 / (1 - alpha) (see ``sampling``). Then the figure is a
bound again. The authors' code deviates from this: it leaves out the factor, and its grid holds the frequencies 0 and 2
pi, which are the same point, so that S samples are S - 1. Kernels need not be square or odd here.
"""

from __future__ import annotations

import torch

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.registry import (
    Method,
    Options,
    bounded_by_torus,
    count,
    figure,
    refuse_copied_borders,
    register,
)
from lipaudit.spectral.published.sampling import oversampling_factor
from lipaudit.spectral.published.symbols import undilated_symbols

SAMPLES = 50


def largest_on_grid(convolution: Convolution, samples: int) -> torch.Tensor:
    """sqrt(sum_i max_w sum_j |f_ij(w)|^2) over the grid, without the factor that makes it a bound; differentiable in the kernel."""
    period = (samples,) * len(convolution.kernel_size)
    groups, c_out, c_in = convolution.grouped_taps().shape[:3]
    larger = 2 if c_out > c_in else 3
    maxima = convolution.kernel.new_zeros(groups, min(c_out, c_in))
    for symbols in undilated_symbols(convolution, period):
        squares = torch.view_as_real(symbols).square().sum(-1)  # (frequencies, groups, c_out, c_in)
        maxima = torch.maximum(maxima, squares.sum(larger).amax(0))
    return maxima.sum(1).max().sqrt()


def grid_bound(convolution: Convolution, samples: int) -> torch.Tensor:
    """LipGrid with the factor for finitely many samples; differentiable in the kernel."""
    factor = oversampling_factor(convolution.kernel_size, (samples,) * len(convolution.kernel_size))
    return factor * largest_on_grid(convolution, samples)


def araujo2021(convolution: Convolution, options: Options) -> Bracket:
    """LipGrid with the factor for finitely many samples."""
    refuse_copied_borders(convolution, "araujo2021")
    samples = count(options, SAMPLES)
    rigor = Rigor.NUMERICAL if bounded_by_torus(convolution) else Rigor.ESTIMATE
    return figure(grid_bound(convolution, samples), rigor)


ARAUJO2021 = register(
    Method(
        "araujo2021",
        "Araujo 2021",
        "Araujo, Negrevergne, Chevaleyre, Atif: On Lipschitz Regularization of Convolutional Layers using Toeplitz Matrix "
        "Theory, AAAI 2021",
        "root of a sum over channels: the largest squared norm of its row or column of the symbol on a grid, with a factor",
        "an upper bound for zero padding and inputs of any size, also of strided layers, whose stride is ignored",
        araujo2021,
        iterations=SAMPLES,
    )
)
