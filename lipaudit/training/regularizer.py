"""The regularization of [P] section 4.3: mu sum_j s_j 1[s_j > L_j] over the layers, s_j the bound of layer j and L_j its target.

s_j is :func:`lipaudit.training.norm.spectral_norm_bound` of the operator that the audit shows in the layer's row: the weight W with the
batch norms and other scales that the audit folds into it, diag(r) W diag(c) (:mod:`lipaudit.training.scales`), the running
variances of the moment taken as constants. With ``batch_norms="separate"`` it is that of W alone, as in [P]. Only layers above their
targets have a gradient, which pulls their largest singular value down until the layer reaches its target.

With ``every`` = k > 1 the bound of a layer is computed in one step of k only, each layer in its turn. s is convex and homogeneous in
the operator A, so that with its gradient X at the operator of that step <X, A> is at most s(A), and equal to it there: this cutting
plane (Kelley, 1960) stands for s in the k - 1 steps between, at the cost of one inner product. The pull ends when the plane has
reached the target, and the next computation corrects it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from lipaudit.errors import InvalidValueError, UsageError
from lipaudit.training.geometry import Geometry
from lipaudit.training.layers import BatchNorms, InputShape, Layer, Targets, choose, find_layers, folds
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
        if self.length < 1:
            raise InvalidValueError("the length of a schedule", "at least 1", self.length)
        if not 0 <= self.first <= self.last:
            raise InvalidValueError("the iterations of a schedule", "0 or more and rising", (self.first, self.last))

    def __call__(self, step: int) -> int:
        """The iterations at a step, counted from 0."""
        return min(self.last, self.first + step * (self.last - self.first + 1) // self.length)


class LipschitzRegularizer:
    """A term of the loss that holds the layers of a model near or below their targets.

    The layers are found once, in the graph that the audit reads; their weights are read from the model at every call, so that
    optimizers, ``load_state_dict`` and moves to another device are followed. Weights used with several geometries or behind several
    batch norms have a term for each, tied weights count once.

    Args:
        model: the network itself, not wrapped by DDP or ``torch.compile`` (which may wrap it afterwards).
        input_shape: C x H x W, a full shape with a batch axis of 1, or one such shape per name of an input.
        target: L, or a mapping from patterns of layers' names (``layer1.*``) to L, of which the first that matches counts; None
            leaves layers out.
        weight: mu.
        iterations: Gram products, or a function of the step that gives them, as :class:`Schedule`.
        every: compute each layer's bound in one step of so many, and use its linear model between; it keeps a copy of every weight.
        oversampling: as for :func:`~lipaudit.training.norm.spectral_norm_bound`.
        batch_norms: "fold" bounds a layer together with the batch norms and other scales that the audit folds into its row, as they are in
            evaluation mode, with a gradient into their weights and none into the running variances; "separate" bounds the stored weight
            alone, and the audit's row of a layer with a batch norm can then lie above the target.

    Raises:
        UsageError: if the model has no layers, the targets do not fit them, or a scale that is folded into a layer cannot be read.
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
        every: int = 1,
        oversampling: int = OVERSAMPLING,
        batch_norms: BatchNorms = "fold",
    ) -> None:
        if not isinstance(every, int) or isinstance(every, bool) or every < 1:
            raise InvalidValueError("every", "an integer above 0", every)
        if not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise InvalidValueError("weight", "a finite number of 0 or more", weight)
        if not callable(iterations) and (not isinstance(iterations, int) or isinstance(iterations, bool)):
            raise InvalidValueError("iterations", "an integer, or a function of the step that returns one", iterations)
        chosen = choose(find_layers(model, input_shape, folds(batch_norms)), target)
        self.model = model
        self.layers: tuple[Layer, ...] = tuple(layer for layer, _ in chosen)
        self.targets: dict[str, float] = {term: t for layer, t in chosen for term, _ in layer.terms()}
        self.weight = weight
        self.iterations = iterations
        self.every = every
        self.oversampling = oversampling
        self.calls = 0
        self._turns = {term: turn for turn, term in enumerate(self.targets)}
        self._values: dict[str, torch.Tensor] = {}
        self._slopes: dict[str, torch.Tensor] = {}

    def __call__(self, step: int | None = None) -> torch.Tensor:
        """The term of the loss. ``step`` is what the schedule counts; without it, the calls are counted."""
        at = self.calls if step is None else step
        products = self.iterations if isinstance(self.iterations, int) else self.iterations(at)
        total: torch.Tensor | None = None
        for layer in self.layers:
            weight = layer.weight(self.model)
            for term, use in layer.terms():
                operator = use.folded(weight, self.model.get_submodule)
                bound = self._bound(term, operator, use.geometry, products)
                penalty = bound * (bound.detach() > self.targets[term])
                total = penalty if total is None else total + penalty.to(total.device)
        self.calls += 1
        if total is None:
            raise UsageError("the regularizer has no layers")
        return self.weight * total

    def _bound(self, term: str, weight: torch.Tensor, geometry: Geometry | None, products: int) -> torch.Tensor:
        """The bound of a layer, or its model where it is not the layer's turn."""
        if self.every == 1:
            bound = self.layer_bound(weight, geometry, products)
            self._values[term] = bound.detach()
            return bound
        slope = self._slopes.get(term)
        if slope is None or slope.shape != weight.shape or (self.calls + self._turns[term]) % self.every == 0:
            with torch.inference_mode(False), torch.enable_grad():
                leaf = weight.detach().clone().requires_grad_()
                bound = self.layer_bound(leaf, geometry, products)
                (slope,) = torch.autograd.grad(bound, leaf)
            self._slopes[term], self._values[term] = slope, bound.detach()
        wide = self._values[term].dtype
        return (slope.to(weight.device, wide) * weight.to(wide)).sum()

    def layer_bound(self, weight: torch.Tensor, geometry: Geometry | None, products: int) -> torch.Tensor:
        """The bound of one operator, differentiable in its weight; a subclass may take another one."""
        return spectral_norm_bound(weight, geometry, products, oversampling=self.oversampling)

    @property
    def values(self) -> dict[str, float]:
        """The bound of every layer when it was last computed: in the last call unless ``every`` is above 1."""
        return {term: float(value) for term, value in self._values.items()}
