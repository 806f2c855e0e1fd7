"""Delattre, Barthelemy, Araujo and Allauzen, *Efficient Bound of Lipschitz Constant for Convolutional Layers by Gram Iteration*, ICML 2023.

[P] algorithm 3: the kernel padded to the input's size and transformed, and Gram iteration (``gram_iteration``) on the
symbol at every frequency, all in the precision that the options name (float32 in the paper): max_i
||D_i^(N+1)||_F^(2^-N) with N Gram products, 7 unless told otherwise as for the paper's networks.

The value bounds the circular convolution of the input's size up to rounding, hence the layer under circular padding or
without padding. For zero padding [P] takes the same value, which is then an estimate: [[1, -1], [-1, 1]] exceeds it by
8 % on 3 x 3 pixels.

[P] appendix D.1 takes a grid of n_0 < n points per axis and multiplies by alpha = 2 floor(k / 2) / n_0, which is below
1 and cannot be meant. The factor that the theorem gives is prod (1 - alpha)^(-1/2), in 2-D 1 / (1 - alpha) (see
``sampling``); with it the value bounds sigma_1 over all frequencies, so that zero padding of any size is covered. On
fine grids lipaudit's own cosine factor is closer to 1.

The authors' code cuts kernels that are larger than the input (here they wrap around) and returns NaN for a kernel whose
symbol vanishes at a frequency.
"""

from __future__ import annotations

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.gram_iteration import schatten_norms
from lipaudit.spectral.published.registry import (
    Method,
    Options,
    bounded_by_grid,
    bounded_by_torus,
    count,
    figure,
    refuse_copied_borders,
    register,
)
from lipaudit.spectral.published.sampling import oversampling_factor
from lipaudit.spectral.published.symbols import grid_symbols, undilated_symbols

PRODUCTS = 7
# Numbers of the transformed kernel that go through Gram iteration at once.
CHUNK_NUMBERS = 2**25


def delattre2023(convolution: Convolution, options: Options, points: int | None = None) -> Bracket:
    """The largest Schatten norm over the grid of the input's size, or over ``points`` per axis with the factor of appendix D.1.

    Raises:
        MethodError: for copied borders, or if ``points`` are too few for the kernel.
    """
    refuse_copied_borders(convolution, "delattre2023")
    if points is None:
        symbols = grid_symbols(convolution, convolution.input_size, CHUNK_NUMBERS)
        factor, holds = 1.0, bounded_by_grid(convolution)
    else:
        period = (points,) * len(convolution.kernel_size)
        factor, holds = oversampling_factor(convolution.kernel_size, period), bounded_by_torus(convolution)
        symbols = undilated_symbols(convolution, period, CHUNK_NUMBERS)
    largest = 0.0
    for chunk in symbols:
        *_, norms = schatten_norms(chunk.flatten(0, 1), count(options, PRODUCTS))
        largest = max(largest, float(norms.max()))
    return figure(factor * largest, Rigor.NUMERICAL if holds else Rigor.ESTIMATE)


DELATTRE2023 = register(
    Method(
        "delattre2023",
        "Delattre 2023",
        "Delattre, Barthelemy, Araujo, Allauzen: Efficient Bound of Lipschitz Constant for Convolutional Layers by Gram "
        "Iteration, ICML 2023",
        "Gram iteration on the symbol at every frequency of the input's grid",
        "an upper bound for circular padding and without padding, up to rounding, an estimate for zero padding; stride is ignored: "
        "a bound stays an upper bound of the strided layer",
        delattre2023,
        iterations=PRODUCTS,
    )
)
