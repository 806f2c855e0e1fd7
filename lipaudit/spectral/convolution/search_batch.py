"""The largest sigma_1 of many symbols of equal shape over a lattice of frequencies, certified, in few large steps.

What ``search`` does for one convolution with as little arithmetic as possible, this does for several layers with as few launches and
read-backs as possible: on a GPU those are the time (``search`` has the figures of a comparison).

A fixed number of batched steps finds good vectors: of the frequencies that the bound by trace and Frobenius norm ranks first, a short
power iteration picks the most promising, and Gram iteration (G <- G* G) on those gives a certified bound and a column near the leading
eigenvector, whose Rayleigh quotient is the best lower bound so far. Everything else is compared with a threshold just above it
(``cholesky_certificate``). What a comparison does not prove goes through Gram iteration, too.

Read-backs. A search is a generator: it yields a tensor of numbers that it must know on the host and is sent them as a list. ``together``
advances many searches side by side and reads back once per step for all of them.

Rounding of Gram iteration. With e the relative error of a product (``rounding.product_error``) and n columns,
sigma_1(H)^2 <= sigma_1(fl(H* H)) + e ||H||_F^2 and ||H||_F^2 <= n sigma_1(H)^2, so that
sigma_1(H) <= sqrt(sigma_1(fl(H* H)) / (1 - e n)), and after any number of products
sigma_1(G) <= ||G_N||_F^(2^-N) / (1 - e n). All scalings are powers of two.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, TypeVar

import torch

from lipaudit.spectral.convolution.symbol import WAVE_NUMBERS, Frequencies, SymbolGram
from lipaudit.spectral.matrix.cholesky_certificate import is_below
from lipaudit.spectral.rounding import gamma, product_error

_T = TypeVar("_T")
Search: TypeAlias = Generator[torch.Tensor, list[float], _T]

# Numbers of the matrices that the short power iteration ranks per layer, and its steps.
RANKED_NUMBERS, RANKING_STEPS = 2**25, 12
# How many of them go on: as many as cost few operations.
FEWEST, MOST, PICKED_NUMBERS = 2, 8, 2**27
# Gram products of the picked ones, and of what the comparison leaves, round after round.
PRODUCTS = 9
ROUNDS = (9, 12, 16, 24)
# The share of the tolerance at which the threshold lies above the best Rayleigh quotient.
SLACK = 0.5
# Numbers that are held at once, by kind of device, and products between two scalings.
CHUNK_NUMBERS = {"cpu": 2**21, "cuda": 2**27}
_UNSCALED = 5
_LOG_MARGIN = 2.0**-40


@dataclass(frozen=True, eq=False)
class Peaks:
    """Per layer: bounds of the largest eigenvalue of G over the lattice, scaled as the gram is, and where the lower one was found.

    All (layers,) tensors; ``angles`` (layers, d) in radians per step of the output, ``vectors`` (layers, n) eigenvectors of G.
    ``groups`` counts over the groups of all layers.
    """

    lower: torch.Tensor
    upper: torch.Tensor
    groups: torch.Tensor
    angles: torch.Tensor
    vectors: torch.Tensor


def together(searches: Sequence[Search[_T]]) -> list[_T]:
    """Advance all searches to their ends; what they ask for in one step is read back from the device at once."""
    results: dict[int, _T] = {}
    answers: dict[int, list[float] | None] = dict.fromkeys(range(len(searches)))
    while answers:
        asked: dict[int, torch.Tensor] = {}
        for position, answer in answers.items():
            try:
                asked[position] = searches[position].send(answer)  # type: ignore[arg-type]
            except StopIteration as end:
                results[position] = end.value
        numbers = torch.cat([t.to(torch.float64).reshape(-1) for t in asked.values()]).tolist() if asked else []
        answers, start = {}, 0
        for position, tensor in asked.items():
            answers[position] = numbers[start : start + tensor.numel()]
            start += tensor.numel()
    return [results[position] for position in range(len(searches))]


def suprema(gram: SymbolGram, layers: int, period: tuple[int, ...], tol: float) -> Search[Peaks]:
    """max over the lattice of ``period`` points per axis of lambda_max(G), for ``layers`` layers of equally many groups each."""
    return _LatticeSearch(gram, layers, period, tol).run()


class _LatticeSearch:
    """The state of one search; a pair is a group and a frequency, numbered group after group."""

    def __init__(self, gram: SymbolGram, layers: int, period: tuple[int, ...], tol: float) -> None:
        self.gram, self.layers, self.tol = gram, layers, tol
        self.device = gram.matrices.device
        self.frequencies = _lattice(period, self.device)
        self.points = len(self.frequencies)
        self.per_layer = gram.groups // layers * self.points
        self.chunk = max(1, CHUNK_NUMBERS[self.device.type] // (2 * gram.n**2))
        few = self.points * len(gram.lags) <= WAVE_NUMBERS
        self.waves = gram.waves(self.frequencies) if few else None
        self.best = torch.zeros(layers, dtype=torch.float64, device=self.device)
        self.place = torch.zeros(layers, dtype=torch.long, device=self.device)
        self.vectors = torch.ones(layers, gram.n, dtype=torch.complex128, device=self.device)

    def run(self) -> Search[Peaks]:
        bounds = self.gram.upper_bounds_at(*self.waves) if self.waves else self.gram.upper_bounds(self.frequencies)
        bounds = bounds.reshape(self.layers, self.per_layer)
        if self.gram.n == 1:  # the bounds are the values
            upper, place = bounds.max(1)
            self.best, self.place = (upper - 2 * self.gram.error).clamp_min(0.0), place + self._first()
            return self._peaks(upper)
        bounds = (yield from self._begin(bounds)).flatten()
        thresholds = self._thresholds()
        open_pairs = yield from self._pairs(bounds.reshape(self.layers, -1) > thresholds[:, None])
        open_pairs = yield from self._compared(open_pairs, thresholds)
        for products in ROUNDS:
            if not open_pairs.total:
                break
            sharpened = torch.minimum(bounds[open_pairs.index], self._sharpened(open_pairs, products))
            bounds = bounds.scatter(0, open_pairs.index, sharpened)
            keep = bounds[open_pairs.index] > self._thresholds()[open_pairs.index // self.per_layer]
            open_pairs = yield from self._pairs(self._mask(open_pairs.index, keep))
        upper = self._thresholds()
        if open_pairs.total:
            owners = open_pairs.index // self.per_layer
            upper = upper.scatter_reduce(0, owners, bounds[open_pairs.index], "amax")
        return self._peaks(upper)

    def _first(self) -> torch.Tensor:
        """The first pair of every layer."""
        return torch.arange(self.layers, device=self.device) * self.per_layer

    def _thresholds(self) -> torch.Tensor:
        """best (1 + SLACK tol)^2 per layer: a claim, which holds for whatever number comes out once it is proved."""
        return self.best * (1 + SLACK * self.tol) ** 2

    def _peaks(self, upper: torch.Tensor) -> Peaks:
        groups, points = self.place // self.points, self.place % self.points
        return Peaks(self.best, upper, groups, self.frequencies.select(points).angles(), self.vectors)

    def _mask(self, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        mask = torch.zeros(self.layers * self.per_layer, dtype=torch.bool, device=self.device)
        return mask.scatter_(0, index, values)

    def _pairs(self, mask: torch.Tensor) -> Search[_Pairs]:
        """The pairs of a mask over all of them, in order."""
        flat = mask.flatten()
        counts = [int(c) for c in (yield flat.reshape(self.gram.groups, self.points).sum(1))]
        return _Pairs(flat.argsort(descending=True, stable=True)[: sum(counts)], counts)

    def _largest(self, values: torch.Tensor, count: int) -> Search[_Pairs]:
        """The pairs of the ``count`` largest values of every layer, in order."""
        picked = values.topk(count, 1).indices
        index = (picked + self._first()[:, None]).flatten()
        if self.gram.groups == self.layers:  # then they are in order already
            return _Pairs(index, [count] * self.layers)
        return (yield from self._pairs(self._mask(index, torch.ones_like(index, dtype=torch.bool))))

    def _grams(self, pairs: _Pairs) -> torch.Tensor:
        points = pairs.index % self.points
        if self.waves is not None:
            return self.gram.in_order(pairs.counts, *(wave[points] for wave in self.waves))
        return self.gram.in_order(pairs.counts, *self.gram.waves(self.frequencies.select(points)))

    def _begin(self, bounds: torch.Tensor) -> Search[torch.Tensor]:
        """The first Rayleigh quotients of every layer, from the pairs that the bounds rank first; better bounds of those."""
        ranked = min(max(MOST, RANKED_NUMBERS // (2 * self.gram.n**2)), self.per_layer)
        picked = max(FEWEST, min(MOST, PICKED_NUMBERS // self.gram.n**3))
        pairs = yield from self._largest(bounds, ranked)
        if ranked > picked:
            values = torch.cat([_ranking(self._grams(part)) for part in pairs.split(self.chunk)])
            ranking = torch.full_like(bounds, -1.0).flatten().scatter_(0, pairs.index, values)
            pairs = yield from self._largest(ranking.reshape(bounds.shape), picked)
        sharpened = torch.minimum(bounds.flatten()[pairs.index], self._sharpened(pairs, PRODUCTS))
        return bounds.flatten().scatter(0, pairs.index, sharpened)

    def _sharpened(self, pairs: _Pairs, products: int) -> torch.Tensor:
        """Certified bounds of lambda_max by Gram iteration; on the way ``best`` rises to the best Rayleigh quotient."""
        bounds = []
        for part in pairs.split(self.chunk):
            grams = self._grams(part)
            upper, vectors = gram_iteration(grams, products)
            bounds.append(upper + self.gram.error)
            images = torch.bmm(grams, vectors[..., None])[..., 0]
            lengths = torch.linalg.vecdot(vectors, vectors).real.clamp_min(1e-300)
            quotients = torch.linalg.vecdot(vectors, images).real / lengths
            # ||G||_2 <= scale; the quotient of a computed matrix, two products of length n
            slack = self.gram.error + 3 * product_error(self.gram.n, complex_entries=True) * self.gram.scale
            self._improve(part, torch.where(torch.isfinite(quotients), quotients - slack, -math.inf), vectors)
        return torch.cat(bounds)

    def _improve(self, pairs: _Pairs, quotients: torch.Tensor, vectors: torch.Tensor) -> None:
        """Take over the largest quotient of every layer where it is larger than the best so far."""
        owners = pairs.index // self.per_layer
        # (layers, pairs): few layers and few pairs
        table = torch.where(owners == torch.arange(self.layers, device=self.device)[:, None], quotients, -math.inf)
        top, position = table.max(1)
        better = top > self.best
        self.best = torch.where(better, top, self.best)
        self.place = torch.where(better, pairs.index[position], self.place)
        self.vectors = torch.where(better[:, None], vectors[position].to(self.vectors.dtype), self.vectors)

    def _compared(self, pairs: _Pairs, thresholds: torch.Tensor) -> Search[_Pairs]:
        """The pairs for which no factorisation proves lambda_max below the layer's threshold."""
        if not pairs.total:
            return pairs
        proved = [
            is_below(self._grams(part), self.gram.error, thresholds[part.index // self.per_layer])
            for part in pairs.split(self.chunk)
        ]
        return (yield from self._pairs(self._mask(pairs.index, ~torch.cat(proved))))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs in order, by number, and how many belong to each group."""

    index: torch.Tensor
    counts: list[int]

    @property
    def total(self) -> int:
        return sum(self.counts)

    def split(self, size: int) -> list[_Pairs]:
        """Parts of at most ``size`` pairs."""
        parts, start = [], 0
        while start < self.total:
            end, before, counts = min(start + size, self.total), 0, []
            for count in self.counts:
                counts.append(max(0, min(end, before + count) - max(start, before)))
                before += count
            parts.append(_Pairs(self.index[start:end], counts))
            start = end
        return parts


@lru_cache(maxsize=64)
def _lattice(period: tuple[int, ...], device: torch.device) -> Frequencies:
    return Frequencies.lattice(period).to(device)


def _ranking(grams: torch.Tensor) -> torch.Tensor:
    """Rough values of lambda_max by a few steps of power iteration; nothing rests on them but an order."""
    column = grams.diagonal(dim1=1, dim2=2).real.argmax(-1)
    v = grams.gather(2, column[:, None, None].expand(-1, grams.shape[1], 1))
    v = v / torch.linalg.vector_norm(v, dim=1, keepdim=True).clamp_min(1e-300)
    for _ in range(RANKING_STEPS):
        v = torch.bmm(grams, v)
    values: torch.Tensor = torch.linalg.vector_norm(v, dim=1)[:, 0]
    return values


def gram_iteration(grams: torch.Tensor, products: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Certified bounds of sigma_1 of Hermitian matrices (batch, n, n) after so many Gram products.

    Positive semidefinite ones need not be so as computed: where a symbol cancels, nothing but rounding errors is left.
    Beside them the columns of largest norm of the last iterates as unit vectors, (batch, n): nearly leading eigenvectors.

    >>> bound, vector = gram_iteration(torch.diag(torch.tensor([1.0, 2.0], dtype=torch.float64))[None], 8)
    >>> 2.0 <= bound.item() < 2.001, vector.shape
    (True, torch.Size([1, 2]))
    """
    n = grams.shape[2]
    iterate, exponents = _scaled(grams)
    exponents = exponents * 2.0**products
    for product in range(1, products + 1):
        iterate = iterate.mH @ iterate
        if product % _UNSCALED == 0 and product < products:
            iterate, exponent = _scaled(iterate)
            exponents = exponents + exponent * 2.0 ** (products - product)
    error = product_error(n, complex_entries=grams.is_complex()) * n
    lengths = torch.linalg.vector_norm(iterate, dim=1)  # of the columns
    # exponents are integers below 2^(products + 12), known exactly
    log2 = torch.linalg.vector_norm(lengths, dim=1).clamp_min(2.0**-500).log2() + exponents
    bound = torch.exp2(log2 * 2.0**-products) * ((1 + _LOG_MARGIN) * (1 + gamma(2 * n * n + 8)) / (1 - error))
    bound = torch.where(torch.isfinite(bound), bound, math.inf)  # what overflowed proves nothing
    longest, column = lengths.max(-1)
    vectors = iterate.gather(2, column[:, None, None].expand(-1, n, 1))[..., 0]
    return bound, vectors / longest.clamp_min(1e-300)[:, None]


def _scaled(matrices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The matrices times a power of two each, so that the largest real or imaginary part lies in [1/2, 1), and the exponents."""
    parts = torch.view_as_real(matrices) if matrices.is_complex() else matrices
    _, exponent = torch.frexp(parts.flatten(1).abs().amax(1))
    factor = torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), -exponent)
    return matrices * factor[:, None, None], exponent.to(torch.float64)
