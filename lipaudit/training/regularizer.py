"""The regularization of [P] section 4.3: mu sum_j s_j 1[s_j > L_j] over the layers, s_j the bound of layer j and L_j its target.

s_j is :func:`lipaudit.training.norm.spectral_norm_bound` of the weight as it is stored: batch norms and other scales behind a layer are
not part of it. Only layers above their targets have a gradient, which pulls their largest singular value down until the
layer reaches its target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from lipaudit.errors import UsageError
from lipaudit.training.layers import InputShape, Layer, Targets, choose, find_layers
from lipaudit.training.norm import OVERSAMPLING, spectral_norm_bound


@dataclass(frozen=True)
class Schedule:
    """Iterations that rise from ``first`` to ``last`` in equal parts of ``length`` steps (or epochs), as [P] section 5 does.

    >>> [Schedule(8)(step) for step in range(10)]
    [3, 3, 4, 4, 5, 5, 6, 6, 6, 6]
    """

    length: int
    first: int = 3
    last: int = 6

    def __post_init__(self) -> None:
        if self.length < 1 or not 0 <= self.first <= self.last:
            raise UsageError(
                f"a schedule has a length of at least 1 and iterations that rise from 0 or more, not {self}"
            )

    def __call__(self, step: int) -> int:
        """The iterations at a step, counted from 0."""
        return min(self.last, self.first + step * (self.last - self.first + 1) // self.length)


class LipschitzRegularizer:
    """A term of the loss that holds the layers of a model near or below their targets.

    The layers are found once, in the graph that the audit reads; their weights are read from the model at every call, so that
    optimizers, ``load_state_dict`` and moves to another device are followed. Weights used with several geometries have a term for each,
    tied weights count once.

    Args:
        model: the network itself, not wrapped by DDP or ``torch.compile`` (which may wrap it afterwards).
        input_shape: C x H x W, a full shape with a batch axis of 1, or one such shape per name of an input.
        target: L, or a mapping from patterns of layers' names (``layer1.*``) to L, of which the first that matches counts; None
            leaves layers out.
        weight: mu.
        iterations: Gram products, or a function of the step that gives them, as :class:`Schedule`.
        oversampling: as for :func:`~lipaudit.training.norm.spectral_norm_bound`.

    Raises:
        UsageError: if the model has no layers, or the targets do not fit them.
        CaptureError, ModelLoadError: if the model cannot be captured on the input, or has no finite weights.

    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    >>> _ = net[0].weight.data.copy_(torch.tensor([[3.0, 0.0], [0.0, 0.5]]))
    >>> _ = net[2].weight.data.fill_(0.1)
    >>> regularizer = LipschitzRegularizer(net, (1, 2), target=1.0, weight=0.5)
    >>> loss = regularizer()
    >>> loss.backward()
    >>> round(loss.item(), 3), [round(v, 3) for v in regularizer.values.values()]
    (1.5, [3.0, 0.141])
    >>> net[0].weight.grad.round(decimals=3).tolist(), net[2].weight.grad.tolist()
    ([[0.5, 0.0], [0.0, 0.0]], [[0.0, 0.0]])
    """

    def __init__(
        self,
        model: nn.Module,
        input_shape: InputShape,
        target: Targets = 1.0,
        weight: float = 1e-2,
        iterations: int | Callable[[int], int] = 3,
        oversampling: int = OVERSAMPLING,
    ) -> None:
        chosen = choose(find_layers(model, input_shape), target)
        self.model = model
        self.layers: tuple[Layer, ...] = tuple(layer for layer, _ in chosen)
        self.targets: dict[str, float] = {term: t for layer, t in chosen for term, _ in layer.terms()}
        self.weight = weight
        self.iterations = iterations
        self.oversampling = oversampling
        self.calls = 0
        self._found: dict[str, torch.Tensor] = {}

    def __call__(self, step: int | None = None) -> torch.Tensor:
        """The term of the loss. ``step`` is what the schedule counts; without it, the calls are counted."""
        at = self.calls if step is None else step
        products = self.iterations if isinstance(self.iterations, int) else self.iterations(at)
        total: torch.Tensor | None = None
        found = {}
        for layer in self.layers:
            weight = layer.weight(self.model)
            for term, geometry in layer.terms():
                bound = spectral_norm_bound(weight, geometry, products, oversampling=self.oversampling)
                found[term] = bound.detach()
                penalty = bound * (found[term] > self.targets[term])
                total = penalty if total is None else total + penalty.to(total.device)
        self._found = found
        self.calls += 1
        if total is None:
            raise UsageError("the regularizer has no layers")
        return self.weight * total

    @property
    def values(self) -> dict[str, float]:
        """The bound of every layer in the last call."""
        return {term: float(value) for term, value in self._found.items()}
