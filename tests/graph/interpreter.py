"""Runs a captured or simplified graph on real tensors: what its nodes say, without biases where a node carries a payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from lipaudit.graph.arguments import call, overload
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE, Dense, Scale
from lipaudit.graph.node import Constant, Graph, Node, Ref
from lipaudit.spectral.geometry import Convolution

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


def run(graph: Graph, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The graph's outputs; every value must have the shape and dtype that its node announces."""
    values: dict[str, Any] = {}
    for node in graph:
        value = inputs[node.name] if node.op == "input" else _evaluate(node, values)
        values[node.name] = value
        tensors = value if isinstance(value, list | tuple) else (value,)
        announced = [(o.shape, o.dtype) for o in node.outputs]
        assert [(tuple(t.shape), t.dtype) for t in tensors] == announced, (node.name, node.op, announced)
    return [_first(values[name]) for name in graph.outputs]


def _first(value: Any) -> Any:
    """A multi-output node that is read without ``getitem`` is a batch norm: its first output is meant."""
    return value[0] if isinstance(value, list | tuple) else value


def _evaluate(node: Node, values: Mapping[str, Any]) -> Any:
    if node.op == "getitem":
        source, index = node["self"], node["index"]
        assert isinstance(source, Ref)
        assert isinstance(index, int)
        return values[source.name][index]
    if node.payload is not None:
        (source,) = node.refs
        return _linear(node, _first(values[source.name]))

    def filled(argument: Any) -> Any:
        if isinstance(argument, Ref):
            value = _first(values[argument.name])
            assert tuple(value.shape) == argument.info.shape, node.name
            return value
        if isinstance(argument, Constant):
            return argument.value
        return [filled(part) for part in argument] if isinstance(argument, tuple) else argument

    return call(overload(node.op), {k: filled(v) for k, v in node.arguments.items()})


def _linear(node: Node, x: torch.Tensor) -> torch.Tensor:
    match node.op, node.payload:
        case "lipaudit.scale", Scale(factor=factor, axis=axis):
            shape = [1] * x.dim()
            shape[axis] = -1
            return x * factor.reshape(shape)
        case "lipaudit.dense", Dense(weight=weight):
            return x @ weight.T
        case "lipaudit.convolution", Convolution() as convolution:
            return _convolve(convolution, x)
    raise AssertionError((node.op, node.payload))


def _convolve(c: Convolution, x: torch.Tensor) -> torch.Tensor:
    d = c.kernel.dim() - 2
    assert tuple(x.shape[2:]) == c.input_size
    if c.transposed:
        assert all(left == right for left, right in c.padding)
        padding = [left for left, _ in c.padding]
        return _TRANSPOSED[d](x, c.kernel, None, c.stride, padding, c.output_padding, c.groups, c.dilation)
    widths = [side for pair in reversed(c.padding) for side in pair]
    mode = "constant" if c.padding_mode == "zeros" else c.padding_mode
    padded = functional.pad(x, widths, mode=mode) if any(widths) else x
    return _CONV[d](padded, c.kernel, None, c.stride, 0, c.dilation, c.groups)


def ops(graph: Graph) -> list[str]:
    """The operations of a graph without its inputs, in order."""
    return [n.op for n in graph if n.op != "input"]


def count(graph: Graph, op: str) -> int:
    return ops(graph).count(op)


__all__ = ["CONVOLUTION", "DENSE", "SCALE", "count", "ops", "run"]
