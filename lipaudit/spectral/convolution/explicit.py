"""Small operators written out as matrices: their border matters, and no bound by frequencies sees it.

T[(o, j), (i, p)] is the sum of the weights K[o, i, a] whose position s j + d a - left the padding maps to pixel p: one
weight, or none, for zero padding; several where copies of a pixel meet. The places depend on the geometry alone.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch

from lipaudit.spectral import directed_rounding
from lipaudit.spectral.bracket import Bracket, log_down, log_up
from lipaudit.spectral.convolution.geometry import Convolution, padding_source
from lipaudit.spectral.matrix.gram_batch import largest_spectral_norm
from lipaudit.spectral.rounding import gamma

# Operators of up to this many entries per group are small.
SMALL_ENTRIES = 2**18
# Entries that are written out at once.
CHUNK_ENTRIES = 2**22

_Axis = tuple[int, int, int, int, int, int]  # input, taps, stride, dilation, left padding, output


def is_small(convolution: Convolution) -> bool:
    """Whether the operator of one group is small enough to be written out as a matrix."""
    return group_entries(convolution) <= SMALL_ENTRIES


def group_entries(convolution: Convolution) -> int:
    """Entries of the operator of one group, written out as a matrix."""
    c_in, c_out = (c // convolution.groups for c in convolution.channels)
    return c_in * c_out * math.prod(convolution.input_size) * math.prod(convolution.output_size)


def group_work(convolution: Convolution) -> float:
    """Floating-point operations of the norm of one group's matrix, roughly: its Gram matrix, a factorisation, a few vectors."""
    c_in, c_out = (c // convolution.groups for c in convolution.channels)
    sides = c_in * math.prod(convolution.input_size), c_out * math.prod(convolution.output_size)
    return 2.0 * min(sides) ** 2 * max(sides) + min(sides) ** 3 / 3 + 100.0 * min(sides) ** 2


def written_out(convolution: Convolution, tol: float, log_floor: float = -math.inf) -> Bracket:
    """The largest norm of the groups' operators, entries of the kernel at most 1.

    ``log_floor`` is a lower bound of a whole operator, of which these may be some groups.
    """
    kernels = convolution.grouped_taps()
    entries = group_entries(convolution)
    # an entry where copies of a pixel meet is a sum of at most prod(k) weights
    taps = 0 if convolution.padding_mode == "zeros" else math.prod(convolution.kernel_size)
    slack = gamma(2 * taps + 4) * taps * math.sqrt(entries) * float(kernels.abs().amax())
    brackets = []
    for part in torch.split(kernels, max(1, CHUNK_ENTRIES // entries)):
        some = convolution.with_kernel(part.flatten(0, 1), groups=len(part))
        bracket = largest_spectral_norm(operator_matrices(some), tol, log_floor)
        lower, upper = (
            directed_rounding.add(bracket.lower, -slack, up=False),
            directed_rounding.add(bracket.upper, slack, up=True),
        )
        brackets.append(Bracket(log_down(max(0.0, lower)), log_up(upper)))
    return Bracket.maximum(brackets)


def operator_matrices(convolution: Convolution) -> torch.Tensor:
    """The operator of every group of an ordinary convolution: (groups, c_out / groups * outputs, c_in / groups * pixels).

    >>> kernel = torch.tensor([[[1.0, 2.0, 3.0]]])
    >>> operator_matrices(Convolution(kernel, (3,), (1,), ((1, 1),), (1,)))[0]
    tensor([[2., 3., 0.],
            [1., 2., 3.],
            [0., 1., 2.]])
    """
    kernels = convolution.grouped_taps().flatten(3)
    groups, c_out, c_in, _ = kernels.shape
    outputs, pixels = math.prod(convolution.output_size), math.prod(convolution.input_size)
    axes = zip(
        *(convolution.input_size, convolution.kernel_size, convolution.stride, convolution.dilation),
        *((left for left, _ in convolution.padding), convolution.output_size),
        strict=True,
    )
    taps, places = _places(tuple(axes), convolution.padding_mode)
    entries = kernels.new_zeros(groups, c_out, c_in, outputs * pixels).index_add_(3, places, kernels[..., taps])
    return entries.reshape(groups, c_out, c_in, outputs, pixels).transpose(2, 3).reshape(groups, c_out * outputs, -1)


@lru_cache(maxsize=64)
def _places(axes: tuple[_Axis, ...], mode: str) -> tuple[torch.Tensor, torch.Tensor]:
    """For every weight that some output reads: which tap it is, and output * pixels + pixel."""
    taps, outputs, pixels = (torch.zeros(1, dtype=torch.long) for _ in range(3))
    for size, count, stride, dilation, left, length in axes:
        reads = [
            (a, j, source)
            for j in range(length)
            for a in range(count)
            if (source := padding_source(stride * j + dilation * a - left, size, mode)) is not None
        ]
        tap, output, pixel = torch.tensor(reads, dtype=torch.long).reshape(-1, 3).T
        taps = (taps[:, None] * count + tap).flatten()
        outputs = (outputs[:, None] * length + output).flatten()
        pixels = (pixels[:, None] * size + pixel).flatten()
    return taps, outputs * math.prod(size for size, *_ in axes) + pixels
