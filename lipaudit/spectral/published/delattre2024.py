"""Delattre, Barthelemy and Allauzen, *Spectral Norm of Convolutional Layers with Circular and Zero Paddings*, 2024.

Gram iteration of the layer itself, for zero padding and inputs of any size. On Z^d the convolution is T = sum_t K_t S^t
with the unitary shifts S^t, and T* T = sum_l G_l S^l with the taps G_l = sum_t K_t^T K_{t+l}: again a convolution,
whose kernel is the old one convolved with itself and has 2 e - 1 taps on an axis where that had e. After N products, by
the triangle inequality,

    ||T||^(2^N) = ||T^(N+1)|| <= sum_l ||G_l||_2 <= sum_l ||G_l||_F,

so that (sum_l ||G_l||_F)^(2^-N) >= ||T||, and a zero-padded operator, being a compression of T, has at most that norm;
so have circular convolutions, whose frequencies are some of T's. The sum has L = prod (2^N (e - 1) + 1) terms, each at
most sqrt(m) ||T||^(2^N) for m channels on the smaller side, hence the overshoot is at most (L sqrt(m))^(2^-N).

The products are taken at the frequencies of a grid with as many points as the last kernel has taps, where the symbols
multiply and nothing wraps around, with one scale for all that is kept as a logarithm. The taps are undilated ones:
dilation changes no norm of T. The last kernel doubles with each product. Unless the options name their number, 6
products are taken, or fewer where the symbols would exceed ``BUDGET`` numbers, which costs tightness and never the
bound.
"""

from __future__ import annotations

import math

import torch

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.errors import TooManyProductsError
from lipaudit.spectral.published.registry import (
    Method,
    Options,
    bounded_by_torus,
    count,
    figure,
    refuse_copied_borders,
    register,
)
from lipaudit.spectral.published.symbols import undilated_symbols

PRODUCTS = 6
BUDGET = 2**26  # numbers of the symbols on the last grid


def delattre2024(convolution: Convolution, options: Options) -> Bracket:
    """(sum_l ||G_l||_F)^(2^-N) for the kernel G after N Gram products."""
    refuse_copied_borders(convolution, "delattre2024")
    products = _products(convolution, options)
    period = _last_size(convolution, products)
    symbols = torch.cat(list(undilated_symbols(convolution, period)))  # (frequencies, groups, c_out, c_in)
    symbols = symbols.mH if symbols.shape[2] < symbols.shape[3] else symbols
    log_scale = 0.0
    for product in range(products):
        scale = float(torch.linalg.matrix_norm(symbols).max())
        log_scale += math.log(scale) * 0.5**product
        symbols = symbols / scale
        symbols = symbols.mH @ symbols
    sums = torch.linalg.matrix_norm(_taps(symbols, period), dim=(-2, -1)).sum(0)  # (groups,)
    bound = float(sums.max()) ** (0.5**products) * math.exp(log_scale)
    return figure(bound, Rigor.NUMERICAL if bounded_by_torus(convolution) else Rigor.ESTIMATE)


def _last_size(convolution: Convolution, products: int) -> tuple[int, ...]:
    """Taps per axis after that many products: 2^N (k - 1) + 1."""
    return tuple(2**products * (k - 1) + 1 for k in convolution.kernel_size)


def _products(convolution: Convolution, options: Options) -> int:
    """The number of products, reduced to what the budget allows unless it was asked for."""
    groups, c_out, c_in = convolution.grouped_taps().shape[:3]

    def fits(products: int) -> bool:
        return math.prod(_last_size(convolution, products)) * groups * max(c_out, c_in) * min(c_out, c_in) <= BUDGET

    most = next((products for products in range(PRODUCTS, 1, -1) if fits(products)), 1)
    asked = count(options, most)
    if asked > most and not fits(asked):
        raise TooManyProductsError(asked, most, BUDGET, tuple(convolution.kernel.shape))
    return asked


def _taps(symbols: torch.Tensor, period: tuple[int, ...]) -> torch.Tensor:
    """The kernel (taps, groups, m, m) of symbols over the half of a grid, or over the whole where nothing is left out."""
    half = period[-1] // 2 + 1
    grid = symbols.reshape(half, *period[:-1], *symbols.shape[1:]).movedim(0, len(period) - 1)
    taps: torch.Tensor = torch.fft.irfftn(grid, s=period, dim=tuple(range(len(period))))
    return taps.flatten(0, len(period) - 1)


DELATTRE2024 = register(
    Method(
        "delattre2024",
        "Delattre 2024",
        "Delattre, Barthelemy, Allauzen: Spectral Norm of Convolutional Layers with Circular and Zero Paddings, arXiv 2402.00240, 2024",
        "Gram iteration of the kernel convolved with itself, then the sum of the norms of its taps",
        "an upper bound for zero padding and inputs of any size, up to rounding, also of strided layers, whose stride is ignored; "
        "wide layers take fewer iterations unless a number is given",
        delattre2024,
        iterations=PRODUCTS,
    )
)
