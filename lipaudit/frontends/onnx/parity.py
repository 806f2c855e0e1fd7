"""Comparison of a converted network with an independent implementation of ONNX on random inputs."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import torch
from torch import nn

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.onnx.inputs import GraphInput
from lipaudit.frontends.onnx.operators import first_line
from lipaudit.frontends.onnx.prepare import undeclared_operators

Array: TypeAlias = np.ndarray[Any, Any]
Run: TypeAlias = Callable[[Mapping[str, Array]], list[Array]]
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
_SCALES = (1.0, 10.0)  # the larger one reaches the flat parts of activations
_NOISE_FACTOR = 10.0


def check_parity(
    module: nn.Module,
    path: Path,
    model: onnx.ModelProto,
    inputs: list[GraphInput],
    shapes: Mapping[str, tuple[int, ...]],
) -> tuple[str, float]:
    """Raise :class:`ModelLoadError` unless the network agrees with the file on random inputs.

    Returns the judge's name and the tolerance.

    Onnxruntime judges where it is installed and knows the file. Where it disagrees, or cannot, ONNX's own reference
    implementation decides: onnxruntime approximates some functions to 1e-7 absolute, which is much for tiny outputs.
    The largest difference must stay below 1e-4 of the largest output (more for half precision), plus ten times what
    rounding to the file's precision alone does to the network's own output; in a file of several precisions the narrowest
    counts. A file that fixes a batch of n gets n different
    samples, and every row of its outputs must be what the network makes of that sample alone.
    """
    tolerance, mixed = _precision(model, inputs)
    quick = _onnxruntime(path)
    if quick is not None:
        judge = f"onnxruntime {version('onnxruntime')}"
        try:
            _compare(module, inputs, shapes, quick, judge, tolerance, mixed)
        except ModelLoadError:
            pass  # not an answer yet: the reference implementation below has the last word
        else:
            return judge, tolerance
    judge = f"the reference implementation of onnx {onnx.__version__}"
    _compare(module, inputs, shapes, _onnx_reference(model, judge), judge, tolerance, mixed)
    return judge, tolerance


def _onnxruntime(path: Path) -> Run | None:
    """Onnxruntime on the file, None where it is not installed or does not know an operator or opset of the file."""
    try:
        onnxruntime: Any = importlib.import_module("onnxruntime")
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception:
        return None
    return lambda feeds: list(session.run(None, dict(feeds)))


def _onnx_reference(model: onnx.ModelProto, judge: str) -> Run:
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(model)
    except Exception as error:
        newer = undeclared_operators(model)
        reason = "; ".join(newer) + ": export it again" if newer else first_line(error)
        raise ModelLoadError(f"{judge} does not accept the file ({reason}), so that it cannot be checked") from error
    return lambda feeds: list(evaluator.run(None, dict(feeds)))


def _precision(model: onnx.ModelProto, inputs: list[GraphInput]) -> tuple[float, bool]:
    """The tolerance of the narrowest floating type in the file, and whether there are several."""
    known = {
        onnx.TensorProto.DOUBLE: torch.float64,
        onnx.TensorProto.FLOAT: torch.float32,
        onnx.TensorProto.FLOAT16: torch.float16,
        onnx.TensorProto.BFLOAT16: torch.bfloat16,
    }
    types = {tensor.data_type for tensor in model.graph.initializer}
    for node in model.graph.node:
        types.update(a.i for a in node.attribute if node.op_type == "Cast" and a.name == "to")
        types.update(a.t.data_type for a in node.attribute if node.op_type == "Constant" and a.name == "value")
    found = {i.dtype for i in inputs} | {known[t] for t in types if t in known}
    return max(TOLERANCE[dtype] for dtype in found), bool(found & {torch.float16, torch.bfloat16}) and len(found) > 1


def _compare(
    module: nn.Module,
    inputs: list[GraphInput],
    shapes: Mapping[str, tuple[int, ...]],
    run: Run,
    judge: str,
    tolerance: float,
    mixed: bool,
) -> None:
    generator = np.random.default_rng(0)
    batch = max(i.batch for i in inputs)
    for scale in _SCALES:
        samples: list[torch.Tensor] = []
        for entry in inputs:
            shape = (batch, *shapes[entry.name][1:]) if batch > 1 else shapes[entry.name]
            array = np.asarray(generator.standard_normal(shape) * scale).astype(np.float32)
            samples.append(torch.from_numpy(array).to(entry.dtype))
        feeds = {entry.name: _numpy(sample) for entry, sample in zip(inputs, samples, strict=True)}
        try:
            with np.errstate(all="ignore"):
                expected = [np.asarray(output) for output in run(feeds)]
        except Exception as error:
            raise ModelLoadError(
                f"{judge} cannot run the file, so that its conversion cannot be checked: {first_line(error)}"
            ) from error
        found = _evaluate(module, samples, batch)
        for position, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            where = f"output {position}" + (
                f" (the file fixes a batch of {batch}: export it with 1)" if batch > 1 else ""
            )
            if ours.shape != theirs.shape:
                raise ModelLoadError(
                    f"the conversion gives {where} the shape {ours.shape}, {judge} gives {theirs.shape}"
                )
            gap, size = _gap(ours, theirs, where, judge)
            allowed = tolerance * max(size, float(np.finfo(np.float32).tiny))
            # casts to half precision inside the network stay what they are, so that there is no float64 version of it
            noise = 0.0 if gap <= allowed or mixed else _rounding(module, samples, batch, position, ours)
            if gap > allowed + _NOISE_FACTOR * noise:
                raise ModelLoadError(
                    f"the conversion differs from {judge} in {where} by {gap:.3g}, values reach {size:.3g}: the file is not "
                    "audited, because the bound would be that of another network"
                )


def _evaluate(module: nn.Module, samples: list[torch.Tensor], batch: int) -> list[Array]:
    """The network's outputs, one sample at a time."""
    rows = []
    with torch.no_grad():
        for i in range(batch):
            result = module(*([s[i : i + 1] for s in samples] if batch > 1 else samples))
            rows.append([_numpy(t) for t in (result if isinstance(result, tuple) else (result,))])
    return [np.concatenate(column) if batch > 1 else column[0] for column in zip(*rows, strict=True)]


def _rounding(module: nn.Module, samples: list[torch.Tensor], batch: int, position: int, ours: Array) -> float:
    """How far rounding alone moves an output: the difference to the same network in float64."""
    exact = _evaluate(copy.deepcopy(module).double(), [s.double() for s in samples], batch)[position]
    return float(np.abs(exact - ours.astype(np.float64)).max(initial=0.0))


def _numpy(tensor: torch.Tensor) -> Array:
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def _gap(ours: Array, theirs: Array, where: str, judge: str) -> tuple[float, float]:
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(finite, np.isfinite(a)):
        raise ModelLoadError(f"the conversion and {judge} disagree on which entries of {where} are finite")
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)), float(np.abs(b[finite]).max(initial=0.0))
