"""Layers that are bounded by construction: what the audit shows in a layer's row, divided by max(1, (1 + m) b / L), b an upper bound of it.

The audit folds batch norms and other scales into the layer, diag(r) W diag(c) (:mod:`lipaudit.training.scales`). b is
:func:`lipaudit.training.norm.spectral_norm_bound` of that operator in float64, for inputs of every size, with the running variances of
the moment as constants. What is divided is

- gamma of the last batch norm behind the layer. Dividing W would do nothing in training, where the batch norm divides by the deviation of
  its own batch, and would shrink the running variance, so that b grew from step to step;
- W where no batch norm is behind it.

The margin m covers

- the tolerance of the audit that certifies the result: its figure may exceed the norm by that factor;
- the rounding of the quotient to the precision u of the weight. It moves the operator by at most sqrt(taps) u ||A||_F, A its entries,
  and the norm over all frequencies is at least ||A||_F / sqrt(s), s the smaller side of a tap: a factor of at most 1 + u sqrt(numel(W)).
  Entries below the normal range lose up to half the smallest number more, which is taken off L;
- the rounding of b, below 1e-9.

So the layer with the stored numbers has norm at most L in evaluation mode: with the parametrization in place at any moment, after
``remove_parametrizations`` for as long as the running variances stay what they were.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import torch
from torch import nn
from torch.nn.utils import parametrize

from lipaudit.errors import UsageError
from lipaudit.training.errors import CircularRescalingError, FixedBatchNormError, RescaledTwiceError
from lipaudit.training.geometry import Geometry
from lipaudit.training.layers import BatchNorms, InputShape, Layer, Targets, choose, find_layers, folds
from lipaudit.training.norm import OVERSAMPLING, spectral_norm_bound
from lipaudit.training.places import Place, read
from lipaudit.training.scales import Unreadable, Use

ROUNDING = 1e-9
# The part of the limit that is left where the smallest numbers of a precision take all of it: what is divided becomes zero.
_NO_ROOM = 1e-100


class _Division(nn.Module):
    """What both parametrizations divide by."""

    def __init__(self, limit: float, iterations: int, tolerance: float, oversampling: int) -> None:
        super().__init__()
        self.limit = limit
        self.iterations = iterations
        self.tolerance = tolerance
        self.oversampling = oversampling

    def _divided(self, value: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        divided: torch.Tensor = value.to(torch.float64) / factor.clamp_min(1.0)
        return divided.to(value.dtype)

    def _over(self, use: Use, operator: torch.Tensor, unit: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """(1 + m) b / L, L without what numbers below the normal range of the precision may add by rounding.

        ``unit`` is the operator with ones in the place of the numbers that are divided.
        """
        kind = torch.finfo(dtype)
        half = kind.smallest_normal * kind.eps / 2
        if not use.scales and not self.limit > half * math.sqrt(math.prod(unit.shape[2:]) * unit.numel()):
            raise UsageError(f"a limit of {self.limit:g} is too small for a weight in {dtype}: keep it in float32")
        lost = half * math.sqrt(math.prod(unit.shape[2:])) * torch.linalg.vector_norm(unit.detach())
        bound = spectral_norm_bound(
            operator, use.geometry, self.iterations, oversampling=self.oversampling, any_size=True
        )
        margin = (1 + self.tolerance) * (1 + kind.eps / 2 * math.sqrt(operator.numel())) * (1 + ROUNDING)
        room: torch.Tensor = (self.limit - lost).clamp_min(self.limit * _NO_ROOM)
        return bound * margin / room

    @property
    def reads(self) -> tuple[Place, ...]:
        """The places of the tensors that a forward pass reads."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """The limit, in the model's representation."""
        return f"limit={self.limit:g}"


class Rescaling(_Division):
    """The parametrization of a weight: one of any size to one whose layer has norm at most ``limit`` in each of its uses.

    A geometry (None: as a matrix) is a use without scales; ``holders`` are the modules that hold the scales of the others, by path.
    """

    def __init__(
        self,
        uses: Sequence[Use | Geometry | None],
        limit: float,
        iterations: int,
        tolerance: float,
        oversampling: int,
        holders: Mapping[str, nn.Module] | None = None,
    ) -> None:
        super().__init__(limit, iterations, tolerance, oversampling)
        self.uses = tuple(use if isinstance(use, Use) else Use(use) for use in uses)
        self.holders = dict(holders or {})

    @property
    def reads(self) -> tuple[Place, ...]:
        """The places of the scales."""
        return tuple(place for use in self.uses for place in use.places)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        """The rescaled weight, differentiable in the given one and in the scales."""
        wide = weight.to(torch.float64)
        ones, modules = torch.ones_like(wide), self.holders.__getitem__
        factors = [
            self._over(use, use.folded(wide, modules), use.folded(ones, modules), weight.dtype) for use in self.uses
        ]
        return self._divided(weight, torch.stack(factors).max())


