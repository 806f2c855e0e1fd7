"""Certified operator norms of convolutions from their geometry.

What a convolution reduces to is told in ``stride`` and ``frequencies``: the largest singular value of its symbol over a grid of
frequencies or over all of them. Small operators whose border matters are written out as matrices.

Groups act on disjoint channels: the norm is the largest of the groups' norms. A transposed convolution is an adjoint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from lipaudit.spectral.bracket import Bracket, log_up, round_down, round_up
from lipaudit.spectral.convolution.copied_borders import border_bound
from lipaudit.spectral.convolution.explicit import group_entries, group_work, is_small, written_out
from lipaudit.spectral.convolution.frequencies import Reduction, crop, reduce, window_copies
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.gram_at_frequencies import symbol_gram
from lipaudit.spectral.convolution.power_iteration import lower_bound
from lipaudit.spectral.convolution.search import Supremum, grid_supremum, starting_points, torus_supremum
from lipaudit.spectral.linear_map import OperatorNorm
from lipaudit.spectral.matrix.gram import check_tolerance, spectral_norm
from lipaudit.spectral.rounding import as_float64, check_tensor, log_power_of_two, scale_to_unit

# A grid with at most this many times the points of the torus search's first lattice costs about as much, and is tighter.
GRID_FACTOR = 4.5
# So does one of so many floating-point operations, whatever the lattice.
CHEAP_GRID = 2e7
# Entries of the groups that are written out before it is known which ones matter.
FIRST_ENTRIES = 2**14
# Floating-point operations that all written-out matrices of a layer may take: a tenth of a second.
WRITTEN_WORK = 1e9
# Groups among which the operator's lower bound is looked for where each has a bound of its own.
PROMISING = 4


ZERO = OperatorNorm(Bracket(-math.inf, -math.inf), "zero kernel")


def conv_norm(
    kernel: torch.Tensor,
    input_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    transposed: bool = False,
    output_padding: int | Sequence[int] = 0,
    tol: float = 1e-3,
) -> Bracket:
    """Certified bracket of the operator norm (largest singular value) of a convolution on inputs of the given size.

    The linear map x -> K * x in 1, 2 or 3 dimensions, all arguments as in ``torch.nn.Conv2d`` and ``ConvTranspose2d``.

    Args:
        kernel: (c_out, c_in / groups, *k), for ``transposed`` (c_in, c_out / groups, *k).
        input_size: spatial sizes of the input; one integer serves all axes.
        padding: integers, "same" or "valid".
        tol: the requested upper / lower of the supremum over frequencies. For circular "same" padding that is the
            operator itself; for zero padding the operator's own lower bound can lie further below.

    Raises:
        TypeError: if the kernel is no tensor.
        ValueError: for geometry that torch would refuse.
        NonFiniteWeightsError: if the kernel holds NaN or infinity.

    >>> difference = torch.tensor([[[[1.0, -1.0]]]])
    >>> b = conv_norm(difference, input_size=8, padding_mode="circular", padding="same")
    >>> b.lower <= 2.0 <= b.upper <= 2.002
    True
    """
    check_tolerance(tol)
    check_tensor(kernel, "the kernel")
    convolution = Convolution.like_torch(
        kernel, input_size, stride, padding, dilation, groups, padding_mode, transposed, output_padding
    )
    return convolution_norm(convolution, tol).bracket


def convolution_norm(convolution: Convolution, tol: float = 1e-3) -> OperatorNorm:
    """The bracket of a :class:`Convolution`; the upper end is certified, the lower end belongs to the true operator."""
    if not convolution.weight.numel():
        return ZERO
    ordinary = convolution.adjoint() if convolution.transposed else convolution
    kernel, exponent = scale_to_unit(as_float64(ordinary.kernel, "the kernel"), dims=ordinary.weight.dim())
    ordinary = crop(ordinary.with_kernel(kernel))
    if not bool(ordinary.kernel.any()):
        return ZERO
    bounds = _solve(ordinary, tol)
    if not bounds.exact and is_small(ordinary):
        bounds = _write_out(ordinary, bounds, tol)
    elif not bounds.exact:
        bounds = replace(bounds, log_lower=_lower(ordinary, bounds))
    down, up = log_power_of_two(float(exponent))
    bracket = Bracket(round_down(min(bounds.log_lower, bounds.log_upper) + down), round_up(bounds.log_upper + up))
    return OperatorNorm(bracket, bounds.note)


@dataclass(frozen=True, eq=False)
class _Bounds:
    """A certified upper bound of the scaled operator; ``exact`` says that ``log_lower`` holds for the operator, too."""

    log_lower: float
    log_upper: float
    note: str
    exact: bool = False
    start: Supremum | None = None
    group_log_uppers: torch.Tensor | None = None  # where each group's own bound is known

    def times(self, copies: int) -> _Bounds:
        """The bound after a selection that repeats entries up to ``copies`` times."""
        if copies == 1:
            return replace(self, exact=False)
        log_upper = self.log_upper + log_up(copies) / 2 + 2**-50
        return replace(self, log_upper=log_upper, exact=False, group_log_uppers=None)


def _lower(convolution: Convolution, bounds: _Bounds) -> float:
    """log of a lower bound of the operator norm, from the groups that may attain it."""
    uppers = bounds.group_log_uppers
    if bounds.start is None or convolution.groups <= PROMISING:
        return lower_bound(convolution, bounds.start)
    chosen = torch.tensor([bounds.start.group])
    if uppers is not None:
        chosen = uppers.index_fill(0, chosen, math.inf).topk(PROMISING).indices
    some = convolution.with_kernel(convolution.grouped_taps()[chosen].flatten(0, 1), groups=len(chosen))
    return lower_bound(some, replace(bounds.start, group=0))


def _solve(convolution: Convolution, tol: float) -> _Bounds:
    """The bound by the symbol of the convolution, or by its reshaped kernel where the symbol is too large."""
    reduced = reduce(convolution)
    if reduced.is_matrix and reduced.size_free:
        bracket = spectral_norm(reduced.taps.matrices[0, 0], tol)
        bounds = _Bounds(bracket.log_lower, bracket.log_upper, "matrix", exact=reduced.exact)
    elif reduced.too_large:
        # the convolution is the kernel as a matrix c_out x (c_in k) applied to windows, which copy pixels
        log_upper = max(spectral_norm(matrix, tol).log_upper for matrix in convolution.grouped_taps().flatten(2))
        return _Bounds(-math.inf, log_upper, "reshaped kernel").times(window_copies(convolution))
    else:
        bounds = _grid_or_torus(reduced, tol)
    if bounds.exact or reduced.copies == 1:
        return bounds if bounds.exact else bounds.times(reduced.copies)
    return _with_border(convolution, bounds.times(reduced.copies), tol)


def _with_border(convolution: Convolution, bounds: _Bounds, tol: float) -> _Bounds:
    """The bound by what reflected or repeated borders add to the zero-padded convolution, where that is smaller."""
    if convolution.padding_mode == "circular":
        return bounds
    bound = border_bound(convolution, tol, lambda c, t: convolution_norm(c, t).bracket)
    if bound is None or bound.log_upper >= bounds.log_upper:
        return bounds
    return replace(bounds, log_upper=bound.log_upper, note="zero padding and border", group_log_uppers=None)


def _grid_or_torus(reduced: Reduction, tol: float) -> _Bounds:
    period, size_free = reduced.period, reduced.size_free
    gram = symbol_gram(reduced.taps, math.prod(period) // 2 + 1)
    # the grid's maximum lies within this factor of the supremum over the torus
    axes = zip(reduced.taps.degrees, period, strict=True)
    gap = math.prod(math.cos(min(math.pi * n / p, math.pi / 2)) for n, p in axes if n)
    cheap = gram.grid_cost(math.prod(period) // 2) <= CHEAP_GRID
    if not cheap and math.prod(period) > GRID_FACTOR * starting_points(gram) and (size_free or gap >= 1 - tol / 4):
        supremum = torus_supremum(gram, tol if size_free else tol / 2, grid=period)
    else:
        supremum = grid_supremum(gram, period, tol)
    note = "torus" if supremum.tight else "torus, flat spectrum"
    if supremum.grid is not None:
        note = f"grid {'x'.join(map(str, period))}"
    # the torus bracket's lower end belongs to a frequency that the grid may miss
    exact = reduced.exact and supremum.grid is not None
    return _Bounds(
        supremum.log_lower, supremum.log_upper, note, exact, start=supremum, group_log_uppers=supremum.group_log_uppers
    )


def _write_out(convolution: Convolution, bounds: _Bounds, tol: float) -> _Bounds:
    """A better bracket of a small operator from written-out matrices of the groups that may attain its norm."""
    kernels, uppers = convolution.grouped_taps(), bounds.group_log_uppers
    if uppers is None:
        uppers = torch.full((len(kernels),), bounds.log_upper, dtype=torch.float64)
    order = uppers.argsort(descending=True)
    affordable = max(1, int(WRITTEN_WORK // group_work(convolution)))
    few = min(affordable, max(1, FIRST_ENTRIES // group_entries(convolution)))
    log_lower = ceiling = -math.inf
    done = 0
    # the most promising groups, then those that the norms of these do not exclude
    for count in (few, affordable - few):
        chosen = order[done : done + count]
        chosen = chosen[uppers[chosen] > log_lower + 0.99 * math.log1p(tol)]
        done += len(chosen)
        if len(chosen):
            some = convolution.with_kernel(kernels[chosen].flatten(0, 1), groups=len(chosen))
            bracket = written_out(some, tol, log_lower)
            log_lower, ceiling = max(log_lower, bracket.log_lower), max(ceiling, bracket.log_upper)
    if done < len(order):
        ceiling = max(ceiling, float(uppers[order[done]]))
    if ceiling > log_lower + math.log1p(tol):  # groups that may attain the norm are left
        log_lower = max(log_lower, _lower(convolution, bounds))
    if ceiling < bounds.log_upper:
        return _Bounds(log_lower, ceiling, "explicit matrix", exact=True)
    return replace(bounds, log_lower=log_lower)
