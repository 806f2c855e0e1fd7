"""The Gram matrix of a symbol evaluated at every frequency instead of summed from its lags.

Lags are products of all pairs of taps, about k^(2 d) / 2 of them for k taps per axis, and a frequency sums (2 k - 1)^d of them. Where
taps are many, or frequencies few, D(w) = sum_t K_t exp(-i <w, t>) itself and the product D(w)* D(w) take less.
"""

from __future__ import annotations

import math

import torch

from lipaudit.spectral.convolution.stride import Taps
from lipaudit.spectral.convolution.symbol import TRIG_ERROR, Frequencies, SymbolGram
from lipaudit.spectral.rounding import gamma, product_error


def symbol_gram(taps: Taps, frequencies: int) -> SymbolGram:
    """The Gram matrix for so many frequencies, by its lags or evaluated, whichever takes fewer operations.

    Groups share frequencies only if their matrices are made from lags.
    """
    groups, count, rows, columns = taps.matrices.shape
    n, m = min(rows, columns), max(rows, columns)
    if groups > 1 or n == 1:
        return SymbolGram(taps)
    lags = (math.prod(4 * degree + 1 for degree in taps.degrees) + 1) / 2
    by_lags = count**2 * m * n**2 + frequencies * 4 * lags * n**2
    evaluated = frequencies * (4 * count * m * n + 8 * m * n**2)
    return EvaluatedGram(taps) if evaluated < by_lags else SymbolGram(taps)


class EvaluatedGram(SymbolGram):
    """The same matrices and bounds as a :class:`~lipaudit.spectral.convolution.symbol.SymbolGram`, without lags."""

    def _prepare(self) -> None:
        _, count, rows, _ = self.matrices.shape
        # the parts of an entry of D are sums of ``count`` products, and an error of D counts twice in D* D
        product = product_error(rows, complex_entries=True)
        self.error = self.scale * (4 * gamma(count + 16) + 4 * TRIG_ERROR + 2 * product)

    @property
    def evaluation_cost(self) -> float:
        """Floating-point operations of one certified comparison at one frequency, roughly."""
        _, count, rows, _ = self.matrices.shape
        return 4 / 3 * self.n**3 + 4.0 * rows * self.n * (count + 2 * self.n) + 2e5

    @property
    def numbers_per_pair(self) -> int:
        """Numbers that :meth:`at` holds for one pair of a group and a frequency."""
        _, count, rows, _ = self.matrices.shape
        return 2 * (self.n + rows) * self.n + 2 * count

    def at(self, groups: torch.Tensor, frequencies: Frequencies) -> torch.Tensor:
        """G for pairs of a group (pairs,) and a frequency: (pairs, n, n), complex."""
        phases = frequencies.phases(self.taps.offsets)
        cosine, sine = torch.cos(phases), torch.sin(phases)
        symbols = self.matrices.new_empty((len(groups), *self.matrices.shape[2:]), dtype=torch.complex128)
        parts = torch.view_as_real(symbols).flatten(1, 2)
        flat = self.matrices.flatten(2)
        for group in torch.unique(groups).tolist():
            rows = groups == group
            parts[rows, :, 0] = cosine[rows] @ flat[group]
            parts[rows, :, 1] = -(sine[rows] @ flat[group])
        return symbols.mH @ symbols

    def upper_bounds(self, frequencies: Frequencies) -> torch.Tensor:
        """The same certified bound of lambda_max(G) at all frequencies, (groups, points)."""
        return torch.full((self.groups, len(frequencies)), self.scale + self.error, dtype=torch.float64)
