"""Separable maps: windows and 1-D matrices of pooling, and the norm of a product of one matrix per axis.

A map that acts on each spatial axis by its own matrix, A = A_1 (x) A_2 (x) ..., has sigma_1(A) = prod sigma_1(A_i).
Max pooling picks entries: its constant is the root of the largest number of windows that cover one position, and that
number is a product over the axes as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch

from lipaudit.spectral import directed_rounding
from lipaudit.spectral.bracket import Bracket, log_down, log_up
from lipaudit.spectral.matrix.gram import spectral_norm
from lipaudit.spectral.rounding import gamma

# Above this (smaller) side Gram iteration on a 1-D matrix costs more than it is worth.
DENSE_SIDE = 512
_POWER_STEPS = 16


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
    elif min(matrix.shape) <= DENSE_SIDE:
        bracket = spectral_norm(matrix, tol)
    else:
        bracket = _wide_bracket(matrix)
    # the error matrix has at most r entries in a row and c in a column: its norm is at most sqrt(r c) times its
    # largest entry
    row, column = int(support.sum(1).max()) + 2, int(support.sum(0).max()) + 2
    slack = entry_error * float(matrix.abs().max()) * math.sqrt(row * column) * (1 + 2**-40)
    if slack == 0:
        return bracket
    lower = directed_rounding.add(bracket.lower, -slack, up=False)
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


def _wide_bracket(matrix: torch.Tensor) -> Bracket:
    """Collatz-Wielandt from above, power iteration from below, for matrices too large for Gram iteration.

    sigma_1^2 <= rho(|A|^T |A|), and where entries have both signs sigma_1^2 <= rho(|A^T A|), in which they cancel; the
    product is computed to gamma_n |A|^T |A| in every entry.
    """
    absolute = matrix.abs()
    error = gamma(2 * sum(matrix.shape) + 16)
    squared = _collatz_wielandt(lambda v: absolute.T @ (absolute @ v), matrix.shape[1])
    if bool((matrix < 0).any()):
        gram = (matrix.T @ matrix).abs()
        squared = min(squared, _collatz_wielandt(lambda v: gram @ v, matrix.shape[1]) + error * squared)
    w = torch.linspace(1, 2, matrix.shape[1], dtype=torch.float64)
    for _ in range(_POWER_STEPS):
        w = matrix.T @ (matrix @ w)
        w = w / torch.linalg.vector_norm(w).clamp_min(2.0**-500)
    # ||fl(A w) - A w|| <= gamma_n ||A||_F ||w||, and w is a unit vector or, started in the kernel, zero
    image = float(torch.linalg.vector_norm(matrix @ w)) / max(1.0, float(torch.linalg.vector_norm(w)))
    lower = image * (1 - error) - 2 * error * float(torch.linalg.matrix_norm(matrix))
    return Bracket(log_down(max(lower, 0.0)), log_up(math.sqrt(squared) * (1 + 2 * error)))


def _collatz_wielandt(apply: Callable[[torch.Tensor], torch.Tensor], size: int) -> float:
    """rho(M) <= max_i (M v)_i / v_i for a matrix of non-negative entries and every v > 0; power iteration chooses v."""
    v = torch.ones(size, dtype=torch.float64)
    bound = math.inf
    for _ in range(_POWER_STEPS):
        image = apply(v)
        bound = min(bound, float((image / v).max()))
        # a floor keeps v positive where a column is zero or far from the rest
        v = image / image.max() + 2.0**-30
    return bound
