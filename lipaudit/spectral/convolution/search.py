"""The supremum of sigma_1(D(w)) over a finite grid of frequencies or over the whole torus, certified.

Grid. A threshold just above a Rayleigh quotient is proved for every grid point by comparison (``cholesky_certificate``); points
where the proof fails supply better Rayleigh quotients, until the threshold holds everywhere.

Torus. For unit vectors u, v the real part of u* D(w) v is a trigonometric polynomial of degree n_a (half the kernel's
extent) in axis a. Along the segment from a maximiser w* of sigma_1 to a point w it is a function of exponential type
sum_a n_a |w_a - w*_a|, so that (Duffin and Schaeffer, 1938) sigma_1(D(w)) >= sup sigma_1 * cos(sum_a n_a |w_a - w*_a|).
Hence a cell with centre w and half widths h_a that contains a maximiser satisfies
sigma_1(D(w)) >= sup * cos(sum_a n_a h_a): cells for which the opposite is proved are dropped, the others are halved,
until the claimed supremum is proved.
On a complete regular lattice the larger factor prod_a cos(n_a h_a) holds (Ehlich and Zeller, 1964, one axis after
the other), but for the largest lattice value only, not for the point nearest to a maximiser, so it ends the search and
does not prune. Where the spectrum is flat nothing can be dropped: a few probes show it, and one complete lattice
ends the search with its factor. Otherwise the search stops at a budget with the factor that it has reached.

Why there are two searches. This one is for one layer on a CPU, where arithmetic is the cost; ``search_batch`` is for many layers on a GPU,
where launches and read-backs are. A batch of one by ``search_batch`` was measured against this search on one thread at the tolerance
1e-3, as ratios of CPU time: 3 x 3 layers of ResNet-50 with 64, 128, 256 and 512 channels 4.8, 3.1, 2.3 and 1.7, its stem 3.6, its 1 x 1
layers 0.8 to 1.7, layers of an 8 x 8 digits network 1.1 to 2.1, depthwise and grouped layers 1.0 to 2.8, 11 x 11 taps 2.4, 31 x 31 taps
27. The upper ends differ by up to 6e-4 in log10, either way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from lipaudit.spectral.bracket import log_down, log_up, round_down, round_up
from lipaudit.spectral.convolution.lattice import cosine_squared, lattice
from lipaudit.spectral.convolution.symbol import Frequencies, SymbolGram
from lipaudit.spectral.matrix.cholesky_certificate import is_below
from lipaudit.spectral.matrix.gram import MAX_PRODUCTS, SLACKS, GramIteration, slacks
from lipaudit.spectral.matrix.lanczos import DIRECT, leading_vectors
from lipaudit.spectral.rounding import log_power_of_two, product_error

# Floating-point operations that one layer's frequencies may take before the search settles for its cosine factor:
# some seconds on one core.
BUDGET = 1e11
# A flat spectrum takes about so many times the points of the lattice at which its search begins; spectra of random
# kernels with 64 to 256 channels were measured.
FLAT_SEARCH = 4
# Cells of the first lattice that are tried; if none of them can be dropped, pruning there is not worth a pass.
PROBES = 4
# Numbers held at once while frequencies are processed in chunks.
CHUNK_NUMBERS = 2**20
_START_DENSITY = 16.0
_LEAST_DENSITY = 8.0
_LANCZOS_STEPS = (12, 24, 48, 96, 192)
# Of the matrices of a chunk that a threshold does not cover, so many are searched for a larger quotient.
_IMPROVED = 4


@dataclass(frozen=True, eq=False)
class Supremum:
    """log sigma_1 bounds of a supremum over frequencies, those of the ``grid`` of a period or all, and where the lower one was found.

    There an output wave ``left[c] exp(-i <angle, j>)`` of group ``group`` is stretched most; ``angle`` is in radians
    per step of the output. ``tight`` says whether the tolerance was reached. ``group_log_uppers`` are bounds of each
    group's own supremum, where there are several and they are known.
    """

    log_lower: float
    log_upper: float
    group: int
    angle: tuple[float, ...]
    left: torch.Tensor
    tight: bool
    grid: tuple[int, ...] | None = None
    group_log_uppers: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of a group and a frequency, with an upper bound of lambda_max each."""

    groups: torch.Tensor
    frequencies: Frequencies
    bounds: torch.Tensor

    def __len__(self) -> int:
        return len(self.groups)

    def select(self, keep: torch.Tensor | slice) -> _Pairs:
        return _Pairs(self.groups[keep], self.frequencies.select(keep), self.bounds[keep])


