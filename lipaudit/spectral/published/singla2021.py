"""Singla and Feizi, *Fantastic Four: Differentiable and Efficient Bounds on Singular Values of Convolution Layers*, ICLR 2021.

The least of the norms of four reshaped kernels,

    sqrt(k_h k_w) min(||R||, ||S||, ||M||, ||N||),
    R (c_out k_h x c_in k_w),  S (c_out k_w x c_in k_h),  M (c_out x c_in k_h k_w),  N (c_out k_h k_w x c_in).

With exact norms it bounds sigma_1 of the symbol at every frequency (see ``reshaped``), hence the operator under
circular and under zero padding of any size. The paper computes the norms by power iteration, 50 of them in [P], which
comes from below: the figure is an estimate, and on a layer of ResNet-18 [P] finds it below the true norm. The four
matrices are the choices of the kernel's axes that go to the rows, so that there are two of them in 1-D and eight in
3-D. With groups, the least is taken in each group, and then the largest.
"""

from __future__ import annotations

import math

import torch

from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.power_iteration import singular_values
from lipaudit.spectral.published.registry import (
    Method,
    Options,
    count,
    figure,
    generator,
    refuse_copied_borders,
    register,
)
from lipaudit.spectral.published.reshaped import all_reshapings

ITERATIONS = 50


def singla2021(convolution: Convolution, options: Options) -> Bracket:
    """sqrt(k_h k_w) times the least of the four norms, each by power iteration."""
    refuse_copied_borders(convolution, "singla2021")
    source, norms = generator(options), []
    for matrices in all_reshapings(convolution):
        *_, sigma = singular_values(matrices, count(options, ITERATIONS), source)
        norms.append(sigma)
    least = torch.stack(norms).amin(0)  # (groups,)
    return figure(math.sqrt(math.prod(convolution.kernel_size)) * float(least.max()), Rigor.ESTIMATE)


SINGLA2021 = register(
    Method(
        "singla2021",
        "Singla 2021",
        "Singla, Feizi: Fantastic Four: Differentiable and Efficient Bounds on Singular Values of Convolution Layers, ICLR 2021",
        "least norm of four reshaped kernels, by power iteration, times the root of the number of taps",
        "an estimate on either side: a bound only once the power iterations have converged; stride is ignored",
        singla2021,
        iterations=ITERATIONS,
    )
)
