"""Norms of linear maps in the l-infinity and l1 norm: the largest sum of moduli of a row, or of a column, of the matrix.

Of a convolution the row of an output has, per tap that meets a pixel, the kernel's entries for that output channel, the column of a
pixel those of its input channel for every tap that brings it to an output. Which taps do is decided by each axis for itself, so that
the sums are exact at every position, the border included. Where padding repeats pixels (reflect, replicate, circular), several taps
can meet in one entry of the matrix, and the sums are upper bounds.
"""

from __future__ import annotations

import math

import torch

from lipaudit.spectral.bracket import Bracket, log_down, log_up
from lipaudit.spectral.convolution.geometry import Convolution, padding_source
from lipaudit.spectral.rounding import gamma


def largest_sums(matrix: torch.Tensor) -> tuple[Bracket, Bracket]:
    """The largest sum of moduli of a row, and of a column: the norms in the l-infinity and l1 norm.

    Sums of n numbers of one sign are within gamma_n of the exact ones, in any order.

    >>> [round(bracket.upper, 9) for bracket in largest_sums(torch.tensor([[1.0, -2.0], [3.0, 0.5]]))]
    [3.5, 4.0]
    """
    moduli = matrix.to(torch.float64).abs()
    return tuple(_largest(moduli.sum(axis), matrix.shape[axis]) for axis in (1, 0))  # type: ignore[return-value]


def convolution_sums(convolution: Convolution) -> tuple[Bracket, Bracket]:
    """The same of a convolution at its input size, without the errors of its kernel.

    >>> kernel = torch.ones(1, 1, 3)
    >>> borders = Convolution(kernel, (2,), (1,), ((1, 1),), (1,))
    >>> [round(bracket.upper, 9) for bracket in convolution_sums(borders)]
    [2.0, 2.0]
    """
    if convolution.transposed:
        row, column = convolution_sums(convolution.adjoint())
        return column, row
    moduli = convolution.grouped_taps().to("cpu", torch.float64).abs()  # (groups, out, in, *taps)
    counts = [_counts(convolution, axis) for axis in range(len(convolution.input_size))]
    repeated = convolution.padding_mode != "zeros"
    sums = []
    for end, channels in ((0, 2), (1, 1)):
        values = moduli.sum(channels)
        terms = moduli.shape[channels]
        for axis, per_axis in enumerate(counts):
            values = torch.tensordot(values, per_axis[end], dims=([2], [1]))  # the axis goes to the end
            terms *= int(per_axis[end].sum(1).max()) + convolution.kernel_size[axis]
        bracket = _largest(values, terms)
        sums.append(Bracket(-math.inf, bracket.log_upper) if repeated else bracket)
    return sums[0], sums[1]


def _counts(convolution: Convolution, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The distinct rows of: whether a tap meets a pixel (outputs x taps), and how often it brings a pixel to an output (pixels x taps)."""
    size, outputs = convolution.input_size[axis], convolution.output_size[axis]
    stride, dilation = convolution.stride[axis], convolution.dilation[axis]
    taps, left = convolution.kernel_size[axis], convolution.padding[axis][0]
    of_outputs = torch.zeros(outputs, taps, dtype=torch.float64)
    of_pixels = torch.zeros(size, taps, dtype=torch.float64)
    for tap in range(taps):
        positions = torch.arange(outputs) * stride + dilation * tap - left
        inside = (positions >= 0) & (positions < size)
        of_outputs[inside, tap] = 1.0
        of_pixels[:, tap] += torch.bincount(positions[inside], minlength=size)
        if convolution.padding_mode != "zeros":
            for output in (~inside).nonzero().flatten().tolist():
                source = padding_source(int(positions[output]), size, convolution.padding_mode)
                if source is not None:
                    of_outputs[output, tap] = 1.0
                    of_pixels[source, tap] += 1.0
    return torch.unique(of_outputs, dim=0), torch.unique(of_pixels, dim=0)


def _largest(sums: torch.Tensor, terms: int) -> Bracket:
    if sums.numel() == 0:
        return Bracket.exact(0.0)
    value, error = float(sums.max()), gamma(terms + 8)
    return Bracket(log_down(value * (1 - error)), log_up(value * (1 + error)))
