"""Evaluation of nodes that do not depend on the network's input, by ONNX's own reference implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from lipaudit.frontends.onnx.operators import NodeView

_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


def is_random(node: onnx.NodeProto) -> bool:
    """Whether two runs of the operator differ."""
    return node.op_type in _RANDOM


def evaluate(node: NodeView, opsets: Mapping[str, int]) -> list[np.ndarray[Any, Any]]:
    """The outputs of a node whose inputs are all constant."""
    feeds = {
        name: value.constant
        for name, value in zip(node.proto.input, node.operands, strict=True)
        if value is not None and value.constant is not None
    }
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(node.proto, opsets=dict(opsets)).run(None, feeds)
    except Exception as error:
        node.fail(f"it is constant but ONNX's reference implementation cannot evaluate it ({error})")
    return [np.asarray(result) for result in results]


def shape_constant(node: NodeView) -> np.ndarray[Any, Any]:
    """The value of Shape (from ``start`` to ``end``) or Size: a constant, because every shape is static."""
    shape = node.shape()
    if node.op == "Size":
        return np.asarray(int(np.prod(shape)), dtype=np.int64)
    return np.asarray(shape[node.attr("start", 0) : node.attr("end", len(shape))], dtype=np.int64)
