"""ONNX files: read, converted node by node to torch, compared with a reference implementation before anything is audited."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import onnx
import torch

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.files import sha256
from lipaudit.frontends.held_inputs import NOTHING, Fixed
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.memory import require
from lipaudit.frontends.onnx import (  # noqa: F401
    attention,
    block_quantised,
    contrib,
    convolution,
    einsum,
    elementwise,
    fourier,
    indexing,
    ml,
    movement,
    normalization,
    pooling,
    products,
    recurrent,
    reduction,
    refused_operators,
    resize,
)
from lipaudit.frontends.onnx.file import read_model
from lipaudit.frontends.onnx.inputs import (
    GraphInput,
    batch_of,
    check_unheld,
    free_inputs,
    graph_inputs,
    hold,
    resolve_inputs,
)
from lipaudit.frontends.onnx.memory import COPIES
from lipaudit.frontends.onnx.network import OnnxNetwork, build_network
from lipaudit.frontends.onnx.outputs import real_outputs
from lipaudit.frontends.onnx.prepare import prepare
from lipaudit.frontends.onnx.value_check import check_parity, rows_compared
from lipaudit.frontends.shapes import Shape


def load_onnx(
    path: Path, *, spec: str, input_shapes: Mapping[str, Shape] | None = None, fixed: Fixed = NOTHING
) -> LoadedModel:
    """Load an ONNX file of opset 9 or later (earlier ones are converted up first).

    Inputs that are ``fixed`` are constants of the result, which is checked against onnxruntime, or ONNX's reference
    implementation, on random inputs.
    Raises :class:`~lipaudit.errors.ModelLoadError` with the node's name for what cannot be converted and
    :class:`~lipaudit.errors.UsageError` for sizes that are missing or contradict the file.
    """
    try:
        return _load(path, spec, input_shapes, fixed)
    except ModelLoadError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: {error}") from error


def _load(path: Path, spec: str, asked: Mapping[str, Shape] | None, fixed: Fixed) -> LoadedModel:
    original, remarks = real_outputs(read_model(path))
    every = graph_inputs(original)
    inputs, unheld = free_inputs(every, fixed)
    values = {**fixed, **{entry.name: 0 for entry in unheld}}
    requested = {name: shape for name, shape in (asked or {}).items() if name not in values}
    # a held tensor with the file's own first axis says that this is no batch
    whole = {tuple(v.shape[:1]) for v in fixed.values() if isinstance(v, torch.Tensor)} - {(), (1,)}
    shapes = resolve_inputs(inputs, requested, whole=any((i.batch,) in whole for i in inputs))
    batch = batch_of(inputs, shapes)
    held = hold(every, values, asked, batch)
    model = prepare(original)
    check_unheld(unheld, inputs, model.graph)
    try:
        module, agreement = _converted(path, original, model, inputs, shapes, held, batch)
        notes = [agreement]
        if batch > 1:
            compared = "each row" if batch == rows_compared(batch) else f"{rows_compared(batch)} of its rows"
            were = "was" if batch == rows_compared(batch) else "were"
            notes.append(f"The file fixes a batch of {batch}; one sample is audited, {compared} {were} compared.")
    except ModelLoadError:
        if batch == 1:
            raise
        shapes, held = resolve_inputs(inputs, requested, whole=True), hold(every, values, asked)
        module, agreement = _converted(path, original, model, inputs, shapes, held, 1)
        notes = [agreement]
    notes += [*_without_a_batch(shapes), *remarks]
    if unheld:
        names = ", ".join(repr(entry.name) for entry in unheld)
        notes.append(
            f"No value was given for {names}: upper bounds hold for every value, because it only adds constants. A lower bound is for 0."
        )
    return LoadedModel(
        module=module,
        spec=spec,
        source="onnx",
        input_shapes=shapes,
        input_dtypes={i.name: i.dtype for i in inputs},
        weights=path.name,
        file_sha256=sha256(path),
        node_names=module.node_names,
        module_paths=module.module_paths,
        output_names=tuple(o.name for o in original.graph.output),
        notes=tuple(notes),
        fixed={name: held[name] for name in fixed},
        unheld=tuple(entry.name for entry in unheld),
    )


def _converted(
    path: Path,
    original: onnx.ModelProto,
    model: onnx.ModelProto,
    inputs: list[GraphInput],
    shapes: Mapping[str, Shape],
    held: Mapping[str, torch.Tensor],
    batch: int,
) -> tuple[OnnxNetwork, str]:
    """The network for these shapes, and the sentence that says who agrees with it."""
    entries = sum(math.prod(shapes[i.name]) * i.dtype.itemsize for i in inputs)
    require(COPIES * batch * entries, f"an input of {' and '.join('x'.join(map(str, i.axes)) for i in inputs)}")
    generator = torch.Generator().manual_seed(0)
    examples = {
        i.name: torch.randn(shapes[i.name], generator=generator, dtype=torch.float32).to(i.dtype) for i in inputs
    }
    module = build_network(model, examples, held, batch)
    judge, tolerance = check_parity(module, path, original, inputs, shapes, batch, held)
    return module, f"The conversion from ONNX agrees with {judge} on random inputs to {tolerance:g} of the output."


def _without_a_batch(shapes: Mapping[str, Shape]) -> list[str]:
    """A remark on the inputs whose first axis is part of what is audited."""
    whole = [f"{name!r} ({'x'.join(map(str, shape))})" for name, shape in shapes.items() if shape[:1] not in ((), (1,))]
    if not whole:
        return []
    return [
        f"The first axis of {', '.join(whole)} is no batch of independent samples: the bound is for the whole input."
    ]
