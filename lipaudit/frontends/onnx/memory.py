"""The memory of an ONNX graph, counted before anything is computed: node by node by ONNX's own shape inference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from lipaudit.frontends.memory import require
from lipaudit.frontends.onnx.operators import NodeView, Value, to_numpy

# What one byte of values costs an audit: they are compared with the judge's in float64, and the graph is run again in both precisions
COPIES = 6
# constants with more entries than this tell shape inference no shape
_SHORT = 64


class Room:
    """Counts the values that a walk over the graph holds, and refuses a node before it computes what is not allowed.

    ``samples`` is how often the file computes them at once.
    """

    def __init__(self, opsets: Mapping[str, int], samples: int = 1) -> None:
        self._imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        self._samples = samples
        self._held: dict[str, int] = {}
        self._total = 0

    def expect(self, view: NodeView) -> None:
        """Raise :class:`~lipaudit.errors.ModelLoadError` if the node's outputs do not fit beside what is held."""
        size = self._predicted(view)
        samples = f" for a batch of {self._samples}" if self._samples > 1 else ""
        require(COPIES * self._samples * (self._total + size), f"what the ONNX operator {view.label} computes{samples}")

    def hold(self, name: str, value: Value) -> None:
        """Count the value."""
        self._held[name] = _bytes(value)
        self._total += self._held[name]

    def release(self, name: str) -> None:
        """Count the value no more."""
        self._total -= self._held.pop(name, 0)

    def _predicted(self, view: NodeView) -> int:
        """The bytes of the node's outputs, as far as ONNX can tell: 0 for what it cannot."""
        types, constants = {}, {}
        for name, value in zip(view.proto.input, view.operands, strict=True):
            if value is None:
                continue
            types[name] = helper.make_tensor_type_proto(_element(value), value.shape)
            if value.constant is not None and value.constant.size <= _SHORT:
                constants[name] = numpy_helper.from_array(value.constant, name)
        try:
            schema = onnx.defs.get_schema(view.proto.op_type, view.opset, view.proto.domain)
            outputs = shape_inference.infer_node_outputs(
                schema, view.proto, types, constants, opset_imports=self._imports, ir_version=10
            )
        except Exception:  # no schema, a subgraph, a use that the converter refuses: there is nothing to count
            return 0
        return sum(map(_announced, outputs.values())) + _resizing(view, outputs)


def _element(value: Value) -> int:
    """The ONNX type of a value's entries."""
    array = value.constant if value.example is None else to_numpy(value.example.reshape(-1)[:0])
    assert array is not None
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def _bytes(value: Value) -> int:
    if value.constant is not None:
        return int(value.constant.nbytes)
    return int(value.example.nbytes) if value.example is not None else 0


def _announced(kind: onnx.TypeProto) -> int:
    """The bytes of a tensor of that type, 0 where a size is not known."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return 0
    sizes = [d.dim_value if d.HasField("dim_value") else 0 for d in kind.tensor_type.shape.dim]
    return math.prod(sizes) * np.dtype(helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)).itemsize


def _resizing(view: NodeView, outputs: Mapping[str, Any]) -> int:
    """The matrices by which Resize maps its axes, in float64."""
    if view.op not in ("Resize", "Upsample"):
        return 0
    (kind,) = outputs.values()
    sizes = [d.dim_value for d in kind.tensor_type.shape.dim]
    return sum(8 * a * b for a, b in zip(view.shape(), sizes, strict=True) if a != b)
