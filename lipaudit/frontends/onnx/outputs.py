"""The outputs of an ONNX graph that can have a Lipschitz constant: labels are left out, maps from labels to numbers are the numbers."""

from __future__ import annotations

import onnx

_REAL = {
    onnx.TensorProto.FLOAT,
    onnx.TensorProto.DOUBLE,
    onnx.TensorProto.FLOAT16,
    onnx.TensorProto.BFLOAT16,
    onnx.TensorProto.UNDEFINED,
}


def real_outputs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """The model with its real outputs and the nodes that they need, and a sentence on each output that is not as the file has it.

    A map from class labels to numbers (ZipMap of ai.onnx.ml) becomes the tensor of these numbers. Outputs of integers, booleans and text
    (labels) jump from value to value; they are left out where the file has real outputs beside them. A model without either comes
    back as it is.
    """
    maps = {n.output[0]: n.input[0] for n in model.graph.node if (n.domain, n.op_type) == ("ai.onnx.ml", "ZipMap")}
    labels = [output for output in model.graph.output if output.name not in maps and not _is_real(output)]
    if len(labels) == len(model.graph.output):
        labels = []
    notes = [
        f"The output {output.name!r} maps labels to the numbers {maps[output.name]!r}; these are audited."
        for output in model.graph.output
        if output.name in maps
    ]
    notes += [
        f"The output {output.name!r} holds no real numbers ({_element(output)}): labels jump and have no Lipschitz constant. It "
        "is left out, the bounds are those of the real outputs."
        for output in labels
    ]
    if not notes:
        return model, []
    result: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    kept = [output for output in result.graph.output if output.name not in {label.name for label in labels}]
    del result.graph.output[:]
    result.graph.output.extend(
        onnx.ValueInfoProto(name=maps[output.name]) if output.name in maps else output for output in kept
    )
    _keep_needed(result.graph)
    return result, notes


def _is_real(output: onnx.ValueInfoProto) -> bool:
    return not output.type.HasField("tensor_type") or output.type.tensor_type.elem_type in _REAL


def _element(output: onnx.ValueInfoProto) -> str:
    return str(onnx.TensorProto.DataType.Name(output.type.tensor_type.elem_type)).lower()


def _keep_needed(graph: onnx.GraphProto) -> None:
    """Remove the nodes and initialisers that no output depends on."""
    needed = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= _read(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    tensors = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.initializer[:]
    graph.initializer.extend(tensors)


def _read(node: onnx.NodeProto) -> set[str]:
    """What a node reads, also inside its subgraphs (their own names among them do no harm)."""
    names = set(node.input)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            names |= {output.name for output in graph.output}
            names |= {name for inner in graph.node for name in _read(inner)}
    return names
