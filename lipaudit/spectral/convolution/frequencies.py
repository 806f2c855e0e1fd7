"""From a convolution to a symbol: over which frequencies the largest singular value of the symbol bounds its norm.

Zero padding, input H per axis, effective kernel extent k: the operator is a compression of the circular convolution of
any period N >= max(H + min(max(p_left, p_right), k - 1), k) (rounded up to a multiple of the stride), and of the
convolution on Z^d, whose norm is the supremum of sigma_1(D(w)) over the torus. N = H would not do: [[1, -1], [-1, 1]]
with "same" zero padding exceeds that value by 8 % at H = 3.

Circular padding: the padded input is periodic, so the output is a selection of rows of the circular convolution of
period H, each row at most ceil(output / H) times. If the stride divides H and every row occurs once, this is exact.

Reflect and replicate padding: the norm of the padding (root of the largest number of copies of a pixel) times that of
the unpadded convolution of the padded input; or what the borders add to the zero-padded convolution (``copied_borders``), where that is
smaller.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import torch

from lipaudit.spectral.convolution.geometry import Convolution, padding_copies, padding_source
from lipaudit.spectral.convolution.stride import Taps, polyphase

# Lag matrices up to this many numbers are kept (1 GiB); larger kernels get the bound of their reshaped matrix.
LAG_NUMBERS = 2**27


@dataclass(frozen=True, eq=False)
class Reduction:
    """norm <= sqrt(copies) * max of sigma_1(D(w)) over the grid of ``period`` points per axis, D the symbol of ``taps``.

    ``size_free`` says that the supremum over all frequencies is a bound as well, and as good as any for large inputs; where it is not,
    that of the grid is wanted. ``exact`` says that the grid's maximum is the norm itself (and ``copies`` is 1).
    """

    taps: Taps
    period: tuple[int, ...]
    size_free: bool
    exact: bool = False
    copies: int = 1

    @property
    def is_matrix(self) -> bool:
        """Whether the symbol does not depend on the frequency and belongs to one group."""
        return self.taps.matrices.shape[0] == 1 and not any(self.taps.degrees)

    @property
    def too_large(self) -> bool:
        """Whether the lag matrices of the symbol would take too much memory."""
        groups, count, rows, columns = self.taps.matrices.shape
        extents = (self.taps.offsets.amax(0) + 1).tolist()
        lags = min(math.prod(2 * e - 1 for e in extents) // 2 + 1, count * (count + 1) // 2)
        return bool(2 * groups * lags * min(rows, columns) ** 2 > LAG_NUMBERS)


def reduce(convolution: Convolution, drop_zeros: bool = True) -> Reduction:
    """The symbol of an ordinary (not transposed) convolution and the frequencies that count.

    ``drop_zeros`` leaves out taps that are zero everywhere, which may need fewer frequencies but looks at every tap.

    >>> kernel = torch.ones(1, 1, 3)
    >>> reduce(Convolution(kernel, (8,), (1,), ((1, 1),), (1,))).period
    (9,)
    """
    if convolution.padding_mode == "circular":
        return _circular(convolution, drop_zeros)
    if convolution.padding_mode == "zeros":
        return _zero_padded(convolution, drop_zeros)
    axes = list(zip(convolution.input_size, convolution.padding, strict=True))
    padded = tuple(h + sum(p) for h, p in axes)
    inner = replace(convolution, input_size=padded, padding=((0, 0),) * len(padded), padding_mode="zeros")
    copies = math.prod(padding_copies(h, p, convolution.padding_mode) for h, p in axes)
    return replace(_zero_padded(crop(inner), drop_zeros), copies=copies, exact=False)


def _zero_padded(convolution: Convolution, drop_zeros: bool) -> Reduction:
    taps = polyphase(convolution.grouped_taps(), convolution.stride, convolution.dilation, drop_zeros)
    axes = list(zip(convolution.input_size, convolution.extent, convolution.stride, convolution.padding, strict=True))
    period = tuple(-(-max(h + min(max(*p, 0), k - 1), k) // s) for h, k, s, p in axes)
    reduction = Reduction(taps, _distinct(period, taps), size_free=True)
    whole = all(_has_whole_window(*axis, outputs) for axis, outputs in zip(axes, convolution.output_size, strict=True))
    return replace(reduction, exact=reduction.is_matrix and whole)


def _has_whole_window(h: int, k: int, s: int, p: tuple[int, int], outputs: int) -> bool:
    # 0 <= s j - p <= h - k for some output j
    return max(0, -(-p[0] // s)) <= min(outputs - 1, (h - k + p[0]) // s)


def _circular(convolution: Convolution, drop_zeros: bool) -> Reduction:
    axes = list(zip(convolution.input_size, convolution.stride, convolution.output_size, strict=True))
    aligned = all(h % s == 0 for h, s, _ in axes)
    stride = convolution.stride if aligned else (1,) * len(axes)
    taps = polyphase(convolution.grouped_taps(), stride, convolution.dilation, drop_zeros)
    period = tuple(h // s for (h, _, _), s in zip(axes, stride, strict=True))
    exact = all(n * s == h for h, s, n in axes)
    copies = 1 if exact else math.prod(max(Counter(s * j % h for j in range(n)).values()) for h, s, n in axes)
    return Reduction(taps, _distinct(period, taps), size_free=False, exact=exact, copies=copies)


def _distinct(period: tuple[int, ...], taps: Taps) -> tuple[int, ...]:
    """A grid of N points seen through a common divisor g of all shifts has N / gcd(N, g) distinct ones.

    An axis along which the symbol is constant needs one.
    """
    axes = zip(period, taps.divisors, taps.degrees, strict=True)
    return tuple(1 if n == 0 else p // math.gcd(p, g) for p, g, n in axes)


def crop(convolution: Convolution) -> Convolution:
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
            return convolution.with_kernel(torch.zeros_like(kernel))
        if not all(meets):
            unread = torch.tensor([a for a in range(k) if not meets[a]], device=kernel.device)
            kernel = kernel.index_fill(2 + axis, unread, 0.0)
        first, last = meets.index(True), k - meets[::-1].index(True)
        kernel = kernel.narrow(2 + axis, first, last - first)
        padding[axis] = (left - first * d, right - (k - last) * d)
        if outputs[axis] == 1:
            stride[axis] = (last - first - 1) * d + 1
    return convolution.with_kernel(kernel, padding=tuple(padding), stride=tuple(stride))


def window_copies(convolution: Convolution) -> int:
    """How often the most copied pixel occurs in all windows of a convolution."""
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
    return copies
