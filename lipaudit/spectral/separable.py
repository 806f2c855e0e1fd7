"""Separable maps: windows and 1-D matrices of pooling, and the norm of a product of one matrix per axis.

A map that acts on each spatial axis by its own matrix, A = A_1 (x) A_2 (x) ..., has sigma_1(A) = prod sigma_1(A_i).
Max pooling picks entries: its constant is the root of the largest number of windows that cover one position, and that
number is a product over the axes as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch

from lipaudit.spectral.bracket import Bracket, log_down, log_up
from lipaudit.spectral.gram import spectral_norm
from lipaudit.spectral.rounding import gamma

# Above this side the certified norm of a dense 1-D matrix costs more than its closed-form bound is worth.
DENSE_SIDE = 1024
_POWER_STEPS = 30


def pooling_windows(
    size: int, outputs: int, kernel: int, stride: int, padding: int = 0, dilation: int = 1
) -> list[range]:
    """The positions in [0, size) that each of the pooling windows of one axis reads.

    >>> [list(w) for w in pooling_windows(5, 3, kernel=3, stride=2, padding=1)]
    [[0, 1], [1, 2, 3], [3, 4]]
    """
    windows = []
    for output in range(outputs):
        start = output * stride - padding
        skipped = max(0, -(start // dilation)) if start < 0 else 0
        windows.append(range(start + skipped * dilation, min(start + kernel * dilation, size), dilation))
    return windows


def adaptive_windows(size: int, outputs: int) -> list[range]:
    """The windows of adaptive pooling: output i reads floor(i n / m) up to ceil((i + 1) n / m).

    >>> [list(w) for w in adaptive_windows(5, 3)]
    [[0, 1], [1, 2, 3], [3, 4]]
    """
    return [range(i * size // outputs, -(-(i + 1) * size // outputs)) for i in range(outputs)]


def largest_cover(windows: Iterable[range]) -> int:
    """The largest number of windows that contain one position.

    >>> largest_cover(pooling_windows(8, 4, kernel=3, stride=2, padding=1))
    2
    """
    cover: dict[int, int] = {}
    for window in windows:
        for position in window:
            cover[position] = cover.get(position, 0) + 1
    return max(cover.values(), default=0)


def averaging_matrix(windows: Sequence[range], size: int, divisors: Sequence[int] | None = None) -> torch.Tensor:
    """The (outputs, size) matrix that averages each window, with the given divisors instead of the windows' lengths."""
    matrix = torch.zeros(len(windows), size, dtype=torch.float64)
    for row, window in enumerate(windows):
        divisor = len(window) if divisors is None else divisors[row]
        if len(window) > 0:
            matrix[row, window.start : window.stop : window.step] = 1.0 / divisor
    return matrix


def padded_lengths(size: int, outputs: int, kernel: int, stride: int, padding: int) -> list[int]:
    """The number of positions of each window, zero padding on both sides included (what average pooling divides by)."""
    starts = [output * stride - padding for output in range(outputs)]
    return [min(start + kernel, size + padding) - start for start in starts]


def axis_norm(matrix: torch.Tensor, entry_error: float = 0.0, tol: float = 1e-3) -> Bracket:
    """Certified bracket of sigma_1 of one axis's matrix.

    Closed forms where rows or columns do not overlap (then A A^T or A^T A is diagonal and sigma_1 is the largest row or
    column norm), Gram iteration otherwise; above ``DENSE_SIDE`` the Collatz-Wielandt bound from
    above and power iteration from below.

    Args:
        matrix: (outputs, size), float64.
        entry_error: bound of |computed - exact| over the entries, relative to the largest entry in absolute value;
            only entries that are not zero, or beside such, may be off.
        tol: upper / lower of the Gram iteration.

    >>> 0.5 <= axis_norm(torch.full((1, 4), 0.25, dtype=torch.float64)).upper < 0.5 + 1e-12
    True
    """
    if matrix.numel() == 0 or not bool(matrix.any()):
        return Bracket.exact(0.0)
    support = matrix != 0
    if int(support.sum(0).max()) <= 1:
        bracket = _largest_norm(matrix, dim=1)
    elif int(support.sum(1).max()) <= 1:
        bracket = _largest_norm(matrix, dim=0)
    elif max(matrix.shape) <= DENSE_SIDE:
        bracket = spectral_norm(matrix, tol)
    else:
        bracket = _collatz_wielandt(matrix)
    # the error matrix has at most r entries in a row and c in a column: its norm is at most sqrt(r c) times its
    # largest entry
    row, column = int(support.sum(1).max()) + 2, int(support.sum(0).max()) + 2
    slack = entry_error * float(matrix.abs().max()) * math.sqrt(row * column) * (1 + 2**-40)
    if slack == 0:
        return bracket
    lower = bracket.lower - slack
    return Bracket(log_down(max(lower, 0.0)), Bracket.sum((bracket, Bracket.at_most(slack))).log_upper, bracket.rigor)


def separable_norm(brackets: Iterable[Bracket]) -> Bracket:
    """sigma_1 of a separable map: the product over its axes."""
    product = Bracket.exact(1.0)
    for bracket in brackets:
        product = product * bracket
    return product


def _largest_norm(matrix: torch.Tensor, dim: int) -> Bracket:
    """The largest row (dim 1) or column (dim 0) norm."""
    value = float(torch.linalg.vector_norm(matrix, dim=dim).max())
    error = gamma(matrix.shape[dim] + 8)
    return Bracket(log_down(value * (1 - error)), log_up(value * (1 + error)))


def _collatz_wielandt(matrix: torch.Tensor) -> Bracket:
    """sigma_1^2 <= max_i (B^T B v)_i / v_i with B = |A|, for every v > 0; power iteration chooses v and bounds from below.

    The terms of B^T B v are positive, so that it is computed to a relative error of two sums.
    """
    absolute = matrix.abs()
    v = torch.ones(matrix.shape[1], dtype=torch.float64)
    error = gamma(2 * sum(matrix.shape) + 16)
    upper = math.inf
    for _ in range(_POWER_STEPS):
        image = absolute.T @ (absolute @ v)
        upper = min(upper, float((image / v).max()))
        # a floor keeps v positive where a column is zero or far from the rest
        v = image / image.max() + 2.0**-30
    w = v
    for _ in range(_POWER_STEPS):
        w = matrix.T @ (matrix @ w)
        w = w / torch.linalg.vector_norm(w)
    # ||fl(A w) - A w|| <= gamma_n ||A||_F for a unit vector w
    image = torch.linalg.vector_norm(matrix @ w) / torch.linalg.vector_norm(w)
    lower = float(image) * (1 - error) - 2 * error * float(torch.linalg.matrix_norm(matrix))
    return Bracket(log_down(max(lower, 0.0)), log_up(math.sqrt(upper) * (1 + error)))
