"""An ONNX graph as a torch module: one child per node that computes something of the input.

The walk over the graph carries an example of every tensor, so that shapes are known and whatever depends on shapes or
weights alone is folded into constants on the way. Batch normalisations stay nodes of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.onnx.constant_folding import SHAPE_ONLY, evaluate, is_random, shape_constant
from lipaudit.frontends.onnx.fallback import fallback_converter
from lipaudit.frontends.onnx.memory import Room
from lipaudit.frontends.onnx.module_paths import module_path
from lipaudit.frontends.onnx.operators import (
    NodeView,
    Value,
    find_converter,
    first_line,
    operator_name,
    standard_domain,
    to_numpy,
)
from lipaudit.option_names import spell


@dataclass(frozen=True)
class Step:
    """Call the child ``module`` on named values, name its outputs, forget values that nothing reads any more."""

    module: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    release: tuple[str, ...] = ()


class OnnxNetwork(nn.Module):
    """Runs its steps in order. Takes the graph's inputs and returns its outputs (a tuple where there are several).

    ``node_names`` maps the children to the names of the ONNX nodes, ``module_paths`` to the modules of torch that they came from.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.node_names: dict[str, str] = {}
        self.module_paths: dict[str, str] = {}

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Evaluate the graph."""
        values = dict(zip(self.inputs, inputs, strict=True))
        for step in self.steps:
            result = self.get_submodule(step.module)(*(values[name] for name in step.inputs))
            results = result if isinstance(result, tuple) else (result,)
            values.update(zip(step.outputs, results, strict=False))
            for name in step.release:
                values.pop(name, None)
        outputs = tuple(values[name] if name in values else getattr(self, name) for name in self.outputs)
        return outputs[0] if len(outputs) == 1 else outputs


@dataclass(eq=False)
class _Builder:
    opsets: dict[str, int]
    needed: set[str]
    room: Room
    network: OnnxNetwork = field(default_factory=OnnxNetwork)
    values: dict[str, Value] = field(default_factory=dict)
    initializers: set[str] = field(default_factory=set)

    def add_graph(self, graph: onnx.GraphProto, due: Mapping[int, list[str]] | None = None) -> None:
        for initializer in graph.initializer:
            self.values[initializer.name] = Value(initializer.name, constant=_array(initializer))
            self.initializers.add(initializer.name)
        if graph.sparse_initializer:
            raise ModelLoadError("the ONNX graph has sparse initialisers, which are not supported: store them dense")
        for index, node in enumerate(graph.node):
            self.add_node(node)
            for name in node.output:
                if name in self.values:
                    self.room.hold(name, self.values[name])
            for name in (due or {}).get(index, ()):
                self.room.release(name)
                self.values.pop(name, None)

    def add_all(self, graph: onnx.GraphProto) -> None:
        """The whole graph; a value is dropped once nothing later reads it."""
        last = {name: index for index, node in enumerate(graph.node) for name in (*node.output, *_read_by(node))}
        last.update((output.name, len(graph.node)) for output in graph.output)
        due: dict[int, list[str]] = {}
        for name, index in last.items():
            due.setdefault(index, []).append(name)
        self.add_graph(graph, due)

    def add_node(self, proto: onnx.NodeProto) -> None:
        operator = operator_name(proto)
        view = NodeView(proto, self.opsets.get(standard_domain(proto.domain), 0), tuple(self._operands(proto)))
        data = [v for v in view.operands if v is not None and v.constant is None]
        self.room.expect(view)
        if operator in SHAPE_ONLY:
            self.values[proto.output[0]] = Value(proto.output[0], constant=shape_constant(view))
        elif operator == "If":
            self._inline_branch(view)
        elif is_random(proto):
            view.fail("its output is random, so that the network is not a function of its input")
        elif not data and not _outer_names(proto):
            for name, array in zip(proto.output, evaluate(view, self.opsets), strict=False):
                self.values[name] = Value(name, constant=array)
        elif operator in ("Identity", "Dropout"):
            self._pass_on(view)
        else:
            self._convert(view, data)

    def _operands(self, proto: onnx.NodeProto) -> Iterable[Value | None]:
        for name in proto.input:
            if name and name not in self.values:
                raise ModelLoadError(
                    f"the ONNX node {proto.name or proto.op_type!r} reads {name!r}, which nothing before it computes: the "
                    "file is damaged or not sorted"
                )
            yield self.values[name] if name else None

    def _pass_on(self, view: NodeView) -> None:
        """Identity, and dropout as evaluation runs it."""
        if view.op == "Dropout" and view.has(2) and bool(view.constant(2).any()):
            view.fail("dropout is in training mode; export the model in evaluation mode")
        if any(name in self.needed for name in view.proto.output[1:]):
            view.fail("the mask of dropout is used")
        self.values[view.proto.output[0]] = view.value(0)

    def _inline_branch(self, view: NodeView) -> None:
        if not view.is_constant(0):
            view.fail("its condition depends on the network's input")
        branch = view.attr("then_branch" if bool(view.constant(0).item()) else "else_branch")
        self.add_graph(branch)
        for name, inner in zip(view.proto.output, branch.output, strict=True):
            self.values[name] = self.values[inner.name]

    def _convert(self, view: NodeView, data: list[Value]) -> None:
        convert = find_converter(view.proto) or fallback_converter(view)
        try:
            module = convert(view).eval()
        except (RuntimeError, ValueError, IndexError, KeyError, TypeError) as error:
            view.fail(f"its inputs and attributes do not fit together ({first_line(error)})")
        name = _child_name(self.network, view.proto)
        self.network.add_module(name, module)
        self.network.node_names[name] = view.proto.name or view.proto.output[0]
        weights = [v.name for v in view.operands if v is not None and v.name in self.initializers]
        if (path := module_path(view.proto, weights)) is not None:
            self.network.module_paths[name] = path
        outputs = tuple(view.proto.output)
        try:
            result = module(*(v.example for v in data))
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            shapes = ", ".join(str(list(v.shape)) for v in data)
            raise ModelLoadError(
                f"the ONNX operator {view.label} does not accept its inputs of shape {shapes}: {first_line(error)}; "
                f"check {spell('input_shape')}"
            ) from error
        results = result if isinstance(result, tuple) else (result,)
        computed = {o for o, tensor in zip(outputs, results, strict=False) if tensor is not None}
        missing = [o for o in outputs if o in self.needed - computed - {""}]
        if missing:
            view.fail(f"its output {missing[0]!r} is used, which the conversion does not compute")
        for output, tensor in zip(outputs, results, strict=False):
            if output in computed:
                self.values[output] = Value(output, example=tensor)
        self.network.steps.append(Step(name, tuple(v.name for v in data), outputs))


def build_network(
    model: onnx.ModelProto,
    examples: Mapping[str, torch.Tensor],
    held: Mapping[str, torch.Tensor] | None = None,
    batch: int = 1,
) -> OnnxNetwork:
    """The network of an ONNX model.

    ``examples`` holds one tensor per graph input that is not ``held``; their shapes are the only ones that the result accepts.
    ``batch`` is how many samples the file computes at once.
    Raises :class:`~lipaudit.frontends.onnx.operators.UnsupportedOperatorError` naming the operator and the node.
    """
    graph = model.graph
    opsets = {standard_domain(o.domain): o.version for o in model.opset_import}
    builder = _Builder(opsets, _read_names(graph), Room(opsets, batch))
    for name, example in examples.items():
        builder.values[name] = Value(name, example=example)
        builder.room.hold(name, builder.values[name])
    for name, tensor in (held or {}).items():
        builder.values[name] = Value(name, constant=to_numpy(tensor))
    with torch.no_grad():
        builder.add_all(graph)
    network = builder.network
    network.inputs = list(examples)
    for output in graph.output:
        value = builder.values.get(output.name)
        if value is None:
            raise ModelLoadError(f"nothing in the ONNX graph computes its output {output.name!r}: the file is damaged")
        if value.constant is not None:
            name = f"constant_output_{len(network.outputs)}"
            network.register_buffer(name, value.tensor)
            network.outputs.append(name)
        else:
            network.outputs.append(value.name)
    network.steps = _with_releases(network.steps, set(network.outputs))
    return network.eval()


def _with_releases(steps: list[Step], kept: set[str]) -> list[Step]:
    seen = set(kept)
    result = []
    for step in reversed(steps):
        free = tuple(n for n in dict.fromkeys((*step.inputs, *step.outputs)) if n and n not in seen)
        seen.update(step.inputs)
        result.append(Step(step.module, step.inputs, step.outputs, free))
    return result[::-1]


def _read_names(graph: onnx.GraphProto) -> set[str]:
    names = {output.name for output in graph.output}
    return names.union(*(_read_by(node) for node in graph.node))


def _read_by(node: onnx.NodeProto) -> set[str]:
    """What a node reads, its subgraphs included."""
    graphs = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return set(node.input).union(*map(_read_names, graphs))


def _outer_names(proto: onnx.NodeProto) -> bool:
    """Whether the node holds subgraphs, which may read values from outside."""
    return any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in proto.attribute)


def _array(initializer: onnx.TensorProto) -> np.ndarray[Any, Any]:
    try:
        return numpy_helper.to_array(initializer)
    except (ValueError, TypeError, KeyError) as error:
        raise ModelLoadError(
            f"the ONNX initialiser {initializer.name!r} cannot be read ({error}): the file is truncated"
        ) from error


def _child_name(network: nn.Module, proto: onnx.NodeProto) -> str:
    base = (proto.name or proto.op_type).strip("/").replace(".", "_") or proto.op_type
    name, count = base, 1
    while hasattr(network, name):
        name, count = f"{base}_{count}", count + 1
    return name
