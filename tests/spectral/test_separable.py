"""Separable maps: windows, 1-D matrices, and the bracket of one axis's norm."""

from __future__ import annotations

import math

import pytest
import torch

from lipaudit.spectral import separable
from lipaudit.spectral.interpolation import resize_axis_norm, resize_matrix
from lipaudit.spectral.separable import (
    adaptive_windows,
    averaging_matrix,
    axis_norm,
    largest_cover,
    padded_lengths,
    pooling_windows,
)


def sigma(matrix: torch.Tensor) -> float:
    return float(torch.linalg.svdvals(matrix).max())


def test_windows_skip_the_padding_by_whole_dilations() -> None:
    assert [list(w) for w in pooling_windows(6, 3, 3, 2, padding=1, dilation=2)] == [[1, 3], [1, 3, 5], [3, 5]]


def test_cover_is_one_without_overlap() -> None:
    assert largest_cover(pooling_windows(9, 3, 3, 3)) == 1
    assert largest_cover(pooling_windows(9, 7, 3, 1)) == 3
    assert largest_cover([]) == 0


def test_adaptive_windows_cover_everything() -> None:
    for size in range(1, 12):
        for outputs in range(1, 12):
            windows = adaptive_windows(size, outputs)
            assert windows[0].start == 0
            assert windows[-1].stop == size
            assert all(len(w) > 0 for w in windows)


def test_padded_lengths_are_the_divisors_of_average_pooling() -> None:
    # in ceil mode the last window leaves the padding and is cut
    x = torch.ones(1, 1, 6, dtype=torch.float64)
    y = torch.nn.functional.avg_pool1d(x, 3, 2, 1, ceil_mode=True)
    lengths = padded_lengths(6, y.shape[-1], 3, 2, 1)
    inside = [len(w) for w in pooling_windows(6, y.shape[-1], 3, 2, 1)]
    assert torch.allclose(
        y.flatten(), torch.tensor([i / n for i, n in zip(inside, lengths, strict=True)], dtype=x.dtype)
    )


@pytest.mark.parametrize(
    "matrix",
    [
        averaging_matrix(pooling_windows(12, 12, 3, 1, 1), 12),
        averaging_matrix(adaptive_windows(12, 4), 12),
        averaging_matrix(adaptive_windows(4, 9), 4),
        torch.zeros(3, 4, dtype=torch.float64),
        resize_matrix("upsample_bicubic2d", 9, 14, None, False),
        resize_matrix("_upsample_bicubic2d_aa", 17, 5, None, False),
    ],
)
def test_axis_norm_brackets_sigma(matrix: torch.Tensor) -> None:
    bracket = axis_norm(matrix, entry_error=2.0**-52)
    assert bracket.lower <= sigma(matrix) * (1 + 1e-12)
    assert sigma(matrix) * (1 - 1e-12) <= bracket.upper <= sigma(matrix) * 1.001 + 1e-300


def test_wide_matrices_are_bounded_without_gram_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("Gram iteration on a matrix above the limit")

    monkeypatch.setattr(separable, "spectral_norm", refuse)
    monkeypatch.setattr(separable, "DENSE_SIDE", 40)
    for matrix, tightness in (
        (averaging_matrix(pooling_windows(90, 90, 5, 1, 2), 90), 1.005),
        (resize_matrix("upsample_linear1d", 60, 150, None, False), 1.005),
        (resize_matrix("upsample_bicubic2d", 60, 150, None, False), 1.1),
    ):
        bracket = axis_norm(matrix)
        assert bracket.lower <= sigma(matrix) * (1 + 1e-12)
        assert sigma(matrix) * (1 - 1e-12) <= bracket.upper <= sigma(matrix) * tightness
        assert bracket.tightness <= tightness**2


def test_a_start_in_the_kernel_gives_no_lower_bound_but_the_upper_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separable, "DENSE_SIDE", 1)
    differences = torch.tensor([[1.0, -2.0, 1.0], [-2.0, 4.0, -2.0]], dtype=torch.float64)
    bracket = axis_norm(differences)
    assert bracket.log_lower <= math.log(sigma(differences))
    assert sigma(differences) <= bracket.upper <= sigma(differences) * 1.2


def test_entry_errors_widen_the_bracket_both_ways() -> None:
    matrix = averaging_matrix(pooling_windows(12, 12, 3, 1, 1), 12)
    narrow, wide = axis_norm(matrix), axis_norm(matrix, entry_error=1e-3)
    assert wide.lower < narrow.lower <= narrow.upper < wide.upper
    # every matrix within the error lies inside
    moved = matrix + 1e-3 * matrix.abs().max() * (matrix != 0)
    assert sigma(moved) <= wide.upper


def test_margin_of_interpolation_covers_single_precision_of_the_index() -> None:
    """The float64 matrix is far more exact than its margin says: rational arithmetic gives the true one."""
    size, outputs = 700, 901
    matrix = resize_matrix("upsample_linear1d", size, outputs, None, False)
    exact = torch.zeros_like(matrix)
    for i in range(outputs):
        # (i + 1/2) n / m - 1/2 in units of 1 / (2 m)
        numerator = max(0, (2 * i + 1) * size - outputs)
        index, rest = divmod(numerator, 2 * outputs)
        exact[i, index] += 1 - rest / (2 * outputs)
        exact[i, min(index + 1, size - 1)] += rest / (2 * outputs)
    error = float((matrix - exact).abs().max())
    assert error <= 64 * 2.0**-53 * (size + outputs + 8)
    assert resize_axis_norm(matrix, tol=1e-3).upper >= sigma(exact)
    assert math.isclose(sigma(exact), sigma(matrix), rel_tol=1e-9)
