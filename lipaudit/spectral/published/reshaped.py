"""Kernels reshaped to one matrix per group, whose norms bound those of convolutions up to a factor.

With taps K_t on a kernel of size k_1 x ... x k_d, choose some of the axes for the rows. The matrix R_S has the rows
(output channel, positions a_S on the chosen axes S) and the columns (input channel, positions on the others), and the
symbol is

    D(w) = sum_t K_t exp(-i <w, t>) = E_S* R_S E,

E_S and E having the blocks exp(+i <w, a>) I and exp(-i <w, a>) I for the positions of their axes. As there are prod k_a
of them over the axes of S, ||E_S||^2 is that product, and so

    sigma_1(D(w)) <= sqrt(k_1 ... k_d) sigma_1(R_S)    for every frequency w and every choice S.
"""

from __future__ import annotations

import itertools

import torch

from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.power_iteration import singular_values


def reshaped(convolution: Convolution, row_axes: tuple[int, ...] = ()) -> torch.Tensor:
    """R_S for S = ``row_axes``, as (groups, c_out / groups * rows, c_in / groups * columns).

    >>> convolution = Convolution(torch.zeros(4, 3, 5, 7), (9, 9), (1, 1), ((0, 0), (0, 0)), (1, 1))
    >>> reshaped(convolution).shape[1:], reshaped(convolution, (1,)).shape[1:]
    (torch.Size([4, 105]), torch.Size([28, 15]))
    """
    taps = convolution.grouped_taps()
    rows = [1, *(3 + axis for axis in row_axes)]
    columns = [axis for axis in range(2, taps.dim()) if axis not in rows]
    height = 1
    for axis in rows:
        height *= taps.shape[axis]
    return taps.permute(0, *rows, *columns).reshape(taps.shape[0], height, -1)


def all_reshapings(convolution: Convolution) -> list[torch.Tensor]:
    """R_S for every choice of axes: 2^d matrices."""
    axes = range(len(convolution.kernel_size))
    choices = itertools.chain.from_iterable(itertools.combinations(axes, size) for size in range(len(axes) + 1))
    return [reshaped(convolution, choice) for choice in choices]


def power_norm_of_rows(convolution: Convolution, iterations: int, generator: torch.Generator) -> torch.Tensor:
    """The largest power iteration over the groups on the matrix (c_out, c_in k_1 ... k_d), from a random output u.

    One iteration is v <- W^T u / ||.||, u <- W v / ||.||, sigma <- u^T W v.
    """
    *_, sigma = singular_values(reshaped(convolution).mT, iterations, generator)
    return sigma.max()
