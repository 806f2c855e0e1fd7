"""ONNX files: read, converted node by node to torch, compared with a reference implementation before anything is audited."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import torch

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.files import sha256
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.onnx import elementwise, layers, movement, pooling, resize  # noqa: F401  (they register converters)
from lipaudit.frontends.onnx.file import read_model
from lipaudit.frontends.onnx.inputs import graph_inputs, resolve_inputs
from lipaudit.frontends.onnx.network import build_network
from lipaudit.frontends.onnx.operators import find_converter
from lipaudit.frontends.onnx.parity import check_parity
from lipaudit.frontends.shapes import Shape

_OLDEST_OPSET, _CONVERSION_OPSET = 9, 13


def load_onnx(path: Path, *, spec: str, input_shapes: Mapping[str, Shape] | None = None) -> LoadedModel:
    """Load an ONNX file of opset 9 or later (earlier ones are converted up first).

    The result is checked against onnxruntime, or ONNX's reference implementation, on random inputs.
    Raises :class:`~lipaudit.errors.ModelLoadError` with the node's name for what cannot be converted and
    :class:`~lipaudit.errors.UsageError` for sizes that are missing or contradict the file.
    """
    try:
        return _load(path, spec, input_shapes)
    except ModelLoadError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


def _load(path: Path, spec: str, requested: Mapping[str, Shape] | None) -> LoadedModel:
    original = read_model(path)
    inputs = graph_inputs(original)
    shapes = resolve_inputs(inputs, requested)
    model = _prepare(original)
    generator = torch.Generator().manual_seed(0)
    examples = {
        i.name: torch.randn(shapes[i.name], generator=generator, dtype=torch.float32).to(i.dtype) for i in inputs
    }
    module, node_names = build_network(model, examples)
    judge = check_parity(module, path, original, inputs, shapes)
    notes = [f"The conversion from ONNX agrees with {judge} on random inputs to 1e-4 of the output."]
    if any(i.batch > 1 for i in inputs):
        notes.append(
            f"The file fixes a batch of {max(i.batch for i in inputs)}; one sample is audited, each row was compared."
        )
    return LoadedModel(
        module=module,
        spec=spec,
        source="onnx",
        input_shapes=shapes,
        input_dtypes={i.name: i.dtype for i in inputs},
        weights=path.name,
        file_sha256=sha256(path),
        node_names=node_names,
        output_names=tuple(o.name for o in original.graph.output),
        notes=tuple(notes),
    )


def _prepare(model: onnx.ModelProto) -> onnx.ModelProto:
    """Convert old opsets up, inline local functions and those standard operators that are known only by their definition."""
    from onnx import inliner, version_converter

    if model.functions:
        model = inliner.inline_local_functions(model)
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    if 0 < opset < _OLDEST_OPSET:
        try:
            model = version_converter.convert_version(model, _CONVERSION_OPSET)
        except RuntimeError as error:
            raise ModelLoadError(f"opset {opset} cannot be converted to opset {_CONVERSION_OPSET}: {error}") from error
    defined = [n for n in model.graph.node if find_converter(n) is None and _has_definition(n, opset)]
    if not defined:
        return model
    identities = sorted({(n.domain, n.op_type) for n in defined})
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for node in model.graph.node:
        if (node.domain, node.op_type) in identities:
            _write_defaults(node, opset)
    return inliner.inline_selected_functions(model, identities, inline_schema_functions=True)


def _write_defaults(node: onnx.NodeProto, opset: int) -> None:
    """Write the attributes that are left to their defaults: inlining forgets those."""
    present = {attribute.name for attribute in node.attribute}
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    for name, attribute in schema.attributes.items():
        if name not in present and attribute.default_value.type:
            node.attribute.append(attribute.default_value)


def _has_definition(node: onnx.NodeProto, opset: int) -> bool:
    """Whether the standard defines the operator by others. Range is left whole: it is always constant, its body a loop."""
    if node.domain not in ("", "ai.onnx") or node.op_type == "Range" or not onnx.defs.has(node.op_type):
        return False
    schema: Any = onnx.defs.get_schema(node.op_type, opset, "")
    return bool(schema.has_function or schema.has_context_dependent_function)
