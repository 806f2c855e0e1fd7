"""The 1-D matrix of a resizing kernel along one axis, obtained by resizing the unit vectors with the kernel itself.

The other axes are dummies: one entry is copied to two, so that a kernel which copies its input when no size changes
does so exactly where it would for the whole tensor.
"""

from __future__ import annotations

import torch

from lipaudit.spectral import directed_rounding
from lipaudit.spectral.absolute_sums import largest_sums
from lipaudit.spectral.bracket import Bracket, log_down
from lipaudit.spectral.rounding import UNIT_ROUNDOFF
from lipaudit.spectral.separable import axis_norm


def resize_matrix(
    kernel: str,
    size: int,
    outputs: int,
    scale: float | None,
    align_corners: bool | None = None,
    same_sizes: bool = False,
) -> torch.Tensor:
    """The (outputs, size) float64 matrix of one axis.

    Args:
        kernel: name of torch's kernel, ``upsample_bilinear2d`` for example.
        size, outputs: entries before and after.
        scale: the scale factor that the kernel is given, None where it follows from the sizes.
        align_corners: for linear and cubic kernels; None for nearest-neighbour kernels, which have no such option.
        same_sizes: whether no axis of the tensor changes its size.

    >>> resize_matrix("upsample_linear1d", 2, 3, None, True)
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000],
            [0.0000, 1.0000]], dtype=torch.float64)
    """
    dummies = int(kernel.removesuffix("_aa")[-2]) - 1
    units = torch.eye(size, dtype=torch.float64).reshape(size, 1, *(1,) * dummies, size)
    corners = [] if align_corners is None else [align_corners]
    sizes = [1 if same_sizes else 2] * dummies + [outputs]
    resize = getattr(torch.ops.aten, kernel).default
    columns: torch.Tensor = resize(units, sizes, *corners, *(None,) * dummies, scale)
    return columns.flatten(1)[:, :outputs].T.clone(memory_format=torch.contiguous_format)


def nearest_copies(kernel: str, size: int, outputs: int, scale: float | None) -> int:
    """How often one entry of an axis may be copied by nearest-neighbour resizing.

    torch reads entry floor(i r), for the exact variant floor((i + 1/2) r), with the ratio r = size / outputs (1 / scale where
    one is given) in float32 or float64, by dtype and memory layout. The rounded ratio can move an entry across a
    border; the count is the largest of both precisions.

    >>> nearest_copies("upsample_nearest1d", 2, 6, None), nearest_copies("upsample_nearest1d", 2, 82, None)
    (3, 42)
    """
    shift = 0.5 if "exact" in kernel else 0.0
    counts = []
    for dtype in (torch.float32, torch.float64):
        ratio = torch.tensor(float(size), dtype=dtype) / outputs
        if scale is not None and scale > 0:
            ratio = torch.tensor(1.0 / scale, dtype=dtype)
        source = ((torch.arange(outputs, dtype=dtype) + shift) * ratio).floor().long().clamp(0, size - 1)
        counts.append(int(torch.bincount(source).max()))
    return max(counts)


def resize_axis_norm(matrix: torch.Tensor, tol: float) -> Bracket:
    """Certified bracket of the norm of one axis's matrix of linear or cubic interpolation."""
    return axis_norm(matrix, _entry_error(matrix), tol)


def resize_axis_sums(matrix: torch.Tensor) -> tuple[Bracket, Bracket]:
    """Its largest sums of moduli of a row and of a column; entries that are not zero, and two beside them, may be off.

    >>> [round(sums.upper, 9) for sums in resize_axis_sums(torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]))]
    [1.0, 1.5]
    """
    off = _entry_error(matrix) * float(matrix.abs().max()) * (1 + 2**-40)
    sums = []
    for axis, bracket in zip((1, 0), largest_sums(matrix), strict=True):
        slack = off * (int((matrix != 0).sum(axis).max()) + 2)
        lower = directed_rounding.add(bracket.lower, -slack, up=False)
        upper = Bracket.sum((bracket, Bracket.at_most(slack))).log_upper
        sums.append(Bracket(log_down(max(lower, 0.0)), upper))
    return sums[0], sums[1]


def _entry_error(matrix: torch.Tensor) -> float:
    """How far an entry may be off, relative to the largest one.

    The entries are a continuous, piecewise
    polynomial function of the source coordinate, with a slope of at most 3 and computed with at most 8 roundings of
    numbers up to n + m: each is off by at most 64 u (n + m + 8) relative to the largest entry (weights of an averaging
    filter scale in slope and size alike).
    """
    return 64 * UNIT_ROUNDOFF * (sum(matrix.shape) + 8)
