"""Reading an ONNX file without trusting it: truncation, external data inside the model's folder only, empty graphs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from lipaudit.errors import ModelLoadError

_EXTERNAL = onnx.TensorProto.EXTERNAL


def read_model(path: Path) -> onnx.ModelProto:
    """The model with its external data, which must lie in the model's own folder.

    Raises :class:`ModelLoadError` for a file that is not ONNX or is truncated, for missing, escaping or truncated external
    data, and for a graph without nodes.
    """
    try:
        model = onnx.load(path, load_external_data=False)
    except DecodeError as error:
        raise ModelLoadError(
            f"{path} is not an ONNX file or is truncated ({error}): fetch or export it again"
        ) from error
    if not model.HasField("graph") or not model.opset_import or model.ir_version <= 0:
        raise ModelLoadError(
            f"{path} is not an ONNX file or is truncated (no graph or no operator set): export it again"
        )
    if not model.graph.node:
        raise ModelLoadError(f"{path} holds an empty graph: there is nothing to audit")
    external = [t for t in _tensors(model) if t.data_location == _EXTERNAL]
    for tensor in external:
        _check_external(tensor, path)
    if external:
        onnx.load_external_data_for_model(model, str(path.parent))
    return model


def external_locations(path: Path) -> list[str]:
    """The names of the files in which an ONNX file keeps its tensors, relative to its folder, sorted; none of what is no ONNX file."""
    try:
        model = onnx.load(path, load_external_data=False)
    except DecodeError:
        return []
    external = [tensor for tensor in _tensors(model) if tensor.data_location == _EXTERNAL]
    return sorted({entry.value for t in external for entry in t.external_data if entry.key == "location"})


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _graph_tensors(attribute.g)
            for graph in attribute.graphs:
                yield from _graph_tensors(graph)


def _check_external(tensor: onnx.TensorProto, path: Path) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    folder = path.parent.resolve()
    target = (folder / location).resolve()
    if not location or os.path.isabs(location) or not target.is_relative_to(folder):
        raise ModelLoadError(
            f"{path} keeps the tensor {tensor.name!r} in {location!r}, outside of the model's folder: refused; export the "
            "model with its data beside it"
        )
    if not target.is_file():
        raise ModelLoadError(
            f"{path} keeps its weights in the file {location!r}, which is missing: put it beside the model, or export with "
            "external_data=False"
        )
    numbers = [entries.get(key, "0") for key in ("offset", "length")]
    if not all(re.fullmatch(r"[0-9]{1,18}", number) for number in numbers):
        raise ModelLoadError(
            f"{path} keeps the tensor {tensor.name!r} at the offset {numbers[0]!r} with the length {numbers[1]!r}, which are no "
            "numbers of bytes: export it again"
        )
    needed = sum(map(int, numbers))
    if target.stat().st_size < needed:
        raise ModelLoadError(
            f"{path} keeps the tensor {tensor.name!r} in {location!r}, which ends {needed - target.stat().st_size} bytes "
            "too early: it is truncated, fetch it again"
        )
