"""The symbol of a convolution and its Gram matrix as a trigonometric polynomial.

The symbol D(w) = sum_t K_t exp(-i <w, t>) is a matrix for every frequency w on the torus. Its Gram matrix on the
smaller side is G(w) = D(w)* D(w) = A_0 + sum_l cos<w,l> (A_l + A_l^T) + i sin<w,l> (A_l^T - A_l), the sum over half of
the lags l, with the lag matrices A_l = sum_t K_t^T K_{t+l} computed once. After that G costs (number of lags) n^2 at
any frequency, and tr G and ||G||_F^2 are scalar trigonometric sums, which bound the largest eigenvalue without touching
a matrix: lambda_max <= m + sqrt((n - 1) v), m and v the mean and variance of the eigenvalues (Wolkowicz and Styan,
1980). Real kernels have D(-w) = conj D(w): half of the frequencies suffice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from lipaudit.spectral.convolution.stride import Taps
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, frobenius_squared_up, gamma, on_device, scale_to_unit

# cos and sin of 2 pi f, f a sum of at most three exact fractions: error of the argument and of the function together
TRIG_ERROR = 64 * UNIT_ROUNDOFF
# Below this side the lags of many groups are gathered into one batch.
_GATHERED_SIDE = 16
# Taps side by side are multiplied all at once up to this many columns, half of it in vain, else one after another.
_WHOLE_SIDE = 640
_TAPS_AT_ONCE = 5
# Cosines (frequencies times lags) that are held at once while bounds are evaluated.
WAVE_NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Points w = 2 pi index / period of the torus, as exact integers: ``index`` (points, d), ``period`` per axis."""

    index: torch.Tensor
    period: tuple[int, ...]

    @classmethod
    @lru_cache(maxsize=128)
    def lattice(cls, period: tuple[int, ...]) -> Frequencies:
        """The regular grid with ``period`` points per axis, one of each pair w, -w."""
        axes = [torch.arange(n) for n in period]
        index = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(period))
        mirrored = -index % torch.tensor(period)
        strides = torch.tensor([math.prod(period[i + 1 :]) for i in range(len(period))])
        return cls(index[(index * strides).sum(1) <= (mirrored * strides).sum(1)], period)

    def __len__(self) -> int:
        return self.index.shape[0]

    def select(self, keep: torch.Tensor | slice) -> Frequencies:
        """The points that a mask, an index tensor or a slice picks."""
        return Frequencies(self.index[keep], self.period)

    def to(self, device: torch.device) -> Frequencies:
        """The same points on another device."""
        return Frequencies(on_device(self.index, device), self.period)

    def halved(self) -> Frequencies:
        """The same points as multiples of half the step, so that :meth:`split` can place children between them."""
        return Frequencies(self.index * 2, tuple(2 * n for n in self.period))

    def split(self, axes: tuple[bool, ...]) -> Frequencies:
        """The centres of the 2^d halves of the cells whose half width is one step, 2 pi / period, in every axis.

        The children's half width is one step of the result. An axis with ``False`` is left alone. Child i of point p is
        at position ``i * len(self) + p``.
        """
        factor = torch.tensor([2 if a else 1 for a in axes])
        steps = list(itertools.product(*[(-1, 1) if a else (0,) for a in axes]))
        children = torch.cat([self.index * factor + torch.tensor(step) for step in steps])
        period = tuple(n * f for n, f in zip(self.period, factor.tolist(), strict=True))
        return Frequencies(children % torch.tensor(period), period)

    def phases(self, shifts: torch.Tensor) -> torch.Tensor:
        """<w, t> in radians for integer shifts t (shifts, d), from exact fractions of a turn: (points, shifts)."""
        turns = torch.zeros(len(self), len(shifts), dtype=torch.float64, device=shifts.device)
        for axis, period in enumerate(self.period):
            steps = torch.outer(self.index[:, axis], shifts[:, axis]) % period
            turns += steps.to(torch.float64) / period
        return 2 * math.pi * turns

    def angles(self) -> torch.Tensor:
        """w in radians, (points, d)."""
        return 2 * math.pi * self.index.to(torch.float64) / on_device(torch.tensor(self.period), self.index.device)


def tap_sizes(matrices: torch.Tensor) -> torch.Tensor:
    """An upper bound of sum_t ||K_t||_F of taps (groups, taps, rows, columns) with entries of at most 1: (groups,)."""
    return frobenius_squared_up(matrices, 2).sqrt().sum(1) * (1 + 2**-40)


