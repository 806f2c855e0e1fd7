"""Layers that are bounded by construction: the weight W is used as W / max(1, (1 + m) b(W) / L), b an upper bound of the norm.

b is :func:`lipaudit.training.norm.spectral_norm_bound` in float64 for inputs of every size. The margin m covers

- the tolerance of the audit that certifies the result: its figure may exceed the norm by that factor;
- the rounding of the quotient to the precision u of the weight. It moves the operator by at most sqrt(taps) u ||W||_F, whose norm over
  all frequencies is at least ||W||_F / sqrt(s), s the smaller side of a tap: a factor of at most 1 + u sqrt(numel(W)). Entries below the
  normal range lose up to half the smallest number more, which is taken off L;
- the rounding of b, below 1e-9.

So the layer with the stored weight has norm at most L. A batch norm behind the layer has its own factor, which the audit folds into
the same row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.utils import parametrize

from lipaudit.errors import UsageError
from lipaudit.training.geometry import Geometry
from lipaudit.training.layers import InputShape, Targets, choose, find_layers
from lipaudit.training.norm import OVERSAMPLING, spectral_norm_bound

ROUNDING = 1e-9


class Rescaling(nn.Module):
    """The parametrization: a weight of any size to one whose layer has norm at most ``limit`` with each of the geometries."""

    def __init__(
        self, geometries: Sequence[Geometry | None], limit: float, iterations: int, tolerance: float, oversampling: int
    ) -> None:
        super().__init__()
        self.geometries = tuple(geometries)
        self.limit = limit
        self.iterations = iterations
        self.tolerance = tolerance
        self.oversampling = oversampling

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The rescaled weight, differentiable in the given one."""
        wide = weight.to(torch.float64)
        bounds = [
            spectral_norm_bound(wide, geometry, self.iterations, oversampling=self.oversampling, any_size=True)
            for geometry in self.geometries
        ]
        factor = torch.stack(bounds).max() * self._per_unit(weight)
        return (wide / factor.clamp_min(1.0)).to(weight.dtype)

    def _per_unit(self, weight: torch.Tensor) -> float:
        """(1 + m) / L, L without what numbers below the normal range of the precision may add by rounding."""
        kind, numbers = torch.finfo(weight.dtype), weight.numel()
        underflow = math.sqrt(math.prod(weight.shape[2:]) * numbers) * kind.smallest_normal * kind.eps / 2
        room = self.limit - underflow
        if not room > 0:
            raise UsageError(
                f"a limit of {self.limit:g} is too small for a weight in {weight.dtype}: keep it in float32"
            )
        return (1 + self.tolerance) * (1 + kind.eps / 2 * math.sqrt(numbers)) * (1 + ROUNDING) / room

    def extra_repr(self) -> str:
        """The limit, in the model's representation."""
        return f"limit={self.limit:g}"


def rescale(
    model: nn.Module,
    input_shape: InputShape,
    limit: Targets = 1.0,
    iterations: int = 10,
    tolerance: float = 1e-3,
    oversampling: int = OVERSAMPLING,
) -> list[str]:
    """Hold the norm of every convolution and dense layer of a model at or below a limit, in training and after it.

    Registers a parametrization (``torch.nn.utils.parametrize``) on each weight; layers below their limit are not changed.
    ``torch.nn.utils.parametrize.remove_parametrizations(module, "weight")`` stores the rescaled weight and ends it. Wherever a tied
    weight is used, it is rescaled.

    Args:
        model: the model, whose parameters stay the same objects; a single layer is a model, too.
        input_shape, limit: as ``input_shape`` and ``target`` of :class:`~lipaudit.training.regularizer.LipschitzRegularizer`.
        iterations, oversampling: of the bound; fewer are faster and leave the layers further below their limits.
        tolerance: the ``tol`` of the audit that is to show at most the limit for each layer.

    Returns:
        the names of the layers.

    Raises:
        UsageError, CaptureError, ModelLoadError: as the regularizer does.

    >>> layer = nn.Linear(3, 3, bias=False)
    >>> _ = layer.weight.data.copy_(torch.diag(torch.tensor([4.0, 1.0, 0.0])))
    >>> rescale(layer, (1, 3))
    ['weight']
    >>> [round(x, 2) for x in layer.weight.diagonal().tolist()]
    [1.0, 0.25, 0.0]
    """
    chosen = choose(find_layers(model, input_shape), limit)
    for layer, _ in chosen:
        for path, attribute in layer.places:
            held = getattr(model.get_submodule(path), "parametrizations", {})
            if attribute in held and any(isinstance(part, Rescaling) for part in held[attribute]):
                raise UsageError(
                    f"{layer.name} is rescaled already: end that with torch.nn.utils.parametrize.remove_parametrizations first, or give "
                    "it the limit None"
                )
    for layer, most in chosen:
        for path, attribute in layer.places:
            rescaling = Rescaling(layer.geometries, most, iterations, tolerance, oversampling)
            parametrize.register_parametrization(model.get_submodule(path), attribute, rescaling)
    return [layer.name for layer, _ in chosen]
