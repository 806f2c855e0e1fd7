"""Convolutions behind reflect and replicate padding: the zero-padded convolution and what the borders add to it.

Along an axis the padding is P = Z + B: Z puts zeros around the input, B fills the borders with copies. The padding of several axes
is a product of such sums, so that the convolution is the sum over all sets A of axes of K (B along A, Z along the others), and its
norm at most the sum of theirs. The one for A empty is the zero-padded convolution. In the others the copies along A reach few
outputs, and each of these reads few pixels by few taps: every pair (output, pixel) is an entry of a matrix whose entries are
kernels over the other axes, a convolution with (channels times outputs) and (channels times pixels) for channels. Left and
right borders that share neither outputs nor pixels are blocks on the diagonal: the larger one counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch

from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.convolution.geometry import Convolution, padding_source
from lipaudit.spectral.matrix.gram import spectral_norm

Norm = Callable[[Convolution, float], Bracket]
# Entries of one matrix of kernels beyond which the bound is not looked for.
MOST_ENTRIES = 2**24


def border_bound(convolution: Convolution, tol: float, norm: Norm) -> Bracket | None:
    """A bound of the norm of an ordinary convolution with reflect or replicate padding; ``norm`` is that of a zero-padded one.

    None where a border takes more than ``MOST_ENTRIES`` numbers.
    """
    dims = len(convolution.input_size)
    borders = [_borders(convolution, axis) for axis in range(dims)]
    terms = [norm(convolution.with_kernel(convolution.kernel, padding_mode="zeros"), tol)]
    for count in range(1, dims + 1):
        for axes in itertools.combinations(range(dims), count):
            brackets = [
                _term(convolution, axes, parts, tol, norm) for parts in itertools.product(*(borders[a] for a in axes))
            ]
            if any(term is None for term in brackets):
                return None
            if brackets:
                terms.append(Bracket.maximum([term for term in brackets if term is not None]))
    return Bracket.sum(terms)


def _borders(convolution: Convolution, axis: int) -> list[torch.Tensor]:
    """Per border that stands alone the counts (outputs, pixels, taps): how often a tap brings a copy of a pixel to an output."""
    h, (left, _) = convolution.input_size[axis], convolution.padding[axis]
    s, d, k = convolution.stride[axis], convolution.dilation[axis], convolution.kernel_size[axis]
    sides: tuple[list[tuple[int, int, int]], ...] = ([], [])
    for output, tap in itertools.product(range(convolution.output_size[axis]), range(k)):
        position = s * output + d * tap - left
        if not 0 <= position < h:
            source = padding_source(position, h, convolution.padding_mode)
            sides[position >= h].append((output, int(source or 0), tap))
    shared = any({x[i] for x in sides[0]} & {x[i] for x in sides[1]} for i in (0, 1))
    per_axis = []
    for side in [[*sides[0], *sides[1]]] if shared else sides:
        if side:
            outputs, sources = (sorted({x[i] for x in side}) for i in (0, 1))
            counts = torch.zeros(len(outputs), len(sources), k, dtype=torch.float64, device=convolution.kernel.device)
            for output, source, tap in side:
                counts[outputs.index(output), sources.index(source), tap] += 1
            per_axis.append(counts)
    return per_axis


def _term(
    convolution: Convolution, axes: tuple[int, ...], counts: tuple[torch.Tensor, ...], tol: float, norm: Norm
) -> Bracket | None:
    """The norm of the part that copies along ``axes`` and pads the others by zeros."""
    kernel = convolution.grouped_taps()
    rest = [a for a in range(len(convolution.input_size)) if a not in axes]
    if math.prod(c.shape[0] * c.shape[1] for c in counts) * kernel.numel() > MOST_ENTRIES:
        return None
    blocks, moduli = _blocks(kernel, axes, counts), _blocks(kernel.abs(), axes, counts)
    if rest:
        sizes, strides, dilations = (
            tuple(values[a] for a in rest)
            for values in (convolution.input_size, convolution.stride, convolution.dilation)
        )
        padding = tuple(convolution.padding[a] for a in rest)
        inner = Convolution(blocks.flatten(0, 1), sizes, strides, padding, dilations, convolution.groups)
        bracket = norm(inner, tol)
    else:
        bracket = Bracket.maximum([spectral_norm(matrix, tol) for matrix in blocks])
    # entries are sums of products with small integers
    taps = math.prod(c.shape[2] for c in counts)
    lost = float(moduli.norm()) * (taps + 2) * 2.0**-52 * math.sqrt(math.prod(moduli.shape[3:]))
    return Bracket.sum([bracket, Bracket.at_most(lost)])


def _blocks(kernel: torch.Tensor, axes: tuple[int, ...], counts: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """(groups, rows, columns, *other taps), rows being channels and outputs, columns channels and pixels."""
    dims = kernel.dim() - 3
    letters = "abc"[:dims]
    taps, outputs, pixels = ([names[a] for a in axes] for names in (letters, "xyz", "uvw"))
    factors = [f"{o}{p}{t}" for t, o, p in zip(taps, outputs, pixels, strict=True)]
    others = [t for t in letters if t not in taps]
    equation = f"gij{letters},{','.join(factors)}->gi{''.join(outputs)}j{''.join(pixels)}{''.join(others)}"
    blocks = torch.einsum(equation, kernel, *counts)
    groups, rows = kernel.shape[:2]
    height = rows * math.prod(c.shape[0] for c in counts)
    width = kernel.shape[2] * math.prod(c.shape[1] for c in counts)
    return blocks.reshape(groups, height, width, *blocks.shape[blocks.dim() - len(others) :])
