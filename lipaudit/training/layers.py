"""The convolutions and dense layers of a model, found in the graph that the audit reads.

A layer is a weight that can be read from the model again after every step: a parameter, or a tensor with a parametrization
(``torch.nn.utils.parametrize``). The graph tells with which geometries the weight is used, padding modules before a convolution
included, and which batch norms and other scales the audit folds into the layer's row (:mod:`lipaudit.training.scales`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from lipaudit.auditing.capture import graph_of, zero_inputs
from lipaudit.errors import InvalidValueError, ModelLoadError, UsageError
from lipaudit.frontends.module import wrap_module
from lipaudit.graph.capture.meta_tensors import has_values
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Constant, Graph, Node, parts
from lipaudit.graph.passes.table import CONSTANT_SHIFTS, LINEAR_MAPS, PADDING, SCALES, recognise
from lipaudit.graph.rewrite import label
from lipaudit.graph.weights import weights
from lipaudit.training.errors import (
    UnmatchedLayerError,
    UnreadableScaleError,
    UnreadableWeightError,
    UnusedPatternError,
)
from lipaudit.training.geometry import Geometry
from lipaudit.training.places import Place, places_of, read
from lipaudit.training.scales import Scale, Unreadable, Use, find_scales
from lipaudit.user_code import exit_is_an_error

InputShape = Sequence[int] | Mapping[str, Sequence[int]]
Targets = float | Mapping[str, float | None]
BatchNorms = Literal["fold", "separate"]


@dataclass(frozen=True)
class Layer:
    """A weight and every use of it.

    ``places`` are the (module path, attribute) pairs that hold the weight: several if it is tied, none if it is computed from
    parameters in a way that cannot be repeated.
    """

    name: str
    places: tuple[Place, ...]
    uses: tuple[Use, ...]

    @property
    def geometries(self) -> tuple[Geometry | None, ...]:
        """The geometries that the weight is used with (None: as a matrix)."""
        return tuple(dict.fromkeys(use.geometry for use in self.uses))

    def weight(self, model: nn.Module) -> torch.Tensor:
        """The weight as it is stored now, differentiable in the parameters of the model."""
        return read(model.get_submodule, self.places[0])

    def terms(self) -> Iterator[tuple[str, Use]]:
        """A name for each use, with the input's size, or the scales, where uses differ in them."""
        for use in self.uses:
            size = "matrix" if use.geometry is None else "x".join(map(str, use.geometry.input_size))  # type: ignore[arg-type]
            alike = [other for other in self.uses if other.geometry == use.geometry]
            parts = [size] if len(self.geometries) > 1 else []
            parts += [scale.name for scale in use.scales] or ["as stored"] if len(alike) > 1 else []
            yield f"{self.name} ({', '.join(parts)})" if parts else self.name, use


@dataclass(frozen=True)
class LayerGraph:
    """The graph of a model, simplified up to the folding of scales, and what in it is read from the model again.

    ``weights`` has, by the name of a convolution's or dense layer's node, the layer and this use of it; ``scales`` has the scales of the
    nodes that are scales by themselves, because no layer takes them. ``absorbed`` are parameters and buffers of which an operation was
    made that does not show them any more, such as x + a tanh(x) of a, with the place where they are read.
    """

    graph: Graph
    weights: Mapping[str, tuple[Layer, Use]]
    scales: Mapping[str, tuple[Scale, ...]]
    absorbed: Mapping[str, str]


def find_layers(model: nn.Module, input_shape: InputShape, folded: bool = False) -> list[Layer]:
    """The layers of a model in the order in which they run on an input of this shape, each weight once.

    ``input_shape`` is C x H x W, a full shape with a batch axis of 1, or one such shape per name of an input. The model is left as it is.
    ``folded`` looks for the scales that the audit folds into each layer, too; without it every weight is taken as it is stored.

    Raises:
        UsageError: if the model has no such layers.
        CaptureError: if it does not run on the input.
        ModelLoadError: if it has no weights yet; NonFiniteWeightsError: if they are not finite.
    """
    found = layer_graph(model, input_shape, folded)
    return list({id(layer): layer for layer, _ in found.weights.values()}.values())


def layer_graph(model: nn.Module, input_shape: InputShape, folded: bool = True) -> LayerGraph:
    """The graph of a model and its layers, see :func:`find_layers`.

    Raises:
        UsageError: if the model has no such layers.
        CaptureError: if it does not run on the input.
        ModelLoadError: if it has no weights yet; NonFiniteWeightsError: if they are not finite.
    """
    if not isinstance(model, nn.Module):
        raise InvalidValueError("model", "a network, an nn.Module made by its class", model)
    if not has_values(model) or any(is_lazy(p) for p in model.parameters()):
        raise ModelLoadError("the model has no weights yet (meta device or lazy modules): load them, or run it once")
    layers: dict[object, Layer] = {}
    uses: dict[str, tuple[object, Use]] = {}
    with _evaluating(model), torch.no_grad():
        captured = _graph(model, input_shape)
        recognised = recognise(captured)
        before = CONSTANT_SHIFTS.run(recognised)
        graph = PADDING.run(LINEAR_MAPS.run(before))
        scales = find_scales(model, before, graph) if folded else {}
        trained = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        for weight in weights(graph):
            node = weight.node
            names = [name for constant in weight.constants for name in constant.names if name in trained]
            if node.op in (CONVOLUTION, DENSE) and names:
                places, flipped = _places(model, names, node)
                use = _use(node, flipped, *scales.get(node.name, ((), ())))
                key = places or node.name
                uses[node.name] = key, use
                layer = layers.get(key)
                if layer is None:
                    layers[key] = Layer(_name(places, node, names), places, (use,))
                elif use not in layer.uses:
                    layers[key] = replace(layer, uses=(*layer.uses, use))
    if not layers:
        raise UsageError("the model has no convolution and no dense layer with a trained weight that acts on its input")
    alone = {node.name: scales[node.name][0] for node in graph if node.op == SCALE and node.name in scales}
    followed = {name: (layers[key], use) for name, (key, use) in uses.items()}
    return LayerGraph(SCALES.run(graph), followed, alone, _absorbed(captured, recognised))


