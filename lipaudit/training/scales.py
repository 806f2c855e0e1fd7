"""The scales that the audit folds into the row of a layer: batch norms, and products with constants, before and behind it.

The audit takes a convolution or dense layer W with scales r of its output channels and c of its input channels as one operator
diag(r) W diag(c) (:mod:`lipaudit.graph.passes.scale_folding`). Which scales these are is asked of that very pass; their
values are read from the model at every use. A batch norm in evaluation mode is the scale gamma / sqrt(running_var + eps). Its running
variance counts as a constant: no gradient goes into it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import nn

from lipaudit.graph.linear import BATCH_NORMS, CONVOLUTION, DENSE, SCALE, along_channels
from lipaudit.graph.node import Constant, Graph, Node
from lipaudit.graph.passes.table import SCALES
from lipaudit.graph.rewrite import label
from lipaudit.training.geometry import Geometry
from lipaudit.training.places import Modules, Place, places_of, read


@dataclass(frozen=True)
class BatchNorm:
    """gamma / sqrt(running_var + eps); ``weight`` has the places of gamma, none where it is 1."""

    name: str = field(compare=False)
    variance: Place
    weight: tuple[Place, ...]
    eps: float

    def now(self, modules: Modules, like: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
        """The scale (channels,), with gamma from the model or the one given, on the device and in the dtype of ``like``."""
        factor = torch.rsqrt(read(modules, self.variance).detach().to(like) + self.eps)
        if weight is None and self.weight:
            weight = read(modules, self.weight[0])
        return factor if weight is None else weight.to(like) * factor

    @property
    def places(self) -> tuple[Place, ...]:
        """What is read."""
        return (self.variance, *self.weight)


@dataclass(frozen=True)
class Stored:
    """A parameter or buffer that the channels are multiplied with, or divided by."""

    name: str = field(compare=False)
    place: Place
    divides: bool

    def now(self, modules: Modules, like: torch.Tensor) -> torch.Tensor:
        """The scale (channels,) or (1,)."""
        value = read(modules, self.place).to(like).flatten()
        return 1 / value if self.divides else value

    @property
    def places(self) -> tuple[Place, ...]:
        """What is read."""
        return (self.place,)


@dataclass(frozen=True)
class Fixed:
    """Numbers that are written in the forward function."""

    name: str = field(compare=False)
    values: tuple[float, ...]
    places: tuple[Place, ...] = ()

    def now(self, _modules: Modules, like: torch.Tensor) -> torch.Tensor:
        """The scale (channels,) or (1,)."""
        return like.new_tensor(self.values)


@dataclass(frozen=True)
class Unreadable:
    """A scale that is computed from the model's tensors in a way that cannot be repeated."""

    name: str


Scale = BatchNorm | Stored | Fixed | Unreadable


@dataclass(frozen=True)
class Use:
    """One use of a weight: its geometry (None: as a matrix), whether the matrix is kept as (in, out), and the scales of its output
    (``rows``) and input channels, in the order of the computation."""

    geometry: Geometry | None
    flipped: bool = False
    rows: tuple[Scale, ...] = ()
    columns: tuple[Scale, ...] = ()

    @property
    def scales(self) -> tuple[Scale, ...]:
        """All of them, in the order of the computation."""
        return (*self.columns, *self.rows)

    @property
    def places(self) -> tuple[Place, ...]:
        """Every place that the scales are read from."""
        return tuple(place for scale in self.scales if not isinstance(scale, Unreadable) for place in scale.places)

    @property
    def norm(self) -> BatchNorm | None:
        """The last batch norm behind the layer."""
        return next((scale for scale in reversed(self.rows) if isinstance(scale, BatchNorm)), None)

    def folded(self, weight: torch.Tensor, modules: Modules, gamma: torch.Tensor | None = None) -> torch.Tensor:
        """diag(r) W diag(c) in at least float32, with ``gamma`` in the place of that of :attr:`norm` where it is given."""
        if not self.scales:
            return weight
        wide = weight.to(torch.promote_types(weight.dtype, torch.float32))
        for scale in self.scales:
            wide = wide * self._factor(scale, wide, modules, gamma if scale is self.norm else None)
        return wide

    def _factor(
        self, scale: Scale, weight: torch.Tensor, modules: Modules, gamma: torch.Tensor | None = None
    ) -> torch.Tensor:
        """A scale in the form in which it multiplies the weight."""
        if isinstance(scale, Unreadable):
            raise TypeError(f"{scale.name} cannot be read")
        values = scale.now(modules, weight, gamma) if isinstance(scale, BatchNorm) else scale.now(modules, weight)
        groups, transposed = (
            (1, self.flipped) if self.geometry is None else (self.geometry.groups, self.geometry.transposed)
        )
        behind = any(scale is row for row in self.rows)
        return along_channels(values, weight.shape, groups, transposed, behind)


def find_scales(
    model: nn.Module, before: Graph, linear: Graph
) -> dict[str, tuple[tuple[Scale, ...], tuple[Scale, ...]]]:
    """By the name of each convolution and dense layer of ``linear``: the scales of its rows and of its columns. A scale that no layer takes
    has itself, and those that follow it, as rows.

    ``before`` is the graph whose linear operations ``linear`` has recognised.
    """
    order = {node.name: place for place, node in enumerate(linear)}
    recognised, origin = {node.name: node for node in linear}, {node.name: node for node in before}
    # without modules and sources the list of what was folded has the nodes' own names
    plain = replace(linear, nodes=tuple(replace(node, module="", sources=()) for node in linear))
    by_node = {}
    for node in SCALES.run(plain):
        if node.op not in (CONVOLUTION, DENSE, SCALE):
            continue
        names = sorted((n for n in node.sources if recognised[n].op == SCALE), key=order.__getitem__)
        names = [node.name, *names] if node.op == SCALE else names
        scales = {name: _scale(model, origin[name], recognised[name].payload.factor) for name in names}
        rows = tuple(scale for name, scale in scales.items() if order[name] >= order[node.name])
        columns = tuple(scale for name, scale in scales.items() if order[name] < order[node.name])
        by_node[node.name] = rows, columns
    return by_node


def _scale(model: nn.Module, node: Node, value: torch.Tensor) -> Scale:
    """Where the scale of a node is read; ``value`` is the one that the audit folds."""
    constants = [a for a in node.arguments.values() if isinstance(a, Constant)]
    name = label(node)
    if not any(constant.names for constant in constants):
        return Fixed(name, tuple(value.tolist()))
    if node.op in BATCH_NORMS:
        return _batch_norm(model, node, name) or Unreadable(name)
    (constant,) = constants
    places = places_of(model, constant.names, constant.value.flatten(), torch.flatten)
    return Stored(name, places[0], node.op.startswith("aten.div")) if places else Unreadable(name)


def _batch_norm(model: nn.Module, node: Node, name: str) -> BatchNorm | None:
    variance, weight, eps = node["running_var"], node["weight"], node["eps"]
    if not isinstance(variance, Constant) or not isinstance(eps, float | int):
        return None
    held = places_of(model, variance.names, variance.value)
    gamma = places_of(model, weight.names, weight.value) if isinstance(weight, Constant) else ()
    if not held or (isinstance(weight, Constant) and not gamma):
        return None
    return BatchNorm(name, held[0], gamma, float(eps))
