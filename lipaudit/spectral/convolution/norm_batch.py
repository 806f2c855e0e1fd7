"""Certified norms of many convolutions at once, batched by geometry: the way to a GPU's speed.

The brackets of ``norm.convolution_norm``, by the same reduction to a symbol and the same certificates, in another order of work: layers of
equal geometry are one batch, and a batch takes a fixed sequence of large steps (``search_batch``). On a CPU that takes up to several times
as long per layer, see ``search``; on a GPU it is the way to use it. What a
complete lattice costs is bounded by a budget, so that large inputs take the torus with its cosine factor instead of their own grid.
Everything is float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from lipaudit.errors import NonFiniteWeightsError
from lipaudit.spectral.bracket import Bracket, log_down, log_up, round_down, round_up
from lipaudit.spectral.convolution.explicit import is_small
from lipaudit.spectral.convolution.frequencies import Reduction, crop, reduce
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.lattice import cosine_squared, lattice
from lipaudit.spectral.convolution.norm import ZERO, convolution_norm
from lipaudit.spectral.convolution.power_iteration import Waves, lower_bounds
from lipaudit.spectral.convolution.search_batch import Peaks, Search, suprema, together
from lipaudit.spectral.convolution.symbol import SymbolGram, tap_sizes
from lipaudit.spectral.linear_map import OperatorNorm
from lipaudit.spectral.matrix.gram import check_tolerance, spectral_norm
from lipaudit.spectral.rounding import log_power_of_two, on_device

# Floating-point operations that one layer's complete lattice may cost, about 30 n^3 per frequency.
LATTICE_BUDGET = 5e12
LEAST_DENSITY = 16.0
# Frequencies times groups of one batch; each takes a number. Layers with more are measured one by one.
TABLE_NUMBERS = 2**27
# Numbers of kernels that are worked on at once; symbols and their lags take some ten times as much memory.
HELD_NUMBERS = 2**27


def convolution_norms(convolutions: Sequence[Convolution], tol: float = 1e-3) -> list[OperatorNorm]:
    """The brackets of several convolutions, in their order; the kernels may lie on a GPU, all on the same one.

    Args:
        convolutions: ordinary or transposed, of any geometry.
        tol: as for :func:`lipaudit.spectral.convolution.norm.convolution_norm`.

    Raises:
        NonFiniteWeightsError: if a kernel holds NaN or infinity.

    >>> same = Convolution(torch.eye(2)[:, :, None] * 3, (8,), (1,), ((0, 0),), (1,))
    >>> [round(found.bracket.upper, 2) for found in convolution_norms([same, same])]
    [3.0, 3.0]
    """
    check_tolerance(tol)
    batches: dict[tuple[object, ...], list[int]] = {}
    for position, convolution in enumerate(convolutions):
        batches.setdefault((convolution.weight.shape, *convolution.geometry), []).append(position)
    by_position: dict[int, OperatorNorm] = {}
    for share in _shares(list(batches.values()), [c.weight.numel() for c in convolutions]):
        norms = together([_batch([convolutions[p] for p in positions], tol) for positions in share])
        for positions, some in zip(share, norms, strict=True):
            by_position |= zip(positions, some, strict=True)
    return [by_position[position] for position in range(len(convolutions))]


def _shares(batches: list[list[int]], numbers: list[int]) -> list[list[list[int]]]:
    """The batches, cut where one is too large, in shares that may be held at once."""
    shares: list[list[list[int]]] = [[]]
    held = 0
    for batch in batches:
        length = max(1, HELD_NUMBERS // max(1, numbers[batch[0]]))
        for part in (batch[i : i + length] for i in range(0, len(batch), length)):
            size = len(part) * numbers[part[0]]
            if shares[-1] and held + size > HELD_NUMBERS:
                shares.append([])
                held = 0
            shares[-1].append(part)
            held += size
    return shares


def matrix_norms(matrices: Sequence[torch.Tensor], tol: float = 1e-3) -> list[Bracket]:
    """The brackets of the spectral norms of several matrices, in their order: each is a convolution on one pixel."""
    pixels = {
        i: Convolution(matrix[:, :, None], (1,), (1,), ((0, 0),), (1,))
        for i, matrix in enumerate(matrices)
        if matrix.numel() and not matrix.is_complex()
    }
    norms = dict(zip(pixels, convolution_norms(list(pixels.values()), tol), strict=True))
    return [norms[i].bracket if i in norms else spectral_norm(m.to("cpu"), tol) for i, m in enumerate(matrices)]


def _batch(convolutions: list[Convolution], tol: float) -> Search[list[OperatorNorm]]:
    """The brackets of layers of equal geometry."""
    if not convolutions[0].weight.numel():
        return [ZERO] * len(convolutions)
    ordinary = convolutions[0].adjoint() if convolutions[0].transposed else convolutions[0]
    layers, groups = len(convolutions), ordinary.groups
    shape = reduce(crop(ordinary.to("meta")), drop_zeros=False)
    bordered = (
        ordinary.padding_mode in ("reflect", "replicate") and shape.copies > 1
    )  # each border has a norm of its own
    if bordered or shape.too_large or _points(_lattice(shape, tol)[0]) * groups * layers > TABLE_NUMBERS:
        return [_alone(c, tol) for c in convolutions]
    kernels = torch.stack([c.kernel.detach().to(torch.float64) for c in convolutions])
    # a kernel that holds NaN or infinity has no finite maximum
    largest = yield kernels.flatten(1).abs().amax(1)
    if not all(math.isfinite(number) for number in largest):
        raise NonFiniteWeightsError(["the kernel"])
    exponents = [math.frexp(number)[1] for number in largest]
    alive = [i for i in range(layers) if largest[i] > 0]
    norms = [ZERO] * layers
    if not alive:
        return norms
    half = [e // 2 for e in exponents]  # two steps, because 2^-exponent itself may overflow
    scales = torch.tensor(
        [[2.0**-h, 2.0 ** (h - e)] for h, e in zip(half, exponents, strict=True)], dtype=torch.float64
    )
    first, second = (scale.reshape(-1, *[1] * (kernels.dim() - 1)) for scale in on_device(scales, kernels.device).T)
    scaled = (kernels * first * second)[alive] if len(alive) < layers else kernels * first * second
    whole = crop(ordinary.with_kernel(scaled.flatten(0, 1), groups=groups * len(alive)))
    brackets = yield from _brackets(whole, len(alive), shape, tol)
    for i, (bracket, note) in zip(alive, brackets, strict=True):
        if bracket.tightness > 1 + tol and is_small(ordinary):  # written out as a matrix
            norms[i] = _alone(convolutions[i], tol)
            continue
        down, up = log_power_of_two(exponents[i])
        norms[i] = OperatorNorm(Bracket(round_down(bracket.log_lower + down), round_up(bracket.log_upper + up)), note)
    return norms


def _alone(convolution: Convolution, tol: float) -> OperatorNorm:
    return convolution_norm(convolution.to("cpu"), tol)


def _brackets(whole: Convolution, layers: int, shape: Reduction, tol: float) -> Search[list[tuple[Bracket, str]]]:
    """The brackets of scaled layers that are one convolution with ``layers`` times as many groups, and their notes.

    ``shape`` is the reduction of one layer, without numbers.
    """
    reduced = reduce(whole, drop_zeros=False)
    (size,) = yield tap_sizes(reduced.taps.matrices).amax(0, keepdim=True)
    gram = SymbolGram(reduced.taps, size)
    degrees = reduced.taps.degrees
    period, is_grid = _lattice(shape, tol)
    peaks: Peaks = yield from suprema(gram, layers, period, tol if is_grid else tol / 2)
    exact = is_grid and reduced.exact
    lowers = peaks.lower if exact else lower_bounds(whole, layers, _waves(gram, peaks, layers))
    numbers = yield torch.stack([lowers, peaks.upper])
    axes = zip(degrees, period, strict=True)
    factor = 1.0 if is_grid else cosine_squared([round_up(math.pi * n / p) for n, p in axes])
    copies = 0.0 if reduced.copies == 1 else log_up(reduced.copies) / 2 + 2**-50
    grid = "matrix" if not any(degrees) else f"grid {'x'.join(map(str, period))}"
    note = grid if is_grid else _torus_note(factor, tol)
    brackets = []
    for lower, upper in zip(numbers[:layers], numbers[layers:], strict=True):
        log_lower = log_down(lower) / 2 if exact else log_down(lower)
        log_upper = round_up(log_up(round_up(upper / factor)) / 2 + copies)
        brackets.append((Bracket(min(round_down(log_lower), log_upper), log_upper), note))
    return brackets


def _torus_note(factor: float, tol: float) -> str:
    return "torus" if factor >= (1 + tol / 2) ** -2 else "torus, flat spectrum"


def _lattice(shape: Reduction, tol: float) -> tuple[tuple[int, ...], bool]:
    """The points per axis, and whether they are the operator's own grid; else the cosine factor of the torus is due."""
    degrees = shape.taps.degrees
    axes = sum(n > 0 for n in degrees)
    if not shape.size_free or axes == 0:
        return shape.period, True
    groups, _, rows, columns = shape.taps.matrices.shape
    # prod cos(pi / density) over the axes stays above 1 - tol / 2
    density = max(LEAST_DENSITY, math.pi * math.sqrt(axes / tol))
    most = LATTICE_BUDGET / (30 * min(rows, columns) ** 3 * groups)
    while density > LEAST_DENSITY and _points(lattice(degrees, density)) > most:
        density = max(LEAST_DENSITY, 0.9 * density)
    period = lattice(degrees, density)
    return (shape.period, True) if math.prod(shape.period) <= math.prod(period) else (period, False)


def _points(period: tuple[int, ...]) -> int:
    """Frequencies of a lattice, one of each pair w, -w."""
    return math.prod(period) // 2 + 1


def _waves(gram: SymbolGram, peaks: Peaks, layers: int) -> Waves:
    """The output waves at the peaks, angles in steps of the operator's own output."""
    per_layer = gram.groups // layers
    left = gram.left_vectors(peaks.groups, peaks.angles, peaks.vectors)
    return Waves(
        peaks.groups % per_layer, peaks.angles / on_device(torch.tensor(gram.taps.divisors), peaks.angles.device), left
    )
