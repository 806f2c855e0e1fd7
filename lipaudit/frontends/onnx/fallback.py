"""Operators without a converter here go to onnx2torch, one node at a time, with static shapes and folded constants."""

from __future__ import annotations

from typing import Any

import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn

from lipaudit.frontends.onnx.operators import Converter, NodeView


class _Ordered(nn.Module):
    """Calls a module with the data-dependent inputs that it takes, in its own order, and with constants."""

    def __init__(self, module: nn.Module, order: list[int | torch.Tensor]) -> None:
        super().__init__()
        self.module = module
        self._slots: list[int | str] = []
        for index, slot in enumerate(order):
            if isinstance(slot, torch.Tensor):
                self.register_buffer(f"operand_{index}", slot)
                self._slots.append(f"operand_{index}")
            else:
                self._slots.append(slot)

    def forward(self, *data: torch.Tensor) -> Any:
        """Call the wrapped module."""
        return self.module(*(getattr(self, s) if isinstance(s, str) else data[s] for s in self._slots))


def fallback_converter(node: NodeView) -> Converter:
    """Onnx2torch's converter for the node's operator at its opset; an operator unknown to it is refused by name."""
    from onnx2torch.node_converters import get_converter

    try:
        convert = get_converter(node.op, node.opset, node.proto.domain or onnx.defs.ONNX_DOMAIN)
    except NotImplementedError:
        node.fail(
            "no conversion is known for this operator; simplify the model or export it without the operator, or audit the "
            "PyTorch model itself"
        )

    def build(view: NodeView) -> nn.Module:
        from onnx2torch.onnx_graph import OnnxGraph

        data = [
            name
            for name, v in zip(view.proto.input, view.operands, strict=True)
            if v is not None and v.constant is None
        ]
        graph = OnnxGraph(_single_node_graph(view))
        try:
            result = convert(next(iter(graph.nodes.values())), graph)
        except (NotImplementedError, KeyError, ValueError, RuntimeError) as error:
            view.fail(f"this use of the operator is not supported ({error})")
        constants = {v.name: v.tensor for v in view.operands if v is not None and v.constant is not None}
        aliases = {n: v.name for n, v in zip(view.proto.input, view.operands, strict=True) if v is not None}
        order = [
            data.index(name) if name in data else constants[aliases[name]]
            for name in result.onnx_mapping.inputs
            if name
        ]
        return _Ordered(result.torch_module, order)

    return build


def _single_node_graph(view: NodeView) -> onnx.GraphProto:
    inputs, initializers = [], []
    for name, value in zip(view.proto.input, view.operands, strict=True):
        if value is None:
            continue
        if value.constant is not None:
            initializers.append(numpy_helper.from_array(value.constant, name))
        else:
            assert value.example is not None
            element = helper.np_dtype_to_tensor_dtype(value.example.numpy().dtype)
            inputs.append(helper.make_tensor_value_info(name, element, value.shape))
    outputs = [helper.make_empty_tensor_value_info(name) for name in view.proto.output]
    return helper.make_graph([view.proto], "node", inputs, outputs, initializers)
