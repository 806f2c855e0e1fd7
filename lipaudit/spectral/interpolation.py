"""The 1-D matrix of a resizing operation along one axis, obtained by resizing the unit vectors."""

from __future__ import annotations

from enum import StrEnum

import torch

from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.separable import axis_norm, largest_cover

_ATEN = torch.ops.aten


class Resize(StrEnum):
    """The ways of resizing, named as torch names their kernels."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest_exact"
    LINEAR = "linear"
    CUBIC = "cubic"
    LINEAR_ANTIALIAS = "linear_antialias"
    CUBIC_ANTIALIAS = "cubic_antialias"


def source_indices(size: int, outputs: int, mode: Resize, scale: float | None, dtype: torch.dtype) -> list[int]:
    """The entry that each output of a nearest-neighbour resize copies, as torch computes it in ``dtype``.

    >>> source_indices(3, 6, Resize.NEAREST, None, torch.float32)
    [0, 0, 1, 1, 2, 2]
    """
    numbers = torch.arange(size, dtype=dtype).reshape(1, 1, size)
    resize = _ATEN.upsample_nearest1d if mode is Resize.NEAREST else _ATEN._upsample_nearest_exact1d
    return [int(i) for i in resize.default(numbers, [outputs], scale).flatten().tolist()]


def resize_matrix(size: int, outputs: int, mode: Resize, align_corners: bool, scale: float | None) -> torch.Tensor:
    """The (outputs, size) float64 matrix of a linear or cubic resize of one axis (the other has size 1, weight 1).

    >>> resize_matrix(2, 3, Resize.LINEAR, True, None)
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000],
            [0.0000, 1.0000]], dtype=torch.float64)
    """
    units = torch.eye(size, dtype=torch.float64).reshape(size, 1, size, 1)
    resize = {
        Resize.LINEAR: _ATEN.upsample_bilinear2d,
        Resize.CUBIC: _ATEN.upsample_bicubic2d,
        Resize.LINEAR_ANTIALIAS: _ATEN._upsample_bilinear2d_aa,
        Resize.CUBIC_ANTIALIAS: _ATEN._upsample_bicubic2d_aa,
    }[mode]
    columns: torch.Tensor = resize.default(units, [outputs, 1], align_corners, scale, None)
    return columns.reshape(size, outputs).T.contiguous()


def resize_axis_norm(
    size: int, outputs: int, mode: Resize, align_corners: bool, scale: float | None, dtype: torch.dtype, tol: float
) -> Bracket:
    """Certified bracket of the norm of resizing one axis.

    Nearest: the root of the largest number of copies. Linear, cubic: sigma_1 of the 1-D matrix. Its entries are a
    continuous, piecewise polynomial function of the source coordinate, with a slope of at most 3 and computed with at
    most 8 roundings of numbers up to n + m: each is off by at most 48 u (n + m) relative to the largest entry (>= 1/2
    where nothing is averaged; weights of an averaging filter scale slope and size alike).
    """
    if mode in (Resize.NEAREST, Resize.NEAREST_EXACT):
        picked = source_indices(size, outputs, mode, scale, dtype)
        count = largest_cover(range(i, i + 1) for i in picked)
        return Bracket.root_sum_squares([Bracket.exact(1.0)] * count)
    error = 64 * 2.0**-53 * (size + outputs + 8)
    return axis_norm(resize_matrix(size, outputs, mode, align_corners, scale), error, tol)
