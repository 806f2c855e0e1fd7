"""How far a linear operation that was folded or merged may be from the one that the stored weights define.

Two errors travel with the numbers. Every entry of a weight is known up to a relative error (``error``): weights may be computed from
parameters, scales are the result of a few operations, and each fold multiplies once more. Where kernels are added, what their entries
were off by need not be small beside the sum any longer. It becomes a bound of the operator's error in the spectral norm
(``moved``), which later folds scale and later merges add up.

A kernel whose entries are off by at most delta |K| moves the operator of its convolution by at most

    sum_t ||delta |K_t||| sqrt(copies) <= delta T sqrt(c_out c_in) max |K| sqrt(copies),

T the number of taps, c_out x c_in the size of one group, and ``copies`` how often padding repeats a pixel. Only taps that some pixel meets
count: on a 1 x 1 input a 3 x 3 kernel has one. The entries of such taps are at most the operator's norm, so that the error of a
kernel that was never added to another is small beside its norm.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from lipaudit.graph.constant_errors import LARGEST
from lipaudit.graph.linear import Dense, Linear
from lipaudit.spectral.bracket import Bracket, Rigor, log_up, round_down
from lipaudit.spectral.convolution.geometry import Convolution, padding_copies

_UP = 1 + 2**-40


def margin(linear: Linear) -> float:
    """A bound of the spectral norm of (the operation as it is held - the exact one), plain units; 0 without values.

    An error that is :func:`unknown` does not count.

    >>> margin(Dense(torch.ones(2, 2))), 2e-9 < margin(Dense(torch.ones(2, 2), error=1e-9)) < 2.1e-9
    (0.0, True)
    """
    if isinstance(linear, Convolution):
        return (_spread(linear) + linear.moved) * _UP if not linear.weight.is_meta else 0.0
    values = linear.weight if isinstance(linear, Dense) else linear.factor
    if linear.error == 0 or unknown(linear) or values.is_meta or values.numel() == 0:
        return 0.0
    side = math.sqrt(values.numel()) if isinstance(linear, Dense) else 1.0
    largest = max(abs(float(end)) for end in torch.aminmax(values))
    return largest * (_relative(linear.error) * side) * _UP


def unknown(linear: Linear) -> bool:
    """Whether the entries are off by more than is worth a margin, or by nobody knows how much."""
    return linear.error > LARGEST


def exact_norm(measured: Bracket, linear: Linear) -> Bracket:
    """The norm of the exact operation from that of the operation as it is held; ``numerical`` where the error is unknown."""
    if unknown(linear):
        measured = replace(measured, rigor=Rigor.weakest((measured.rigor, Rigor.NUMERICAL)), ends=None)
    return widened(measured, margin(linear))


def widened(bracket: Bracket, error: float) -> Bracket:
    """The bracket of the norm of an operator that is within ``error`` of the measured one."""
    if error == 0:
        return bracket
    upper = Bracket.sum([Bracket(-math.inf, bracket.log_upper, bracket.rigor), Bracket.at_most(error)])
    share = math.exp(min(0.0, log_up(error) - bracket.log_lower)) * _UP if bracket.log_lower > -math.inf else 1.0
    lower = round_down(bracket.log_lower + round_down(math.log1p(-share)), 2) if share < 1 else -math.inf
    return Bracket(lower, upper.log_upper, bracket.rigor)


def read_taps(convolution: Convolution) -> tuple[list[int], ...]:
    """The taps of each axis that meet a pixel for some output.

    Tap a of an axis reads pixel s j + d a - p for the outputs j.

    >>> read_taps(Convolution(torch.ones(1, 1, 3), (1,), (1,), ((1, 1),), (1,)))
    ([1],)
    """
    c = convolution.adjoint() if convolution.transposed else convolution
    if c.padding_mode != "zeros":
        return tuple(list(range(k)) for k in c.kernel_size)
    axes = zip(c.kernel_size, c.input_size, c.output_size, c.stride, c.dilation, c.padding, strict=True)
    return tuple(
        [a for a in range(taps) if _meets(d * a - left, size, outputs, s)]
        for taps, size, outputs, s, d, (left, _) in axes
    )


def cropped(convolution: Convolution, taps: tuple[list[int], ...]) -> torch.Tensor:
    """The kernel's entries at the given taps of each axis."""
    kernel = convolution.kernel
    for axis, (kept, count) in enumerate(zip(taps, convolution.kernel_size, strict=True)):
        if len(kept) < count:
            kernel = kernel.index_select(axis + 2, torch.tensor(kept, dtype=torch.long, device=kernel.device))
    return kernel


def _relative(error: float) -> float:
    """An error relative to the exact number as one relative to the computed one."""
    return error / (1 - error) * _UP


def _meets(offset: int, size: int, outputs: int, stride: int) -> bool:
    first = max(0, -(offset // stride))  # the first output whose pixel is not left of the border
    return first < outputs and 0 <= stride * first + offset < size


def _spread(convolution: Convolution) -> float:
    """What the relative errors of the entries may move the operator by."""
    if convolution.error == 0 or unknown(convolution) or convolution.weight.numel() == 0:
        return 0.0
    taps = read_taps(convolution)
    count = math.prod(len(kept) for kept in taps)
    if count == 0:
        return 0.0
    largest = max(abs(float(end)) for end in torch.aminmax(cropped(convolution, taps)))
    c_in, c_out = (c // convolution.groups for c in convolution.channels)
    axes = zip(convolution.input_size, convolution.padding, strict=True)
    copies = math.prod(padding_copies(n, p, convolution.padding_mode) for n, p in axes)
    return largest * (_relative(convolution.error) * count * math.sqrt(c_in * c_out * copies))
