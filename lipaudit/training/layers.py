"""The convolutions and dense layers of a model, found in the graph that the audit reads.

A layer is a weight that can be read from the model again after every step: a parameter, or a tensor with a parametrization
(``torch.nn.utils.parametrize``). The graph tells with which geometries the weight is used, padding modules before a convolution
included. Batch norms and other scales are not folded: the layer's weight is taken as it is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from lipaudit.errors import ModelLoadError, UsageError
from lipaudit.frontends.module import wrap_module
from lipaudit.graph.linear import CONVOLUTION, DENSE
from lipaudit.graph.node import Constant, Graph, Node
from lipaudit.graph.placeholders import has_values
from lipaudit.graph.recognise import recognise
from lipaudit.graph.simplify import absorb_padding, drop_shifts, recognise_linear
from lipaudit.opening import graph_of, zero_inputs
from lipaudit.training.geometry import Geometry

InputShape = Sequence[int] | Mapping[str, Sequence[int]]
Targets = float | Mapping[str, float | None]


@dataclass(frozen=True)
class Layer:
    """A weight and every geometry that it is used with (None: as a matrix).

    ``places`` are the (module path, attribute) pairs that hold the weight: several if it is tied, none if it is computed from
    parameters in a way that cannot be repeated.
    """

    name: str
    places: tuple[tuple[str, str], ...]
    geometries: tuple[Geometry | None, ...]

    def weight(self, model: nn.Module) -> torch.Tensor:
        """The weight as it is now, differentiable in the parameters of the model."""
        path, attribute = self.places[0]
        found: torch.Tensor = getattr(model.get_submodule(path), attribute)
        return found

    def terms(self) -> Iterator[tuple[str, Geometry | None]]:
        """A name for each geometry, with the input's size where there are several."""
        for geometry in self.geometries:
            size = "matrix" if geometry is None else "x".join(map(str, geometry.input_size))  # type: ignore[arg-type]
            yield (self.name if len(self.geometries) == 1 else f"{self.name} ({size})"), geometry


def find_layers(model: nn.Module, input_shape: InputShape) -> list[Layer]:
    """The layers of a model in the order in which they run on an input of this shape, each weight once.

    ``input_shape`` is C x H x W, a full shape with a batch axis of 1, or one such shape per name of an input. The model is left as it is.

    Raises:
        UsageError: if the model has no such layers.
        CaptureError: if it does not run on the input.
        ModelLoadError: if it has no weights yet; NonFiniteWeightsError: if they are not finite.
    """
    if not has_values(model) or any(is_lazy(p) for p in model.parameters()):
        raise ModelLoadError("the model has no weights yet (meta device or lazy modules): load them, or run it once")
    found: dict[object, Layer] = {}
    with _evaluating(model), torch.no_grad():
        for node in _graph(model, input_shape):
            if node.op in (CONVOLUTION, DENSE) and (names := _parameters(node, model)):
                places = _places(model, names, node)
                geometry = Geometry.of(node.payload) if node.op == CONVOLUTION else None
                key = places or node.name
                before = found.get(key)
                if before is None:
                    found[key] = Layer(_name(places, node, names), places, (geometry,))
                elif geometry not in before.geometries:
                    found[key] = replace(before, geometries=(*before.geometries, geometry))
    if not found:
        raise UsageError("the model has no convolution and no dense layer with a trained weight that acts on its input")
    return list(found.values())


