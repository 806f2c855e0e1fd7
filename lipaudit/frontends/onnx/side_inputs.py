"""Integer inputs that were given no value: whether the bound is the same for every value.

It is where such an input only ever adds a constant: y = 2 x + E[kind] has the constant 2 in x for every kind. What is computed from the
integer inputs alone, their *offset*, may be added to a value that the network computes linearly, or concatenated with values. Behind that
only operations may follow of one operand, whose constants depend on no size of it, one after the other. Everything else, such as a branch,
a product, or a mask of attention, needs the value.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

# computed from offsets and constants alone; the first operand may be an offset, or each of them
_FIRST = {
    *(
        "Gather",
        "GatherElements",
        "Cast",
        "Unsqueeze",
        "Squeeze",
        "Reshape",
        "Transpose",
        "Flatten",
        "Expand",
        "Slice",
        "Identity",
    ),
    *(
        "ReduceSum",
        "ReduceMean",
        "OneHot",
        "Relu",
        "Sigmoid",
        "Tanh",
        "Neg",
        "Abs",
        "LayerNormalization",
        "BatchNormalization",
    ),
}
_EACH = {
    "Add",
    "Sub",
    "Mul",
    "MatMul",
    "Gemm",
    "Concat",
    "Where",
    "Equal",
    "Less",
    "Greater",
    "And",
    "Or",
    "Not",
    "Max",
    "Min",
}
_TABLE = {"Gather", "GatherElements"}  # of the table, the second operand says which entries
_LINEAR = {
    "Gemm",
    "MatMul",
    "Conv",
    "ConvTranspose",
    "BatchNormalization",
    "GlobalAveragePool",
    "AveragePool",
    "ReduceMean",
    "ReduceSum",
}
_BY_CONSTANTS = {"Add", "Sub", "Mul", "Div"}
_SHAPES = {"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Dropout"}
_BEHIND = {
    *_LINEAR,
    *_SHAPES,
    *(
        "Relu",
        "LeakyRelu",
        "PRelu",
        "Elu",
        "Selu",
        "Celu",
        "Sigmoid",
        "Tanh",
        "Softplus",
        "Softsign",
        "Clip",
        "MaxPool",
    ),
    *("GlobalMaxPool", "Softmax", "LogSoftmax", "Slice", "Pad"),
    *_BY_CONSTANTS,
}


def needs_value(graph: onnx.GraphProto, unheld: Iterable[str], inputs: Iterable[str]) -> str:
    """The node for which the value of an ``unheld`` input matters, in words; empty where the bound is the same for every value.

    ``inputs`` are the floating-point inputs. The graph's nodes are in order, as the standard has it.
    """
    offsets, data, linear, moved = set(unheld), set(inputs), set(inputs), set[str]()
    for node in graph.node:
        read = [name for name in node.input if name]
        reads_offset, reads_data = [n for n in read if n in offsets], [n for n in read if n in data]
        label = f"{node.op_type} ({node.name or (node.output[0] if node.output else '')!r})"
        nested = any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)
        if nested and (offsets or moved):
            return label
        if reads_offset and not reads_data:
            if not _is_offset(node, offsets):
                return label
            offsets.update(node.output)
        elif reads_offset:
            added = node.op_type in ("Add", "Sub") and len(reads_data) == 1 and reads_data[0] in linear
            if not (added or node.op_type == "Concat") or moved.intersection(reads_data):
                return label
            moved.update(node.output)
            data.update(node.output)
        elif reads_data:
            if moved.intersection(reads_data):
                if node.op_type not in _BEHIND or len(reads_data) != 1 or reads_data[0] != node.input[0]:
                    return label
                moved.update(node.output)
            kept = node.op_type in _SHAPES or (node.op_type in _BY_CONSTANTS and len(reads_data) == 1)
            if node.op_type in _LINEAR or (kept and linear.issuperset(reads_data)):
                linear.update(node.output)
            data.update(node.output)
    return ""


def _is_offset(node: onnx.NodeProto, offsets: set[str]) -> bool:
    """Whether what a node computes from offsets has a shape that does not depend on their values."""
    if node.domain not in ("", "ai.onnx"):
        return False
    places = [i for i, name in enumerate(node.input) if name in offsets]
    if node.op_type in _TABLE:
        return all(place < 2 for place in places)
    return node.op_type in _EACH or (node.op_type in _FIRST and places == [0])
