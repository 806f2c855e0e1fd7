"""The published bounds as terms of a loss: what the regularization of [P] section 4.3 is compared with.

Each bound is differentiable in the kernel. Power iteration starts anew in every step, as [P] algorithm 1 does, and its vectors count as
constants in the gradient:

- Ryu 2019: ||K u||, K the convolution with its zero padding and stride, u from power iteration with K and its adjoint;
- Singla 2021: sqrt(k_h k_w) times the least ||R u|| of the four reshaped kernels R, u from power iteration on each;
- Araujo 2021: LipGrid with its factor, differentiated as it stands (``published.araujo2021``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from lipaudit.spectral.convolution import power_iteration
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.published.araujo2021 import grid_bound
from lipaudit.spectral.published.operator_power import operator_and_adjoint, random_input, rising_norms
from lipaudit.spectral.published.reshaped import all_reshapings
from lipaudit.training.geometry import Geometry
from lipaudit.training.layers import InputShape, Targets
from lipaudit.training.regularizer import LipschitzRegularizer

# A bound of a convolution, after so many iterations or with so many samples.
Bound = Callable[[Convolution, int, torch.Generator], torch.Tensor]


def ryu(convolution: Convolution, iterations: int, generator: torch.Generator) -> torch.Tensor:
    """Ryu 2019."""
    with torch.no_grad():
        image, adjoint = operator_and_adjoint(convolution)
        *_, (_, u) = rising_norms(image, adjoint, random_input(convolution, generator), iterations)
    return _length(power_iteration.apply(convolution, u))


def singla(convolution: Convolution, iterations: int, generator: torch.Generator) -> torch.Tensor:
    """Singla 2021."""
    norms = []
    for matrices in all_reshapings(convolution):
        with torch.no_grad():
            start = torch.randn(matrices.shape[0], matrices.shape[2], 1, generator=generator).to(matrices)
            *_, (_, u) = rising_norms(matrices.matmul, matrices.mT.matmul, start, iterations)
        norms.append(_length(matrices @ u))
    return math.sqrt(math.prod(convolution.kernel_size)) * torch.stack(norms).min()


def araujo(convolution: Convolution, samples: int, _generator: torch.Generator) -> torch.Tensor:
    """Araujo 2021."""
    return grid_bound(convolution, samples)


def _length(vector: torch.Tensor) -> torch.Tensor:
    length: torch.Tensor = torch.linalg.vector_norm(vector)
    return length


class PublishedRegularizer(LipschitzRegularizer):
    """mu sum_j b_j 1[b_j > L_j] with a published bound b of the stored convolutions, without their batch norms, as in [P].

    Args:
        model, input_shape, target, weight: as for :class:`~lipaudit.training.regularizer.LipschitzRegularizer`.
        bound: b, differentiable in the kernel.
        iterations: iterations or samples of the bound.
        seed: of its random starts.
    """

    def __init__(
        self,
        model: nn.Module,
        input_shape: InputShape,
        target: Targets,
        weight: float,
        bound: Bound,
        iterations: int,
        seed: int = 0,
    ) -> None:
        super().__init__(model, input_shape, target, weight, iterations, batch_norms="separate")
        dense = [layer.name for layer in self.layers if None in layer.geometries]
        if dense:
            raise TypeError(f"{dense[0]} is no convolution; give it the target None")
        self.bound = bound
        self._generator = torch.Generator().manual_seed(seed)

    def layer_bound(self, weight: torch.Tensor, geometry: Geometry | None, products: int) -> torch.Tensor:
        """The published bound."""
        if geometry is None:
            raise TypeError("the published bounds are those of convolutions")
        return self.bound(geometry.convolution(weight), products, self._generator)
