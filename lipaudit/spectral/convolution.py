"""Certified operator norms of convolutions from their geometry.

Zero padding, input H per axis, effective kernel extent k: the operator is a compression of the circular convolution of
any period N >= max(H + min(max(p_left, p_right), k - 1), k) (rounded up to a multiple of the stride), and of the
convolution on Z^d, whose norm is the supremum of sigma_1(D(w)) over the torus. N = H would not do: [[1, -1], [-1, 1]]
with "same" zero padding exceeds that value by 8 % at H = 3.

Circular padding: the padded input is periodic, so the output is a selection of rows of the circular convolution of
period H, each row at most ceil(output / H) times. If the stride divides H and every row occurs once, this is exact.

Reflect and replicate padding: the norm of the padding (root of the largest number of copies of a pixel) times that of
the unpadded convolution of the padded input.

Groups act on disjoint channels: the norm is the largest of the groups' norms. A transposed convolution is an adjoint.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from lipaudit.spectral.batched import largest_spectral_norm
from lipaudit.spectral.bracket import Bracket, log_down, log_up, round_down, round_up
from lipaudit.spectral.geometry import Convolution, Taps, padding_copies, padding_source, polyphase
from lipaudit.spectral.gram import check_tolerance, spectral_norm
from lipaudit.spectral.power import apply, lower_bound
from lipaudit.spectral.rounding import as_float64, gamma, log_power_of_two, scale_to_unit
from lipaudit.spectral.symbol import SymbolGram
from lipaudit.spectral.torus import Supremum, grid_bounds, grid_supremum, starting_points, torus_supremum

# A grid with at most this many times the points of the torus search's first lattice costs about as much, and is tighter.
GRID_FACTOR = 4.5
# Operators of up to this many entries per group are written out as matrices where the Fourier bound is not tight.
EXPLICIT_ENTRIES = 2**18
EXPLICIT_TOTAL = 2**24
EXPLICIT_CHUNK = 2**22  # entries that are written out at once
# Lag matrices up to this many numbers are kept (1 GiB); larger kernels get the bound of their reshaped matrix.
LAG_NUMBERS = 2**27


@dataclass(frozen=True)
class ConvolutionNorm:
    """A bracket and the way it was found, in a few words."""

    bracket: Bracket
    note: str


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
        ValueError: for geometry that torch would refuse.
        NonFiniteWeightsError: if the kernel holds NaN or infinity.

    >>> difference = torch.tensor([[[[1.0, -1.0]]]])
    >>> b = conv_norm(difference, input_size=8, padding_mode="circular", padding="same")
    >>> b.lower <= 2.0 <= b.upper <= 2.002
    True
    """
    check_tolerance(tol)
    d = kernel.dim() - 2

    def each(value: int | Sequence[int]) -> tuple[int, ...]:
        return (value,) * d if isinstance(value, int) else tuple(value)

    dilations = each(dilation)
    if padding == "same":
        if any(s != 1 for s in each(stride)):
            raise ValueError('padding="same" needs stride 1')
        totals = [d_ * (k - 1) for d_, k in zip(dilations, kernel.shape[2:], strict=True)]
        sides = tuple((t // 2, t - t // 2) for t in totals)
    elif padding == "valid":
        sides = ((0, 0),) * d
    elif isinstance(padding, str):
        raise ValueError(f'padding must be integers, "same" or "valid", not {padding!r}')
    else:
        sides = tuple((p, p) for p in each(padding))
        if any(p < 0 for p in each(padding)):
            raise ValueError("padding must be at least 0")
    convolution = Convolution(
        kernel, each(input_size), each(stride), sides, dilations, groups, padding_mode, transposed, each(output_padding)
    )
    return convolution_norm(convolution, tol).bracket


def convolution_norm(convolution: Convolution, tol: float = 1e-3) -> ConvolutionNorm:
    """The bracket of a :class:`Convolution`; the upper end is certified, the lower end belongs to the true operator."""
    ordinary = convolution.adjoint() if convolution.transposed else convolution
    kernel, exponent = scale_to_unit(as_float64(ordinary.kernel, "the kernel"), dims=ordinary.kernel.dim())
    ordinary = _crop(replace(ordinary, kernel=kernel))
    if not bool(ordinary.kernel.any()):
        return ConvolutionNorm(Bracket(-math.inf, -math.inf), "zero kernel")
    found = _BY_MODE[ordinary.padding_mode](ordinary, tol)
    if not found.exact:
        found = replace(found, log_lower=lower_bound(ordinary, found.start))
    if found.log_upper - found.log_lower > math.log1p(tol) and _group_entries(ordinary) <= EXPLICIT_ENTRIES:
        found = _write_out(ordinary, found, tol)
    down, up = log_power_of_two(float(exponent))
    bracket = Bracket(round_down(min(found.log_lower, found.log_upper) + down), round_up(found.log_upper + up))
    return ConvolutionNorm(bracket, found.note)


@dataclass(frozen=True, eq=False)
class _Found:
    """A certified upper bound of the scaled operator; ``exact`` says that ``log_lower`` holds for the operator, too."""

    log_lower: float
    log_upper: float
    note: str
    exact: bool = False
    start: Supremum | None = None
    group_log_uppers: torch.Tensor | None = None  # where each group's own bound is known

    def times(self, copies: int) -> _Found:
        """The bound after a selection that repeats entries up to ``copies`` times."""
        if copies == 1:
            return replace(self, exact=False)
        log_upper = self.log_upper + log_up(copies) / 2 + 2**-50
        return replace(self, log_upper=log_upper, exact=False, group_log_uppers=None)


def _crop(convolution: Convolution) -> Convolution:
    """Drop taps that never meet the input; along an axis with one output the stride is free: set to the extent.

    Taps between others cannot be cut off and become zero.
    """
    if convolution.padding_mode != "zeros":
        return convolution
    kernel, padding, stride = convolution.kernel, list(convolution.padding), list(convolution.stride)
    outputs = convolution.output_size
    for axis, (h, s, d) in enumerate(zip(convolution.input_size, stride, convolution.dilation, strict=True)):
        left, right = padding[axis]
        k = kernel.shape[2 + axis]
        # tap a reads pixel s j + d a - left: does any output j bring it into [0, h)?
        meets = [
            max(0, -((d * a - left) // s)) <= min(outputs[axis] - 1, (h - 1 + left - d * a) // s) for a in range(k)
        ]
        if not any(meets):
            return replace(convolution, kernel=torch.zeros_like(kernel))
        if not all(meets):
            unread = torch.tensor([a for a in range(k) if not meets[a]], device=kernel.device)
            kernel = kernel.index_fill(2 + axis, unread, 0.0)
        first, last = meets.index(True), k - meets[::-1].index(True)
        kernel = kernel.narrow(2 + axis, first, last - first)
        padding[axis] = (left - first * d, right - (k - last) * d)
        if outputs[axis] == 1:
            stride[axis] = (last - first - 1) * d + 1
    return replace(convolution, kernel=kernel, padding=tuple(padding), stride=tuple(stride))


def _zero_padded(convolution: Convolution, tol: float) -> _Found:
    taps = polyphase(convolution.grouped_taps(), convolution.stride, convolution.dilation)
    axes = list(zip(convolution.input_size, convolution.extent, convolution.stride, convolution.padding, strict=True))
    if convolution.groups == 1 and not any(taps.degrees):
        bracket = spectral_norm(taps.matrices[0, 0], tol)
        whole = all(
            _has_whole_window(*axis, outputs) for axis, outputs in zip(axes, convolution.output_size, strict=True)
        )
        return _Found(bracket.log_lower, bracket.log_upper, "matrix", exact=whole)
    if _too_large(taps):
        return _reshaped(convolution, tol)
    period = tuple(-(-max(h + min(max(*p, 0), k - 1), k) // s) for h, k, s, p in axes)
    return _grid_or_torus(SymbolGram(taps), period, tol, size_free=True)


def _has_whole_window(h: int, k: int, s: int, p: tuple[int, int], outputs: int) -> bool:
    # 0 <= s j - p <= h - k for some output j
    return max(0, -(-p[0] // s)) <= min(outputs - 1, (h - k + p[0]) // s)


def _grid_or_torus(gram: SymbolGram, period: tuple[int, ...], tol: float, size_free: bool) -> _Found:
    # a grid of N points seen through a common divisor g of all shifts has N / gcd(N, g) distinct points; an axis
    # along which the symbol is constant needs one
    degrees = gram.taps.degrees
    axes = zip(period, gram.taps.divisors, degrees, strict=True)
    period = tuple(1 if n == 0 else p // math.gcd(p, g) for p, g, n in axes)
    # the grid's maximum lies within this factor of the supremum over the torus
    gap = math.prod(math.cos(min(math.pi * n / p, math.pi / 2)) for n, p in zip(degrees, period, strict=True) if n)
    groups = None
    if math.prod(period) > GRID_FACTOR * starting_points(gram) and (size_free or gap >= 1 - tol / 4):
        found = torus_supremum(gram, tol if size_free else tol / 2)
        note = "torus" if found.tight else "torus, flat spectrum"
    else:
        found = grid_supremum(gram, period, tol)
        note = f"grid {'x'.join(map(str, period))}"
        if gram.groups > 1:
            groups = grid_bounds(gram, period)
    return _Found(found.log_lower, found.log_upper, note, start=found, group_log_uppers=groups)


def _circular(convolution: Convolution, tol: float) -> _Found:
    axes = list(zip(convolution.input_size, convolution.stride, convolution.output_size, strict=True))
    aligned = all(h % s == 0 for h, s, _ in axes)
    stride = convolution.stride if aligned else (1,) * len(axes)
    taps = polyphase(convolution.grouped_taps(), stride, convolution.dilation)
    if _too_large(taps):
        return _reshaped(convolution, tol)
    period = tuple(h // s for (h, _, _), s in zip(axes, stride, strict=True))
    found = _grid_or_torus(SymbolGram(taps), period, tol, size_free=False)
    if all(n * s == h for h, s, n in axes):
        # the torus bracket's lower end belongs to a frequency that the grid may miss
        return replace(found, exact=found.note.startswith("grid"))
    return found.times(math.prod(max(Counter(s * j % h for j in range(n)).values()) for h, s, n in axes))


def _copied(convolution: Convolution, tol: float) -> _Found:
    axes = list(zip(convolution.input_size, convolution.padding, strict=True))
    padded = tuple(h + sum(p) for h, p in axes)
    inner = replace(convolution, input_size=padded, padding=((0, 0),) * len(padded), padding_mode="zeros")
    copies = math.prod(padding_copies(h, p, convolution.padding_mode) for h, p in axes)
    return _zero_padded(_crop(inner), tol).times(copies)


_BY_MODE: dict[str, Callable[[Convolution, float], _Found]] = {
    "zeros": _zero_padded,
    "circular": _circular,
    "reflect": _copied,
    "replicate": _copied,
}


def _too_large(taps: Taps) -> bool:
    groups, count, rows, columns = taps.matrices.shape
    extents = (taps.offsets.amax(0) + 1).tolist()
    lags = min(math.prod(2 * e - 1 for e in extents) // 2 + 1, count * (count + 1) // 2)
    return bool(2 * groups * lags * min(rows, columns) ** 2 > LAG_NUMBERS)


def _reshaped(convolution: Convolution, tol: float) -> _Found:
    """The norm of the kernel as a matrix c_out x (c_in k) times the root of how often a pixel occurs in all windows.

    The convolution is that matrix applied to windows of the input, and cutting out windows only copies pixels.
    """
    log_upper = max(spectral_norm(matrix, tol).log_upper for matrix in convolution.grouped_taps().flatten(2))
    copies = 1
    for axis, (h, s, d, (left, _), n) in enumerate(
        zip(
            convolution.input_size,
            convolution.stride,
            convolution.dilation,
            convolution.padding,
            convolution.output_size,
            strict=True,
        )
    ):
        reads = (s * j + d * a - left for j in range(n) for a in range(convolution.kernel_size[axis]))
        counts = Counter(padding_source(i, h, convolution.padding_mode) for i in reads)
        counts.pop(None, None)
        copies *= max(counts.values())
    return _Found(-math.inf, log_upper, "reshaped kernel").times(copies)


def _group_entries(convolution: Convolution) -> int:
    """Entries of the operator of one group, written out as a matrix."""
    c_in, c_out = (c // convolution.groups for c in convolution.channels)
    return c_in * c_out * math.prod(convolution.input_size) * math.prod(convolution.output_size)


def _write_out(convolution: Convolution, found: _Found, tol: float) -> _Found:
    """A better bracket from written-out matrices of those groups whose bound exceeds the operator's lower bound."""
    keep = torch.ones(convolution.groups, dtype=torch.bool)
    ceiling = -math.inf
    if found.group_log_uppers is not None:
        keep = found.group_log_uppers > found.log_lower + 0.99 * math.log1p(tol)
        ceiling = max(found.group_log_uppers[~keep].tolist(), default=-math.inf)
    count = int(keep.sum())
    if count == 0 or count * _group_entries(convolution) > EXPLICIT_TOTAL:
        return found
    some = replace(convolution, kernel=convolution.grouped_taps()[keep].flatten(0, 1), groups=count)
    written = _explicit(some, tol)
    log_lower, log_upper = max(found.log_lower, written.log_lower), max(ceiling, written.log_upper)
    if log_upper >= found.log_upper:
        return replace(found, log_lower=log_lower)
    return replace(written, log_lower=log_lower, log_upper=log_upper)


def _explicit(convolution: Convolution, tol: float) -> _Found:
    """The operator written out as one matrix per group; needs entries of at most 1."""
    kernels = convolution.grouped_taps()
    entries = _group_entries(convolution)
    taps = math.prod(convolution.kernel_size)
    # an entry where copies of a pixel meet is a sum of at most prod(k) weights
    slack = gamma(2 * taps + 4) * taps * math.sqrt(entries) * float(kernels.abs().amax())
    brackets = []
    for part in torch.split(kernels, max(1, EXPLICIT_CHUNK // entries)):
        g, _, c_in = part.shape[:3]
        some = replace(convolution, kernel=part.flatten(0, 1), groups=g)
        size = c_in * math.prod(some.input_size)
        basis = torch.eye(size, dtype=torch.float64).reshape(size, c_in, *some.input_size)
        columns = apply(some, basis.repeat(1, g, *(1,) * len(some.input_size)))
        bracket = largest_spectral_norm(columns.reshape(size, g, -1).permute(1, 2, 0), tol)
        brackets.append(Bracket(log_down(max(0.0, bracket.lower - slack)), log_up(bracket.upper + slack)))
    bracket = Bracket.maximum(brackets)
    return _Found(bracket.log_lower, bracket.log_upper, "explicit matrix", exact=True)