@lru_cache(maxsize=64)
def _lags(offsets: tuple[tuple[int, ...], ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """The distinct lags t' - t of pairs t <= t' of sorted offsets, (lags, d), the zero lag first, and each pair's, (taps, taps)."""
    places = torch.tensor(offsets)
    first, second = torch.triu_indices(len(places), len(places))
    lags, position = torch.unique(places[second] - places[first], dim=0, return_inverse=True)
    if bool(lags[0].any()):  # offsets are sorted, so every lag is lexicographically >= 0
        raise AssertionError("the zero lag comes first")
    pairs = torch.zeros(len(places), len(places), dtype=torch.long)
    pairs[first, second] = position
    return lags, pairs


class SymbolGram:
    """G(w) of every group of a stride-free convolution, scaled by ``2 ** (-2 * exponent)``, on the device of the taps.

    ``size`` bounds sum_t ||K_t||_F in every group; taps that come with it have entries of at most 1 and are not scaled.

    Attributes:
        n: side of G; groups, taps: their numbers.
        error: bound on the spectral norm of (computed - exact) G at any frequency.
    """

    def __init__(self, taps: Taps, size: float | None = None) -> None:
        matrices, self.exponent = taps.matrices, 0.0
        if size is None:
            matrices, exponent = scale_to_unit(taps.matrices, dims=4)
            self.exponent, size = float(exponent), float(tap_sizes(matrices).amax())
        # (groups, taps, rows, n) with n the smaller side; D^T has the singular values of D
        self._transposed = matrices.shape[2] < matrices.shape[3]
        self.matrices = matrices.mT if self._transposed else matrices
        self.taps = taps
        self.groups, _, _, self.n = self.matrices.shape
        self.scale = size**2 * (1 + 2**-40)
        self._prepare()

    def _prepare(self) -> None:
        """Whatever does not depend on the frequency, and ``error``."""
        matrices, taps = self.matrices, self.taps
        _, count, rows, _ = matrices.shape
        lags, pairs = _lags(tuple(map(tuple, taps.offsets.tolist())))
        self.lags = on_device(lags, matrices.device)
        beside = self.matrices.transpose(1, 2).flatten(2)  # (groups, rows, taps n)
        if count * self.n <= _WHOLE_SIDE:
            blocks = (beside.mT @ beside).reshape(self.groups, count, self.n, count, self.n).permute(1, 3, 0, 2, 4)
            first, second = torch.triu_indices(count, count)
            position = on_device(pairs[first, second], matrices.device)
            first, second = on_device(first, matrices.device), on_device(second, matrices.device)
            # sums of rows that lie in one piece
            sums = matrices.new_zeros(len(self.lags), self.groups, self.n, self.n)
            products = sums.index_add_(0, position, blocks[first, second]).transpose(0, 1).contiguous()
        else:
            products = matrices.new_zeros(self.groups, len(self.lags), self.n, self.n)
            pairs = on_device(pairs, matrices.device)
            for i in range(count):
                for j in range(i, count, _TAPS_AT_ONCE):
                    some = slice(j, min(j + _TAPS_AT_ONCE, count))
                    block = (
                        beside[:, :, i * self.n : (i + 1) * self.n].mT @ beside[:, :, j * self.n : some.stop * self.n]
                    )
                    block = block.reshape(self.groups, self.n, -1, self.n).transpose(1, 2)
                    products.index_add_(1, pairs[i, some], block)
        del beside
        tail = products[:, 1:]
        symmetric, antisymmetric = torch.empty_like(products), tail.new_empty(tail.shape)
        torch.add(products, products.mT, out=symmetric)
        torch.sub(tail.mT, tail, out=antisymmetric)
        symmetric[:, 0] *= 0.5
        self._cosine, self._sine = symmetric.flatten(2), antisymmetric.flatten(2)  # (groups, lags, n^2)
        self.error = self.scale * (2 * gamma(rows * count + len(self.lags) + 16) + 2 * TRIG_ERROR)
        if self.n > 1:
            self._trace = torch.diagonal(products, dim1=-2, dim2=-1).sum(-1) * 2
            self._trace[:, 0] *= 0.5
            self._cosine_products = self._cosine @ self._cosine.mT
            self._sine_products = self._sine @ self._sine.mT

    @property
    def evaluation_cost(self) -> float:
        """Floating-point operations of one certified comparison at one frequency, roughly."""
        return 4 / 3 * self.n**3 + 4.0 * len(self.lags) * self.n**2 + 2e5

    def grid_cost(self, points: int) -> float:
        """Floating-point operations of the maximum over so many frequencies of every group, roughly."""
        # values of 1 x 1 matrices are sums of cosines, and nothing is compared
        each = 4.0 * len(self.lags) if self.n == 1 else self.evaluation_cost
        return points * self.groups * each

    @property
    def numbers_per_pair(self) -> int:
        """Numbers that :meth:`at` holds for one pair of a group and a frequency."""
        gathered = len(self.lags) * self.n**2 if self.groups > 1 and self.n < _GATHERED_SIDE else len(self.lags)
        return 2 * self.n**2 + gathered

    def waves(self, frequencies: Frequencies) -> tuple[torch.Tensor, torch.Tensor]:
        """cos <w, l> for every lag, and sin <w, l> for every lag but the first: (points, lags), (points, lags - 1)."""
        phases = frequencies.phases(self.lags)
        return torch.cos(phases), torch.sin(phases[:, 1:])

    def at(self, groups: torch.Tensor, frequencies: Frequencies) -> torch.Tensor:
        """G for pairs of a group (pairs,) and a frequency: (pairs, n, n), complex."""
        cosine, sine = self.waves(frequencies)
        if self.n < _GATHERED_SIDE and self.groups > 1:
            real = torch.bmm(cosine[:, None], self._cosine[groups])[:, 0]
            imaginary = torch.bmm(sine[:, None], self._sine[groups])[:, 0]
        else:  # copying the lags of a pair would cost more than its factorisation
            real, imaginary = (cosine.new_empty(len(groups), self.n**2) for _ in range(2))
            for group in torch.unique(groups).tolist():
                rows = groups == group
                real[rows] = cosine[rows] @ self._cosine[group]
                imaginary[rows] = sine[rows] @ self._sine[group]
        return torch.complex(real, imaginary).reshape(-1, self.n, self.n)

    def in_order(self, counts: Sequence[int], cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        """G for pairs that are sorted by group, ``counts[g]`` of group g, from their :meth:`waves`: (pairs, n, n).

        What :meth:`at` computes, without reading the groups back from the device; real where no phase occurs.
        """
        if len(self.lags) == 1:
            rows = [self._cosine[g].expand(count, -1) for g, count in enumerate(counts) if count]
            return torch.cat(rows).reshape(-1, self.n, self.n)
        if len(set(counts)) == 1:
            real = torch.bmm(cosine.reshape(self.groups, counts[0], -1), self._cosine)
            imaginary = torch.bmm(sine.reshape(self.groups, counts[0], -1), self._sine)
            return torch.complex(real, imaginary).reshape(-1, self.n, self.n)
        parts, start = [], 0
        for group, count in enumerate(counts):
            if count:
                here = slice(start, start + count)
                parts.append(torch.complex(cosine[here] @ self._cosine[group], sine[here] @ self._sine[group]))
                start += count
        return torch.cat(parts).reshape(-1, self.n, self.n)

    def upper_bounds(self, frequencies: Frequencies) -> torch.Tensor:
        """Certified bounds of lambda_max(G) by trace and Frobenius norm, (groups, points); exact + error for n = 1."""
        rows = max(1, WAVE_NUMBERS // len(self.lags))
        parts = [
            self.upper_bounds_at(*self.waves(frequencies.select(slice(start, start + rows))))
            for start in range(0, len(frequencies), rows)
        ]
        return torch.cat(parts, dim=1)

    def upper_bounds_at(self, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        """:meth:`upper_bounds` from :meth:`waves`."""
        if self.n == 1:
            return (cosine @ self._cosine[:, :, 0].T).T + self.error
        mean = (cosine @ self._trace.T).T / self.n
        squares = ((cosine @ self._cosine_products) * cosine).sum(-1) + ((sine @ self._sine_products) * sine).sum(-1)
        slack = self.scale**2 * (2 * gamma(self.n**2 + 2 * len(self.lags) + 32) + 4 * TRIG_ERROR)
        squares = ((squares.clamp_min(0) + slack).sqrt() + self.error) ** 2
        low = (mean - self.error).clamp_min(0)
        variance = (squares / self.n - low**2).clamp_min(0)
        return (mean + self.error + ((self.n - 1) * variance).sqrt()) * (1 + 2**-40)

    def left_vectors(self, groups: torch.Tensor, angles: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
        """The directions of the output, (pairs, c_out / groups), of eigenvectors (pairs, n) of G at frequencies (pairs, d) in radians."""
        if self._transposed:
            return vectors.conj()
        phase = angles @ on_device(self.taps.offsets.to(angles.dtype), angles.device).T
        waves = torch.polar(torch.ones_like(phase), -phase)
        products = torch.einsum("ptrn,pn->ptr", self.matrices[groups].to(vectors.dtype), vectors)
        return torch.einsum("pt,ptr->pr", waves, products)
