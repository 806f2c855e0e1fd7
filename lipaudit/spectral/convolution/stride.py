"""Strided and dilated convolutions as convolutions of stride 1: the polyphase decomposition.

One axis of a convolution reads y[j] = sum_a K[a] x[s j + d a - p_lo] with kernel positions a, stride s, dilation d and padding p. Write
d a = s q + r with 0 <= r < s. Then K[a] multiplies phase r of the input at shift q, so that a strided convolution is a convolution of
stride 1 with c_in * s input channels, at most ceil(k / s) shifts per axis, on a grid s times coarser.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import torch

from lipaudit.spectral.rounding import on_device


@dataclass(frozen=True, eq=False)
class Taps:
    """A stride-free convolution on Z^d, one matrix per tap: D(w) = sum_t matrices[:, t] exp(-i <w, offsets[t]>).

    ``matrices`` is (groups, taps, rows, columns) in float64, ``offsets`` (taps, d) integers from 0, already divided by
    the common divisor ``divisors`` of the shifts per axis (dilation), which leaves the supremum over all frequencies
    unchanged and turns a grid of N points into one of N / gcd(N, divisor) points.
    """

    matrices: torch.Tensor
    offsets: torch.Tensor
    divisors: tuple[int, ...]

    @cached_property
    def degrees(self) -> tuple[float, ...]:
        """Half the extent per axis: the degree of the centred trigonometric polynomial u* D(w) v."""
        return tuple(0.5 * float(e) for e in (self.offsets.amax(0) - self.offsets.amin(0)).tolist())


def polyphase(
    kernel: torch.Tensor, stride: tuple[int, ...], dilation: tuple[int, ...], drop_zeros: bool = True
) -> Taps:
    """Reduce a kernel (groups, c_out, c_in, *k) with stride and dilation to stride-free taps.

    Exact: the operator norm on a circular grid of N points (s divides N) is that of the taps on N / s points.
    Taps that are zero everywhere are dropped, which lowers the degree; with ``drop_zeros=False`` no entry is looked at.
    """
    groups, c_out, c_in = kernel.shape[:3]
    taps = kernel.flatten(3).movedim(-1, 0)  # (taps, groups, c_out, c_in)
    axes = [[divmod(d * a, s) for a in range(k)] for k, s, d in zip(kernel.shape[3:], stride, dilation, strict=True)]
    split = [tuple(zip(*place, strict=True)) for place in itertools.product(*axes)]  # (shift, phase) of every tap
    if drop_zeros:
        kept = taps.flatten(1).any(1)
        if not bool(kept.all()):
            taps, split = taps[kept], [place for place, keep in zip(split, kept.tolist(), strict=True) if keep]
    if not split:
        return Taps(
            kernel.new_zeros(groups, 1, c_out, c_in), torch.zeros(1, len(axes), dtype=torch.long), (1,) * len(axes)
        )
    shifts, phases = (sorted(set(part)) for part in zip(*split, strict=True))
    place = [shifts.index(shift) * len(phases) + phases.index(phase) for shift, phase in split]
    blocks = taps
    if place != list(range(len(shifts) * len(phases))):  # some are empty, or in another order
        blocks = kernel.new_zeros(len(shifts) * len(phases), groups, c_out, c_in)
        blocks = blocks.index_copy(0, on_device(torch.tensor(place), kernel.device), taps)
    # (groups, shifts, c_out, phases c_in)
    matrices = blocks.unflatten(0, (len(shifts), len(phases))).permute(2, 0, 3, 1, 4).flatten(3)  # type: ignore[no-untyped-call]
    offsets = torch.tensor(shifts, dtype=torch.long)
    offsets = offsets - offsets.amin(0)
    divisors = tuple(math.gcd(*column) or 1 for column in offsets.T.tolist())
    return Taps(matrices.contiguous(), offsets // torch.tensor(divisors), divisors)