class _Search:
    """Shared state: the best Rayleigh quotient so far (a certified lower bound of lambda_max) and its place."""

    def __init__(self, gram: SymbolGram, tol: float) -> None:
        self.gram = gram
        self.tol = tol
        self.best = 0.0
        self.place: tuple[int, tuple[float, ...], torch.Tensor] | None = None
        self.slacks: tuple[float, ...] = SLACKS
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(gram.n, 2, dtype=torch.float64, generator=generator)
        self._noise = torch.view_as_complex(noise) / math.sqrt(gram.n)
        self.chunk = max(1, CHUNK_NUMBERS // gram.numbers_per_pair)
        self.evaluations = 0

    def pairs(self, frequencies: Frequencies, bounds: torch.Tensor, least: float = 0.0) -> _Pairs:
        """Every group with every frequency, largest bound (groups, points) first; none whose bound is below ``least``."""
        groups, points = (bounds >= least).nonzero(as_tuple=True)
        order = bounds[groups, points].argsort(descending=True)
        groups, points = groups[order], points[order]
        return _Pairs(groups, frequencies.select(points), bounds[groups, points])

    def cells(self, frequencies: Frequencies) -> _Pairs:
        """Every group with every frequency, largest bound first."""
        return self.pairs(frequencies, self.gram.upper_bounds(frequencies))

    def rebound(self, pairs: _Pairs) -> _Pairs:
        """The same pairs with bounds computed at their frequencies (used after cells were split)."""
        if self.gram.groups == 1:
            bounds = self.gram.upper_bounds(pairs.frequencies)[0]
        else:
            table = self.gram.upper_bounds(pairs.frequencies)
            bounds = table[pairs.groups, torch.arange(len(pairs))]
        fresh = _Pairs(pairs.groups, pairs.frequencies, bounds)
        return fresh.select(bounds.argsort(descending=True))

    def improve(self, grams: torch.Tensor, pairs: _Pairs, steps: int) -> None:
        """Raise ``best`` by Rayleigh quotients of the most promising of the given matrices."""
        if len(pairs) > _IMPROVED and self.gram.n > DIRECT:
            _, quotients = self._quotients(grams, _LANCZOS_STEPS[0] // 4)
            promising = quotients.topk(_IMPROVED).indices
            grams, pairs = grams[promising], pairs.select(promising)
        vectors, quotients = self._quotients(grams, steps)
        # ||G||_2 <= scale; the quotient of a computed matrix, two products of length n
        slack = self.gram.error + 3 * product_error(self.gram.n, complex_entries=True) * self.gram.scale
        position = int(quotients.argmax())
        value = float(quotients[position]) - slack
        if value > self.best:
            self.best = value
            angle = tuple(pairs.frequencies.select(torch.tensor([position])).angles()[0].tolist())
            self.place = (int(pairs.groups[position]), angle, vectors[position])

    def _quotients(self, grams: torch.Tensor, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors of a Krylov space and their Rayleigh quotients."""
        column = grams.diagonal(dim1=1, dim2=2).real.argmax(-1)
        start = grams.mT[torch.arange(len(grams)), column]
        start = start / torch.linalg.vector_norm(start, dim=-1, keepdim=True).clamp_min(1e-300) + 0.1 * self._noise
        vectors = leading_vectors(grams, start, steps)
        images = torch.bmm(grams, vectors[..., None])[..., 0]
        lengths = torch.linalg.vecdot(vectors, vectors).real.clamp_min(1e-300)  # of a zero matrix they may be 0
        return vectors, torch.linalg.vecdot(vectors, images).real / lengths

    def unproved(self, pairs: _Pairs, slack: float, factor: float, steps: int) -> _Pairs:
        """Pairs for which lambda_max < best (1 + slack tol)^2 factor is not proved; ``best`` may rise on the way."""
        left = []
        pairs = pairs.select(pairs.bounds >= self.threshold(slack, factor))
        if self.gram.groups > 1:
            pairs = pairs.select(pairs.groups.argsort(stable=True))  # so that a chunk reads the lags of few groups
        for start in range(0, len(pairs), self.chunk):
            part = pairs.select(slice(start, start + self.chunk))
            part = part.select(part.bounds >= self.threshold(slack, factor))
            if not len(part):
                continue
            grams = self.gram.at(part.groups, part.frequencies)
            self.evaluations += len(part)
            failed = ~is_below(grams, self.gram.error, self.threshold(slack, factor))
            if bool(failed.any()):
                part = part.select(failed)
                self.improve(grams[failed], part, steps)
                left.append(part)
        if not left:
            return pairs.select(torch.zeros(0, dtype=torch.long))
        return _Pairs(
            torch.cat([p.groups for p in left]),
            Frequencies(torch.cat([p.frequencies.index for p in left]), pairs.frequencies.period),
            torch.cat([p.bounds for p in left]),
        )

    def threshold(self, slack: float, factor: float = 1.0) -> float:
        """best (1 + slack tol)^2 factor, rounded up (a larger claim is a weaker one)."""
        return round_up(self.best * (1 + slack * self.tol) ** 2) * factor

    def start(self, pairs: _Pairs) -> None:
        """A first Rayleigh quotient from the most promising pairs."""
        top = pairs.select(slice(0, min(8, self.chunk)))
        grams = self.gram.at(top.groups, top.frequencies)
        self.slacks = slacks(grams)
        self.improve(grams, top, _LANCZOS_STEPS[0])

    def is_flat(self, cells: _Pairs, factor: float) -> bool:
        """Whether of a few cells, from the most to the least promising, none can be dropped at this factor."""
        if self.gram.n == 1 or len(cells) <= PROBES:
            return False
        sample = cells.select(torch.linspace(0, len(cells) - 1, PROBES).round().long())
        for start in range(0, PROBES, self.chunk):
            part = sample.select(slice(start, start + self.chunk))
            grams = self.gram.at(part.groups, part.frequencies)
            if bool(is_below(grams, self.gram.error, self.threshold(SLACKS[-1], factor)).any()):
                return False
        return True

    def scalars(self, frequencies: Frequencies, bounds: torch.Tensor) -> float:
        """The largest of 1 x 1 matrices, of which the bounds (groups, points) are the values up to the error."""
        position = int(bounds.argmax())
        group, point = divmod(position, len(frequencies))
        upper = float(bounds[group, point])
        self.best = max(0.0, upper - 2 * self.gram.error)
        angle = tuple(frequencies.select(slice(point, point + 1)).angles()[0].tolist())
        self.place = (group, angle, torch.ones(1, dtype=torch.complex128))
        return upper

    def prove_maximum(self, pairs: _Pairs) -> float:
        """A certified upper bound of the largest lambda_max among the pairs, within the tolerance of ``best``."""
        if self.gram.n == 1:
            return float(pairs.bounds.max())
        for steps in _LANCZOS_STEPS:
            for slack in self.slacks:
                pairs = self.unproved(pairs, slack, 1.0, steps)
                if not len(pairs):
                    return self.threshold(slack)
        # Rayleigh quotients did not get there: Gram iteration on what is left needs none
        bounds = [self.threshold(SLACKS[-1])]
        for i in range(len(pairs)):
            one = pairs.select(torch.tensor([i]))
            iteration = GramIteration(self.gram.at(one.groups, one.frequencies)[0])
            for _ in range(MAX_PRODUCTS // 4):
                iteration.step()
            bounds.append(round_up(math.exp(iteration.log_upper())) + self.gram.error)
        return max(bounds)

    def result(self, upper: float, tight: bool) -> Supremum:
        """Back from scaled eigenvalues to log singular values."""
        group, angle, vector = self.place or (0, (0.0,) * len(self.gram.taps.degrees), self._noise)
        down, up = log_power_of_two(self.gram.exponent)
        lower = round_down(log_down(self.best) / 2 + down) if self.best > 0 else -math.inf
        angles = torch.tensor([angle], dtype=torch.float64)
        left = self.gram.left_vectors(torch.tensor([group]), angles, vector[None])[0]
        real_angle = tuple(a / g for a, g in zip(angle, self.gram.taps.divisors, strict=True))
        return Supremum(lower, round_up(log_up(upper) / 2 + up), group, real_angle, left, tight)


def grid_supremum(gram: SymbolGram, period: tuple[int, ...], tol: float) -> Supremum:
    """max of sigma_1(D(w)) over the regular grid with ``period`` points per axis."""
    search = _Search(gram, tol)
    frequencies = Frequencies.lattice(period)
    bounds = gram.upper_bounds(frequencies)
    if gram.n == 1:
        supremum = search.result(search.scalars(frequencies, bounds), tight=True)
    else:
        pairs = search.pairs(frequencies, bounds)
        search.start(pairs)
        supremum = search.result(search.prove_maximum(pairs), tight=True)
    supremum = replace(supremum, grid=period)
    if gram.groups == 1:
        return supremum
    squares = bounds.amax(1).clamp_min(2.0**-1000)
    return replace(supremum, group_log_uppers=squares.log() / 2 + log_power_of_two(gram.exponent)[1] + 2.0**-40)


def starting_points(gram: SymbolGram) -> int:
    """Points of the lattice from which the torus search starts."""
    return math.prod(lattice(gram.taps.degrees, _START_DENSITY))


def torus_supremum(
    gram: SymbolGram, tol: float, budget: float = BUDGET, grid: tuple[int, ...] | None = None
) -> Supremum:
    """sup of sigma_1(D(w)) over all frequencies: the norm on Z^d, a bound for every zero-padded size.

    ``grid`` is a period whose grid of frequencies would do as well: it is taken if the spectrum is flat and the grid, within
    the budget, takes less.
    """
    degrees = gram.taps.degrees
    axes = tuple(n > 0 for n in degrees)
    copies = 2 ** sum(axes)
    search = _Search(gram, tol)
    limit = budget / gram.evaluation_cost
    period = lattice(degrees, min(_START_DENSITY, _density_within(gram, limit)))
    half_widths = [0.0 if n == 0 else math.pi / p for n, p in zip(degrees, period, strict=True)]
    slack = SLACKS[-1]
    points = Frequencies.lattice(period).halved()
    bounds = gram.upper_bounds(points)
    reach = _reach(degrees, half_widths)
    local = cosine_squared([math.fsum(reach)])
    if gram.n == 1:
        search.scalars(points, bounds)
        cells = search.pairs(points, bounds, search.threshold(slack, local))
    else:
        cells = search.pairs(points, bounds)
        search.start(cells)
    whole, size = True, bounds.numel()  # no cell of an earlier lattice was dropped: this one, of that size, is complete
    flat = search.is_flat(cells, local)
    if flat:
        needed = FLAT_SEARCH * len(cells) * copies
        if grid is not None and gram.groups * math.prod(grid) <= 2 * min(needed, limit):
            return grid_supremum(gram, grid, tol)
        if needed > limit:
            return _complete_lattice(search, lattice(degrees, _density_within(gram, limit)))
    while True:
        left = cells if flat else search.unproved(cells, slack, local, _LANCZOS_STEPS[0])
        flat = False
        if not len(left):
            return search.result(search.threshold(slack), tight=True)
        children = len(left) * copies
        if not any(axes) or search.evaluations + 1.5 * children > limit:
            # everything dropped so far is below the threshold or below the last lattice's proved maximum
            top = max(search.prove_maximum(left), search.threshold(slack, local))
            factor = cosine_squared(reach) if whole else local
            upper = max(search.threshold(slack), round_up(top / factor))
            return search.result(upper, tight=upper <= search.threshold(1.0))
        whole, size = whole and len(left) == size, size * copies
        split = left.frequencies.split(axes)
        cells = search.rebound(_Pairs(left.groups.repeat(copies), split, left.bounds.repeat(copies)))
        half_widths = [h / 2 for h in half_widths]
        reach = _reach(degrees, half_widths)
        local = cosine_squared([math.fsum(reach)])


def _reach(degrees: tuple[float, ...], half_widths: list[float]) -> list[float]:
    """n_a h_a, rounded up; their sum is the exponential type along the way from a cell's centre to its corner."""
    return [round_up(n * h) for n, h in zip(degrees, half_widths, strict=True)]


def _density_within(gram: SymbolGram, limit: float) -> float:
    """Points per degree and axis of a complete lattice of about ``limit`` frequencies."""
    density = 8 * _START_DENSITY
    while density > _LEAST_DENSITY and gram.groups * math.prod(lattice(gram.taps.degrees, density)) > 2 * limit:
        density *= 0.95
    return max(density, _LEAST_DENSITY)


def _complete_lattice(search: _Search, period: tuple[int, ...]) -> Supremum:
    """The bound max sigma_1 / prod_a cos(pi n_a / N_a) of a complete lattice of N_a points per axis."""
    degrees = search.gram.taps.degrees
    factor = cosine_squared([round_up(math.pi * n / p) for n, p in zip(degrees, period, strict=True)])
    top = search.prove_maximum(search.cells(Frequencies.lattice(period)))
    upper = round_up(top / factor)
    return search.result(upper, tight=upper <= search.threshold(1.0))
