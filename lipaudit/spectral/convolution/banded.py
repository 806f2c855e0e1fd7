"""Whether the norm of a zero-padded convolution is at most a number, decided for the operator itself, border included.

Bounds by frequencies hold for every image size, and a small image has a smaller norm: some 1 / n^2 less for n pixels per side.
Row by row of the first axis, y_j = sum_a T_a x_{s j + d a - p} with the matrices T_a of the convolutions along the other axes, so that
A^T A is banded in blocks. t^2 I - A^T A is positive definite if its Cholesky factorisation, block by block within the band, succeeds for a
t that is lowered by what rounding may do:

- computed blocks of A^T A are off by at most gamma | A |^T | A | (Higham, *Accuracy and Stability of Numerical Algorithms*, section
  3.5), in norm gamma times the largest row sum times the largest column sum of | A |;
- the factorisation of M is that of a matrix off by at most gamma | L | | L |^T (section 10.1), whose entries within the band are at
  most the largest diagonal entry of M.

Of A^T A and A A^T the one with smaller blocks is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from lipaudit.spectral.convolution.explicit import operator_matrices
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.rounding import product_error

_UP = 1 + 2.0**-30


def banded_work(convolution: Convolution) -> float:
    """Floating-point operations of one decision, roughly; infinite where there is none for such a convolution."""
    if not _is_banded(convolution):
        return math.inf
    rows, block, reach = _sizes(convolution)
    return rows * block**3 * (1 / 3 + reach + reach * (reach + 1)) + 2 * convolution.kernel_size[0] ** 2 * block**3


def is_norm_at_most(convolution: Convolution, bound: float) -> bool:
    """Whether ||A|| <= bound is proved; False says nothing.

    Args:
        convolution: not transposed, one group, zero padding of at least 0; its kernel is taken exactly.
        bound: a number above 0 in plain units.

    >>> kernel = torch.tensor([[[1.0, 1.0, 1.0]]])
    >>> convolution = Convolution(kernel, (3,), (1,), ((1, 1),), (1,))  # the norm is 1 + sqrt(2), over all sizes 3
    >>> is_norm_at_most(convolution, 2.4143), is_norm_at_most(convolution, 2.4142)
    (True, False)
    """
    if not _is_banded(convolution):
        return False
    kernel = convolution.kernel.to(torch.float64)
    taps = [_along_the_others(convolution, kernel[:, :, a]) for a in range(kernel.shape[2])]
    rows, block, reach = _sizes(convolution)
    blocks = _gram(convolution, taps)
    size = kernel.abs().flatten(2).sum(2)
    terms = max(taps[0].shape) + kernel.shape[2] + 2
    gram_error = product_error(terms, complex_entries=False) * float(size.sum(0).max()) * float(size.sum(1).max()) * _UP
    threshold = bound**2 * (1 - 2.0**-50)
    width = (reach + 1) * block
    backward = 8 * product_error(width + 2, complex_entries=False) * width * threshold * _UP
    return _is_positive(blocks, threshold - gram_error - backward, rows, reach)


def _is_banded(convolution: Convolution) -> bool:
    plain = convolution.groups == 1 and convolution.padding_mode == "zeros" and not convolution.transposed
    return plain and all(p >= 0 for pair in convolution.padding for p in pair)


def _reads_less(convolution: Convolution) -> bool:
    """Whether a row of the input has fewer entries than one of the output."""
    (c_in, c_out), inside, outside = convolution.channels, convolution.input_size, convolution.output_size
    return c_in * math.prod(inside[1:]) <= c_out * math.prod(outside[1:])


def _sizes(convolution: Convolution) -> tuple[int, int, int]:
    """Rows of blocks, entries of a block's side, blocks beside the diagonal."""
    (c_in, c_out), inside, outside = convolution.channels, convolution.input_size, convolution.output_size
    extent = convolution.extent[0] - 1
    if _reads_less(convolution):
        return inside[0], c_in * math.prod(inside[1:]), min(extent, inside[0] - 1)
    return outside[0], c_out * math.prod(outside[1:]), min(extent // convolution.stride[0], outside[0] - 1)


def _along_the_others(convolution: Convolution, kernel: torch.Tensor) -> torch.Tensor:
    """The matrix of one tap of the first axis: a convolution along the other axes."""
    if kernel.dim() == 2:
        return kernel
    rest = Convolution(
        kernel, convolution.input_size[1:], convolution.stride[1:], convolution.padding[1:], convolution.dilation[1:]
    )
    return operator_matrices(rest)[0]


def _gram(convolution: Convolution, taps: list[torch.Tensor]) -> dict[tuple[int, int], torch.Tensor]:
    """The blocks on and below the diagonal of A^T A, or of A A^T."""
    stride, dilation, padding = convolution.stride[0], convolution.dilation[0], convolution.padding[0][0]
    inside, outside = convolution.input_size[0], convolution.output_size[0]
    inward = _reads_less(convolution)
    products: dict[tuple[int, int], torch.Tensor] = {}
    blocks: dict[tuple[int, int], torch.Tensor] = {}
    reads = [(j, a, stride * j + dilation * a - padding) for j in range(outside) for a in range(len(taps))]
    by_row: dict[int, list[tuple[int, int]]] = {}
    for j, a, row in reads:
        if 0 <= row < inside:
            by_row.setdefault(j if inward else row, []).append((row if inward else j, a))
    for places in by_row.values():
        for first, a in places:
            for second, b in places:
                if second > first:
                    continue
                if (a, b) not in products:
                    products[a, b] = taps[a].T @ taps[b] if inward else taps[a] @ taps[b].T
                known = blocks.get((first, second))
                blocks[first, second] = products[a, b] if known is None else known + products[a, b]
    return blocks


def _is_positive(blocks: Mapping[tuple[int, int], torch.Tensor], shift: float, rows: int, reach: int) -> bool:
    """Whether the factorisation of shift I - (the matrix of the blocks) succeeds, row by row."""
    factors: dict[tuple[int, int], torch.Tensor] = {}
    some = next(iter(blocks.values()))
    identity = torch.eye(some.shape[0], dtype=torch.float64) * shift
    for row in range(rows):
        first = max(0, row - reach)
        for column in range(first, row):
            known = blocks.get((row, column))
            value = torch.zeros_like(some) if known is None else -known
            for k in range(max(first, column - reach), column):
                value = value - factors[row, k] @ factors[column, k].T
            factors[row, column] = torch.linalg.solve_triangular(
                factors[column, column], value.T.contiguous(), upper=False
            ).T
        known = blocks.get((row, row))
        value = identity if known is None else identity - known
        for k in range(first, row):
            value = value - factors[row, k] @ factors[row, k].T
        factor, info = torch.linalg.cholesky_ex(value)
        if int(info) != 0 or not bool(torch.isfinite(factor.diagonal()).all()):
            return False
        factors[row, row] = factor
        for gone in [key for key in factors if key[0] < first]:
            del factors[gone]
    return True
