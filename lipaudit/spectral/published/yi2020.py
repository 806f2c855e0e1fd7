"""Yi, *Asymptotic Singular Value Distribution of Linear Convolutional Layers*, 2020.

Power iteration on the symbol D(w) at every frequency of the input's grid, instead of a decomposition: the use that [P]
makes of the paper. The paper's theorem is about zero padding: as the input grows, the singular values of the
zero-padded convolution distribute like those of D(w) over all frequencies, and sup_w sigma_1(D(w)) bounds every one of
them.

The supremum over all frequencies is a bound; the maximum over a finite grid, by power iteration from a random start, is
an estimate. At each frequency it lies below sigma_1(D(w)).
"""

from __future__ import annotations

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.power_iteration import singular_values
from lipaudit.spectral.published.registry import (
    Method,
    Options,
    count,
    figure,
    generator,
    refuse_copied_borders,
    register,
)
from lipaudit.spectral.published.symbols import grid_symbols

ITERATIONS = 100


def yi2020(convolution: Convolution, options: Options) -> Bracket:
    """max over the grid of the input's size of a power iteration on D(w)."""
    refuse_copied_borders(convolution, "yi2020")
    source = generator(options)
    largest = 0.0
    for symbols in grid_symbols(convolution, convolution.input_size):
        *_, values = singular_values(symbols.flatten(0, 1), count(options, ITERATIONS), source)
        largest = max(largest, float(values.max()))
    return figure(largest, Rigor.ESTIMATE)


YI2020 = register(
    Method(
        "yi2020",
        "Yi 2020",
        "Yi: Asymptotic Singular Value Distribution of Linear Convolutional Layers, arXiv 2006.07117, 2020",
        "power iteration on the symbol at every frequency of the input's grid",
        "an estimate from below of the circular norm at stride 1; on either side for zero padding and other strides, which are ignored",
        yi2020,
        iterations=ITERATIONS,
    )
)
