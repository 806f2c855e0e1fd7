"""Who says what an ONNX file computes: onnxruntime, and ONNX's reference implementation where onnxruntime has no kernel."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.onnx.operators import first_line, operator_name, standard_domain
from lipaudit.frontends.onnx.prepare import inline_functions, undeclared_operators
from lipaudit.frontends.onnx.reference import REFERENCE, reference_evaluator

Array: TypeAlias = np.ndarray[Any, Any]
_FOLDER = "session.model_external_initializers_file_folder_path"


class Judge:
    """Onnxruntime on the whole file; where it lacks a kernel or takes the file for invalid, every node by itself, by whoever can.

    ``intermediate`` are the values on the way that :meth:`run` may be asked for beside the outputs.
    """

    def __init__(self, path: Path, model: onnx.ModelProto, intermediate: Iterable[str]) -> None:
        self._model, self._session = model, None
        self._nodes: _NodeByNode | None = None
        self._runtime = _onnxruntime()
        if self._runtime is not None:
            with suppress(Exception):
                self._session = _whole_file(self._runtime, path, intermediate)

    @property
    def name(self) -> str:
        """Which implementation judged what, in words, once it has run."""
        return f"onnxruntime {version('onnxruntime')}" if self._nodes is None else self._nodes.name

    def run(self, feeds: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """The values of these names for graph inputs of these values. Raises :class:`ModelLoadError` where nobody runs a node."""
        if self._session is not None:
            try:
                return dict(zip(wanted, self._session.run(list(wanted), dict(feeds)), strict=True))
            except Exception:  # a kernel that lacks a case; the nodes by themselves tell which
                self._session = None
        self._nodes = self._nodes or _NodeByNode(self._model, self._runtime)
        return self._nodes.run(feeds, wanted)


def _onnxruntime() -> Any:
    """The package, or None where it is not installed."""
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        return None


def _session(runtime: Any, content: bytes, folder: Path | None = None) -> Any:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    if folder is not None:
        options.add_session_config_entry(_FOLDER, str(folder))
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _whole_file(runtime: Any, path: Path, intermediate: Iterable[str]) -> Any:
    """One session in which every wanted value is an output."""
    model = onnx.load(path, load_external_data=False)
    known = {output.name for output in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in intermediate if name not in known)
    return _session(runtime, model.SerializeToString(), path.parent)


class _NodeByNode:
    """Each node as a model of its own: by onnxruntime where it has the kernel, else by the reference implementation."""

    def __init__(self, model: onnx.ModelProto, runtime: Any) -> None:
        self._model = inline_functions(model)
        self._runtime = runtime
        self._opsets = {standard_domain(o.domain): o.version for o in self._model.opset_import}
        self._constants = {t.name: numpy_helper.to_array(t) for t in self._model.graph.initializer}
        self._sessions: dict[int, Any] = {}
        self._without_kernel: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """Which implementation judged what."""
        if self._runtime is None:
            return f"{REFERENCE} (onnxruntime is not installed)"
        ort = f"onnxruntime {version('onnxruntime')}"
        if not self._without_kernel:
            return ort
        operators = ", ".join(sorted(self._without_kernel))
        return f"{ort} and, for {operators}, which it does not run, {REFERENCE}"

    def run(self, feeds: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """See :meth:`Judge.run`. Values that nothing reads any more are dropped on the way."""
        nodes = self._model.graph.node
        reads = [_read_names(node) for node in nodes]
        last = {name: index for index, names in enumerate(reads) for name in names}
        values: dict[str, Any] = {**self._constants, **feeds}
        outputs = {name: values[name] for name in wanted if name in values}
        for index, node in enumerate(nodes):
            results = self._evaluate(index, node, {name: values[name] for name in reads[index] if name in values})
            values.update((name, value) for name, value in zip(node.output, results, strict=False) if name)
            outputs.update((name, values[name]) for name in node.output if name in wanted)
            for name in {*reads[index], *node.output}:
                if last.get(name, -1) <= index and name not in self._constants:
                    values.pop(name, None)
        return outputs

    def _evaluate(self, index: int, node: onnx.NodeProto, values: dict[str, Any]) -> list[Any]:
        constants = {name: value for name, value in values.items() if name in self._constants}
        feeds = {name: value for name, value in values.items() if name not in self._constants}
        if index not in self._sessions:
            self._sessions[index] = self._kernel(node, feeds, constants)
        session = self._sessions[index]
        if session is not None:
            try:
                return _outputs(node, session.run(None, feeds))
            except Exception:  # a type or a shape for which there is no kernel
                self._sessions[index] = None
                self._without_kernel[operator_name(node)] += 1
        return self._by_reference(node, feeds, constants)

    def _kernel(self, node: onnx.NodeProto, feeds: dict[str, Any], constants: dict[str, Array]) -> Any:
        if self._runtime is None:
            return None
        try:
            model = _single(node, feeds, constants, self._version(node), self._opsets)
            return _session(self._runtime, model.SerializeToString())
        except Exception:
            self._without_kernel[operator_name(node)] += 1
            return None

    def _version(self, node: onnx.NodeProto) -> int:
        """The operator set in which the node's operator got its present meaning: onnxruntime may not know the newest ones."""
        opset: int = self._opsets.get("", 1)
        if standard_domain(node.domain) or _subgraphs(node) or undeclared_operators([node], opset):
            return opset
        return int(onnx.defs.get_schema(node.op_type, opset, "").since_version)

    def _by_reference(self, node: onnx.NodeProto, feeds: dict[str, Any], constants: dict[str, Array]) -> list[Any]:
        opset = self._opsets.get("", 1)
        newer = undeclared_operators([node], opset)
        try:
            if newer:
                raise ModelLoadError("; ".join(newer) + ": export it again")
            model = _single(node, feeds, constants, opset, self._opsets)
            with np.errstate(all="ignore"):
                results: Any = reference_evaluator(model, self._opsets).run(None, feeds)
            return _outputs(node, results)
        except Exception as error:
            where = f"{operator_name(node)} (node {node.name or node.output[0]!r})"
            raise ModelLoadError(
                f"{REFERENCE} cannot run {where}, so that its conversion cannot be checked: {first_line(error)}"
            ) from error


def _single(
    node: onnx.NodeProto,
    feeds: Mapping[str, Any],
    constants: Mapping[str, Array],
    opset: int,
    opsets: Mapping[str, int],
) -> onnx.ModelProto:
    """A model of one node."""
    graph = helper.make_graph(
        [node],
        "node",
        [_declared(name, value) for name, value in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    imports = [helper.make_opsetid(domain, v) for domain, v in {**opsets, "": opset}.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _declared(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        element = helper.np_dtype_to_tensor_dtype(value[0].dtype)
        return helper.make_tensor_sequence_value_info(name, element, None)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _outputs(node: onnx.NodeProto, results: Sequence[Any]) -> list[Any]:
    """One result per output, None for outputs that are left out."""
    rest = iter(results)
    return [next(rest) if name else None for name in node.output]


def _subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [graph for a in node.attribute for graph in ([a.g] if a.HasField("g") else list(a.graphs))]


def _read_names(node: onnx.NodeProto) -> set[str]:
    """What a node reads, its subgraphs included."""
    names = {name for name in node.input if name}
    for graph in _subgraphs(node):
        local = {entry.name for entry in (*graph.input, *graph.initializer)}
        local.update(name for inner in graph.node for name in inner.output)
        names |= {name for inner in graph.node for name in _read_names(inner)} - local
        names |= {output.name for output in graph.output} - local
    return names