class NormRescaling(_Division):
    """The parametrization of gamma of the batch norm behind a layer: the pair has norm at most ``limit`` with the running variance
    of the moment. ``weight`` is the place of the layer's weight; ``holders`` are the modules that hold it and the scales, by path."""

    def __init__(
        self,
        use: Use,
        weight: Place,
        limit: float,
        iterations: int,
        tolerance: float,
        oversampling: int,
        holders: Mapping[str, nn.Module],
    ) -> None:
        super().__init__(limit, iterations, tolerance, oversampling)
        self.use = use
        self.weight = weight
        self.holders = dict(holders)

    @property
    def reads(self) -> tuple[Place, ...]:
        """The places of the layer's weight and of the scales but the one that is rescaled."""
        norm = self.use.norm
        others = [scale for scale in self.use.scales if scale is not norm and not isinstance(scale, Unreadable)]
        return (self.weight, *(place for scale in others for place in scale.places))

    def forward(self, gamma: torch.Tensor) -> torch.Tensor:
        """The rescaled gamma, differentiable in the given one, in the layer's weight and in the other scales."""
        modules = self.holders.__getitem__
        weight, wide = read(modules, self.weight).to(torch.float64), gamma.to(torch.float64)
        operator = self.use.folded(weight, modules, wide)
        unit = self.use.folded(weight, modules, torch.ones_like(wide))
        return self._divided(gamma, self._over(self.use, operator, unit, gamma.dtype))


def rescale(
    model: nn.Module,
    input_shape: InputShape,
    limit: Targets = 1.0,
    iterations: int = 10,
    tolerance: float = 1e-3,
    oversampling: int = OVERSAMPLING,
    batch_norms: BatchNorms = "fold",
) -> list[str]:
    """Hold the norm of every convolution and dense layer of a model at or below a limit, in training and after it.

    The norm is that of the row in which the audit shows the layer: with the batch norms and other scales that are folded into it.
    Registers a parametrization (``torch.nn.utils.parametrize``) on each weight, or on the weight of the batch norm behind it; layers
    below their limit are not changed. The running variances are those of the moment of each forward pass; in training mode a batch norm
    divides by the deviations of its batch instead, and the limit holds for the network in evaluation mode only.
    ``torch.nn.utils.parametrize.remove_parametrizations(module, "weight")`` stores the rescaled weight and ends it: do so when
    the training is over. Wherever a tied weight is used, it is rescaled.

    Args:
        model: the model, whose parameters stay the same objects; a single layer is a model, too.
        input_shape, limit: as ``input_shape`` and ``target`` of :class:`~lipaudit.training.regularizer.LipschitzRegularizer`.
        iterations, oversampling: of the bound; fewer are faster and leave the layers further below their limits.
        tolerance: the ``tol`` of the audit that is to show at most the limit for each layer.

        batch_norms: as for the regularizer; with "separate" the stored weight alone is held at the limit, and the audit's row of a layer
            with a batch norm can lie above it.

    Returns:
        the names of the layers.

    Raises:
        UsageError: as the regularizer does, and for a batch norm behind a layer that has no weight (``affine=False``).
        CaptureError, ModelLoadError: as the regularizer does.

    >>> layer = nn.Linear(3, 3, bias=False)
    >>> _ = layer.weight.data.copy_(torch.diag(torch.tensor([4.0, 1.0, 0.0])))
    >>> rescale(layer, (1, 3))
    ['weight']
    >>> [round(x, 2) for x in layer.weight.diagonal().tolist()]
    [1.0, 0.25, 0.0]
    """
    chosen = choose(find_layers(model, input_shape, folds(batch_norms)), limit, "limit")
    settings = (iterations, tolerance, oversampling)
    divisions = [part for layer, most in chosen for part in _divisions(model, layer, most, settings)]
    for (path, attribute), _ in divisions:
        held = getattr(model.get_submodule(path), "parametrizations", {})
        if attribute in held and any(isinstance(part, _Division) for part in held[attribute]):
            raise RescaledTwiceError(path or attribute)
    _check_order(divisions)
    for (path, attribute), division in divisions:
        parametrize.register_parametrization(model.get_submodule(path), attribute, division)
    return [layer.name for layer, _ in chosen]


def _divisions(
    model: nn.Module, layer: Layer, limit: float, settings: tuple[int, float, int]
) -> Iterator[tuple[Place, _Division]]:
    """The parametrizations of a layer and where they go."""
    plain = [use for use in layer.uses if use.norm is None]
    if plain:
        holders = _holders(model, plain)
        for place in layer.places:
            yield place, Rescaling(plain, limit, *settings, holders)
    for use in layer.uses:
        if (norm := use.norm) is None:
            continue
        if not norm.weight:
            raise FixedBatchNormError(norm.name, layer.name)
        holders = {layer.places[0][0]: model.get_submodule(layer.places[0][0]), **_holders(model, [use])}
        for place in norm.weight:
            yield place, NormRescaling(use, layer.places[0], limit, *settings, holders)


def _check_order(divisions: Sequence[tuple[Place, _Division]]) -> None:
    """Refuse weights that would be rescaled by what is rescaled by them."""
    order = TopologicalSorter[Place]()
    for place, division in divisions:
        order.add(place, *division.reads)
    try:
        order.prepare()
    except CycleError as error:
        places = (".".join(filter(None, place)) for place in dict.fromkeys(error.args[1]))
        raise CircularRescalingError(places) from None


def _holders(model: nn.Module, uses: Iterable[Use]) -> dict[str, nn.Module]:
    """The modules that hold the scales of some uses, by path."""
    paths = {path for use in uses for path, _ in use.places}
    return {path: model.get_submodule(path) for path in sorted(paths)}