def folds(batch_norms: BatchNorms) -> bool:
    """Whether ``batch_norms`` asks for the pairs that the audit folds; UsageError for what is neither choice."""
    if batch_norms not in ("fold", "separate"):
        choices = (
            '"fold" (a layer with the scales that the audit folds into its row) or "separate" (the stored weight alone)'
        )
        raise InvalidValueError("batch_norms", choices, batch_norms)
    return batch_norms == "fold"


def choose(layers: Iterable[Layer], targets: Targets, called: str = "target") -> list[tuple[Layer, float]]:
    """The layers with their targets, those left out that have None.

    In a mapping the keys are patterns of layers' names (``layer1.*``), and the first that matches counts. ``called`` is the argument's
    name, for errors.

    Raises:
        UsageError: for a target that is no positive number, a pattern without layers, a layer without a pattern, or a layer whose
            weight or scales cannot be read.
    """
    patterns = dict(targets) if isinstance(targets, Mapping) else {"*": targets}
    for pattern, target in patterns.items():
        if target is not None and (
            isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target < math.inf
        ):
            whose = f"the {called} of {pattern}" if isinstance(targets, Mapping) else called
            raise InvalidValueError(whose, "a number above 0 or None", target)
    chosen, used = [], set()
    for layer in layers:
        matching = [p for p in patterns if fnmatchcase(layer.name, p)]
        if not matching:
            raise UnmatchedLayerError(layer.name, called)
        used.add(matching[0])
        target = patterns[matching[0]]
        if target is None:
            continue
        if not layer.places:
            raise UnreadableWeightError(layer.name, called)
        for use in layer.uses:
            for scale in use.scales:
                if isinstance(scale, Unreadable):
                    raise UnreadableScaleError(scale.name, layer.name, called)
        chosen.append((layer, float(target)))
    idle = [p for p in patterns if p not in used and not (p == "*" and isinstance(targets, Mapping))]
    if idle:
        raise UnusedPatternError(idle[0], (layer.name for layer in layers))
    if not chosen:
        raise UsageError(f"every layer is left out: give at least one a {called}")
    return chosen


def _absorbed(captured: Graph, recognised: Graph) -> dict[str, str]:
    """The names of constants that the recognised graph shows in more or fewer places than the captured one, and where they are read."""
    counts = [Counter(name for _, name in _constants(graph)) for graph in (captured, recognised)]
    return {name: label(node) for node, name in _constants(captured) if counts[0][name] != counts[1][name]}


def _constants(graph: Graph) -> Iterator[tuple[Node, str]]:
    """Every node with each name of each constant among its arguments."""
    for node in graph:
        for constant in parts(tuple(node.arguments.values()), Constant):
            yield from ((node, name) for name in constant.names)


def _graph(model: nn.Module, input_shape: InputShape) -> Graph:
    if not isinstance(input_shape, Sequence | Mapping) or isinstance(input_shape, str):
        shapes = "C x H x W, a full shape with a batch axis of 1, or one such shape per name"
        raise InvalidValueError("input_shape", shapes, input_shape)
    shapes = input_shape if isinstance(input_shape, Mapping) else {"": input_shape}
    with exit_is_an_error(model):
        loaded = wrap_module(model, {name: tuple(shape) for name, shape in shapes.items()})
        place = next((p.device for p in model.parameters()), torch.device("cpu"))
        return graph_of(model, zero_inputs(loaded, place))


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


def _places(model: nn.Module, names: Sequence[str], node: Node) -> tuple[tuple[Place, ...], bool]:
    """Every place of the weight of a node, none if it is computed in a way that cannot be repeated; whether it is kept transposed."""
    weight = node.payload.weight
    places = places_of(model, names, weight)
    if places or weight.dim() != 2:
        return places, False
    return places_of(model, names, weight, torch.t), True


def _use(node: Node, flipped: bool, rows: Sequence[Scale], columns: Sequence[Scale]) -> Use:
    if node.op == CONVOLUTION:
        return Use(Geometry.of(node.payload), False, tuple(rows), tuple(columns))
    weight = node.payload.weight
    if node.get("weight") is None and weight.shape == weight.T.shape and torch.equal(weight, weight.T):
        # x @ W or x @ W.T, and nothing shows which
        rows, columns = ([Unreadable(scale.name) for scale in scales] for scales in (rows, columns))
    return Use(None, flipped, tuple(rows), tuple(columns))


def _name(places: Sequence[Place], node: Node, names: Sequence[str]) -> str:
    if not places:
        return node.module or names[0]
    path, attribute = places[0]
    return path if path and attribute == "weight" else f"{path}.{attribute}".removeprefix(".")
