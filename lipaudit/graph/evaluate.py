"""Evaluation of a captured or recognised graph, node by node.

With ``dtype=torch.float64`` the graph is evaluated in that precision: inputs, constants and casts inside the graph
that are of another floating dtype move to it (complex ones to the complex dtype of the same precision). Integers and
booleans stay. This is the real-arithmetic function of the stored weights up to the rounding of float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from lipaudit.errors import GraphError
from lipaudit.graph.arguments import call, overload, precision
from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref

_VIEWS = {"aten.view.default", "aten._unsafe_view.default"}

Value: TypeAlias = torch.Tensor | tuple[torch.Tensor, ...]


def interpret(
    graph: Graph,
    inputs: Mapping[str, torch.Tensor],
    wanted: Iterable[str] | None = None,
    dtype: torch.dtype | None = None,
    then: Callable[[Node, torch.Tensor], torch.Tensor] | None = None,
) -> dict[str, Value]:
    """The values of the nodes named in ``wanted`` (default: the graph's outputs) for the given network inputs.

    Only what they depend on is evaluated, and a value is dropped after its last use. An operation with several outputs
    has a tuple for its value. What ``then`` makes of a single value takes its place.

    Raises:
        GraphError: if an input is missing, or a value has another shape than its node announces.
    """
    kept = dict.fromkeys(graph.outputs if wanted is None else wanted)
    needed, last_use = _plan(graph, kept)
    values: dict[str, Value] = {}
    for node in graph:
        if node.name not in needed:
            continue
        if node.op == "input":
            values[node.name] = _moved(_input(node, inputs), dtype)
        else:
            values[node.name] = evaluate(node, values, dtype)
        value = values[node.name]
        if then is not None and isinstance(value, torch.Tensor):
            values[node.name] = then(node, value)
        for name in last_use.get(node.name, ()):
            if name not in kept:
                del values[name]
    return {name: values[name] for name in kept}


def can_interpret(graph: Graph) -> bool:
    """Whether every operation can be evaluated: a subgraph, or what stands for layers that were not connected, cannot."""
    return all(_is_known(node) for node in graph)


def _is_known(node: Node) -> bool:
    if node.op in ("input", "getitem") or (node.payload is not None and hasattr(node.payload, "evaluate")):
        return True
    if node.op.count(".") != 2:
        return False
    try:
        overload(node.op)
    except AttributeError:
        return False
    return True


def evaluate(node: Node, values: Mapping[str, Value], dtype: torch.dtype | None = None) -> Value:
    """The value of one node, which is no network input, from the values of the nodes that it reads.

    >>> from lipaudit.graph.node import TensorInfo
    >>> info = TensorInfo((1, 2), torch.float32)
    >>> node = Node("relu", "aten.relu.default", {"self": Ref("x", info)}, (info,))
    >>> evaluate(node, {"x": torch.tensor([[-1.0, 2.0]])})
    tensor([[0., 2.]])
    """
    if node.op == "getitem":
        source, index = node["self"], node["index"]
        parts = values[source.name] if isinstance(source, Ref) else None
        if not isinstance(parts, tuple) or not isinstance(index, int):
            raise GraphError(f"node {node.name} takes an entry of what is no tuple of tensors")
        result: Any = parts[index]
    elif node.payload is not None:
        result = node.payload.evaluate(*(_tensor(ref, values) for ref in node.refs))
    elif node.op.count(".") == 2:
        arguments = {k: _filled(v, values, dtype) for k, v in node.arguments.items()}
        if node.op in _VIEWS:  # in the network these operands were laid out so that a view exists
            arguments["self"] = arguments["self"].contiguous()
        mask = arguments.get("attn_mask")
        if isinstance(mask, torch.Tensor) and mask.is_floating_point():
            arguments["attn_mask"] = mask.to(arguments["query"].dtype)  # a sum of biases is kept in float64
        result = call(overload(node.op), arguments)
    else:
        raise GraphError(f"node {node.name} ({node.op}) is no ATen operation, it cannot be evaluated")
    value: Value = tuple(result) if isinstance(result, list | tuple) else result
    shapes = tuple(tuple(t.shape) for t in (value if isinstance(value, tuple) else (value,)))
    if shapes != tuple(o.shape for o in node.outputs):
        raise GraphError(
            f"node {node.name} ({node.op}) gave shapes {shapes}, not {tuple(o.shape for o in node.outputs)}"
        )
    return value


def evaluate_together(nodes: Sequence[Node], sources: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The last of some nodes that compute one tensor from the ``sources``, in the dtype of the first of these."""
    known: dict[str, Value] = dict(sources)
    dtype = next(iter(sources.values())).dtype
    for node in nodes:
        known[node.name] = evaluate(node, known, dtype)
    result = known[nodes[-1].name]
    assert isinstance(result, torch.Tensor)
    return result


def _plan(graph: Graph, kept: Iterable[str]) -> tuple[set[str], dict[str, list[str]]]:
    """What has to be evaluated, and after each node the names of the values that nothing later reads."""
    needed, last_use = set(kept), dict[str, list[str]]()
    read: set[str] = set()
    for node in reversed(graph.nodes):
        if node.name not in needed:
            continue
        needed.update(ref.name for ref in node.refs)
        last_use[node.name] = [name for name in dict.fromkeys(ref.name for ref in node.refs) if name not in read]
        read.update(last_use[node.name])
    if unknown := needed - {node.name for node in graph}:
        raise GraphError(f"the graph has no nodes named {sorted(unknown)}")
    return needed, last_use


def _input(node: Node, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    if node.name not in inputs:
        raise GraphError(f"no value was given for the network input {node.name}")
    value = inputs[node.name]
    if tuple(value.shape) != node.output.shape:
        raise GraphError(f"the network input {node.name} has shape {node.output.shape}, not {tuple(value.shape)}")
    return value


def _tensor(ref: Ref, values: Mapping[str, Value]) -> torch.Tensor:
    value = values[ref.name]
    if isinstance(value, tuple):
        raise GraphError(f"{ref.name} has several outputs, and one of them is read without saying which")
    return value


def _filled(argument: Argument, values: Mapping[str, Value], dtype: torch.dtype | None) -> Any:
    if isinstance(argument, Ref):
        return _tensor(argument, values)
    if isinstance(argument, Constant):
        value = argument.value.detach()
        return value.to(argument.dtype) if dtype is None else _moved(value, dtype)
    if isinstance(argument, tuple):
        return [_filled(part, values, dtype) for part in argument]
    return precision(argument, dtype) if isinstance(argument, torch.dtype) else argument


def _moved(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(precision(tensor.dtype, dtype))