def choose(layers: Iterable[Layer], targets: Targets) -> list[tuple[Layer, float]]:
    """The layers with their targets, those left out that have None.

    In a mapping the keys are patterns of layers' names (``layer1.*``), and the first that matches counts.

    Raises:
        UsageError: for a target that is no positive number, a pattern without layers, a layer without a pattern, or a layer whose
            weight cannot be read.
    """
    patterns = dict(targets) if isinstance(targets, Mapping) else {"*": targets}
    for pattern, target in patterns.items():
        if target is not None and (
            isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target < math.inf
        ):
            raise UsageError(f"the target of {pattern} is a number above 0 or None, not {target!r}")
    chosen, used = [], set()
    for layer in layers:
        matching = [p for p in patterns if fnmatchcase(layer.name, p)]
        if not matching:
            raise UsageError(f'no target is for the layer {layer.name}: add one, or "*": None for all that are left')
        used.add(matching[0])
        target = patterns[matching[0]]
        if target is None:
            continue
        if not layer.places:
            raise UsageError(
                f"the weight of {layer.name} is computed from parameters, and cannot be read from the model: make the computation a "
                f'parametrization (torch.nn.utils.parametrize), or leave the layer out with a target "{layer.name}": None'
            )
        chosen.append((layer, float(target)))
    idle = [p for p in patterns if p not in used and not (p == "*" and isinstance(targets, Mapping))]
    if idle:
        raise UsageError(
            f"no layer has a name like {idle[0]}; the layers are {', '.join(layer.name for layer in layers)}"
        )
    if not chosen:
        raise UsageError("every layer is left out: give at least one a target")
    return chosen


def _graph(model: nn.Module, input_shape: InputShape) -> Graph:
    if not isinstance(input_shape, Sequence | Mapping) or isinstance(input_shape, str):
        raise UsageError(
            f"the shape of an input is C x H x W, a full shape with a batch axis of 1, or one such shape per name, not {input_shape!r}"
        )
    shapes = input_shape if isinstance(input_shape, Mapping) else {"": input_shape}
    loaded = wrap_module(model, {name: tuple(shape) for name, shape in shapes.items()})
    place = next((p.device for p in model.parameters()), torch.device("cpu"))
    graph = graph_of(model, zero_inputs(loaded, place))
    return absorb_padding(recognise_linear(drop_shifts(recognise(graph))))


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode: a parametrization may change its own state when it is read in training mode."""
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode


def _parameters(node: Node, model: nn.Module) -> list[str]:
    """The parameters that the weight of a layer is made of; none for constants and buffers, which nothing trains."""
    known = dict(model.named_parameters(remove_duplicate=False))
    constants = [a for key, a in node.arguments.items() if key != "bias" and isinstance(a, Constant)]
    weights = [c for c in constants if c.value.numel() == node.payload.weight.numel()]
    return [name for constant in weights for name in constant.names if name in known]


def _places(model: nn.Module, names: Sequence[str], node: Node) -> tuple[tuple[str, str], ...]:
    """Every module and attribute that holds the weight of a node; none if it is none of them."""
    places = {_place(name) for name in names}
    if len(places) != 1:
        return ()
    path, attribute = places.pop()
    module = model.get_submodule(path)
    value, weight = getattr(module, attribute), node.payload.weight
    if not any(
        v.shape == weight.shape and torch.equal(v, weight) for v in (value, value.T if value.dim() == 2 else value)
    ):
        return ()
    parameter = module.get_parameter(attribute) if not parametrize.is_parametrized(module, attribute) else None
    if parameter is None:
        return ((path, attribute),)
    tied = [n for n, p in model.named_parameters(remove_duplicate=False) if p is parameter]
    return tuple(_place(name) for name in tied)


def _place(name: str) -> tuple[str, str]:
    """The module and the attribute that the name of a parameter, or of what a parametrization keeps, belongs to."""
    path, dot, rest = f".{name}".rpartition(".parametrizations.")
    if dot:
        return path.removeprefix("."), rest.split(".")[0]
    path, _, attribute = name.rpartition(".")
    return path, attribute


def _name(places: Sequence[tuple[str, str]], node: Node, names: Sequence[str]) -> str:
    if not places:
        return node.module or names[0]
    path, attribute = places[0]
    return path if path and attribute == "weight" else f"{path}.{attribute}".removeprefix(".")
