"""Evaluation of nodes that do not depend on the network's input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx

from lipaudit.frontends.onnx.operators import NodeView, UnsupportedOperatorError, Value, find_converter
from lipaudit.frontends.onnx.reference import reference_evaluator

Array: TypeAlias = np.ndarray[Any, Any]

SHAPE_ONLY = {"Shape", "Size", "EyeLike"}
_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


def is_random(node: onnx.NodeProto) -> bool:
    """Whether two runs of the operator differ."""
    return node.op_type in _RANDOM


def evaluate(node: NodeView, opsets: Mapping[str, int]) -> list[Array]:
    """The outputs of a node whose inputs are all constant.

    By the converter of the operator where there is one (it knows the operator at every opset), else by ONNX's reference.
    """
    convert = find_converter(node.proto)
    if convert is not None and node.operands and node.operands[0] is not None:
        first = node.operands[0]
        view = NodeView(node.proto, node.opset, (Value(first.name, example=first.tensor), *node.operands[1:]))
        try:
            result = convert(view)(first.tensor)
        except UnsupportedOperatorError:
            return _reference(node, opsets)
        return [tensor.numpy() for tensor in (result if isinstance(result, tuple) else (result,))]
    return _reference(node, opsets)


def _reference(node: NodeView, opsets: Mapping[str, int]) -> list[Array]:
    feeds = {
        name: value.constant
        for name, value in zip(node.proto.input, node.operands, strict=True)
        if value is not None and value.constant is not None
    }
    try:
        with np.errstate(all="ignore"):
            results = reference_evaluator(node.proto, opsets).run(None, feeds)
    except Exception as error:
        node.fail(f"it is constant but ONNX's reference implementation cannot evaluate it ({error})")
    return [np.asarray(result) for result in results]


def shape_constant(node: NodeView) -> Array:
    """The value of an operator that reads only the shape of its input: a constant, because every shape is static.

    Shape (from ``start`` to ``end``), Size, and EyeLike (ones on the diagonal ``k`` of a zero matrix).
    """
    shape = node.shape()
    if node.op == "Size":
        return np.asarray(int(np.prod(shape)), dtype=np.int64)
    if node.op == "EyeLike":
        kind: Any = np.float32  # instead of the input's, where it is not stated: torch promotes
        if node.attr("dtype") is not None:
            kind = onnx.helper.tensor_dtype_to_np_dtype(node.attr("dtype"))
        return np.eye(shape[0], shape[1], k=int(node.attr("k", 0)), dtype=kind)
    return np.asarray(shape[node.attr("start", 0) : node.attr("end", len(shape))], dtype=np.int64)
