"""Runs a captured or simplified graph on real tensors: what its nodes say, without biases where a layer was folded."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn import functional

from lipaudit.graph.evaluate import Value, evaluate
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE, Dense, Scale
from lipaudit.graph.node import Graph, Node
from lipaudit.spectral.convolution.geometry import Convolution

_CONV = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


def run(graph: Graph, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The graph's outputs; every value must have the shape and dtype that its node announces."""
    values: dict[str, Value] = {}
    for node in graph:
        if node.op == "input":
            value: Value = inputs[node.name]
        elif isinstance(node.payload, Dense | Scale | Convolution):
            (source,) = node.refs
            value = _linear(node, values[source.name])
        else:
            value = evaluate(node, values)
        values[node.name] = value
        tensors = value if isinstance(value, tuple) else (value,)
        announced = [(o.shape, o.dtype) for o in node.outputs]
        assert [(tuple(t.shape), t.dtype) for t in tensors] == announced, (node.name, node.op, announced)
    return [values[name] for name in graph.outputs]


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
