"""Filters by frequency as convolutions with circular padding: irfft(M_w rfft(x)_w) = k * x with the kernel k = irfft(M).

A map of real signals that acts on every frequency by itself commutes with cyclic shifts, so that its values at unit impulses are the
kernel, of the size of the signal. What is not Hermitian among the entries that are their own mirror images is projected away there, as
it is for every signal. As a convolution it can be one of the two in a residual block, and quadratic forms go through it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from lipaudit.graph.linear import CONVOLUTION
from lipaudit.graph.node import Argument, Node
from lipaudit.graph.passes.fourier_filters import FOURIER_FILTER, FourierFilter
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.rounding import is_finite

# Entries of a kernel that is written out.
_MOST_ENTRIES = 2**26
# What a kernel may be off by, relative to the norms of the matrices: 2^17 roundings, more than sums over channels and transforms have
# (Higham, Accuracy and Stability of Numerical Algorithms, theorem 24.2).
_ROUNDING = 2.0**-36
_OTHER_AXES = NoMatch("the filter is not one of a sample's channels over all of its pixels")
_LARGE = NoMatch("the kernel would be too large")


def matcher(_index: GraphIndex) -> Matcher:
    """Matches filters by frequency over all pixels of one sample with channels."""
    return _match


def _match(node: Node) -> Match | NoMatch:
    if node.op != FOURIER_FILTER:
        return OTHER_OPERATION
    payload: FourierFilter = node.payload
    (source,) = node.refs[:1]
    before, after = source.info.shape, node.output.shape
    spatial = tuple(range(2, len(before)))
    if len(before) not in (3, 4, 5) or len(after) != len(before) or before[0] != 1 or payload.axes != spatial:
        return _OTHER_AXES
    sizes = before[2:]
    if before[1] * after[1] * math.prod(sizes) > _MOST_ENTRIES:
        return _LARGE
    kernel = torch.stack([_answer(payload, before, channel) for channel in range(before[1])], 1)
    if not is_finite(kernel):
        return _LARGE
    size = math.prod(float(torch.linalg.matrix_norm(stack).max()) for stack in payload.matrices)
    convolution = Convolution(
        kernel,
        sizes,
        (1,) * len(sizes),
        tuple((0, n - 1) for n in sizes),
        (1,) * len(sizes),
        padding_mode="circular",
        error=0.0 if payload.exact else math.inf,
        moved=_ROUNDING * size,
    )
    arguments: dict[str, Argument] = {"input": source, **{k: v for k, v in node.arguments.items() if k != "self"}}
    return Match((replace(node, op=CONVOLUTION, arguments=arguments, payload=convolution),))


def _answer(payload: FourierFilter, shape: tuple[int, ...], channel: int) -> torch.Tensor:
    """The taps (out, *sizes) of one input channel: y[m] = k[-m] at an impulse in the first pixel."""
    impulse = torch.zeros(shape, dtype=torch.float64)
    impulse[(0, channel, *(0,) * (len(shape) - 2))] = 1.0
    answer = payload.evaluate(impulse)[0]
    axes = tuple(range(1, answer.dim()))
    return answer.flip(axes).roll((1,) * len(axes), axes)
