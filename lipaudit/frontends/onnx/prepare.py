"""Before the conversion: old operator sets converted up, functions of the file and of the standard written out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import onnx
from onnx import inliner, version_converter

from lipaudit.errors import ModelLoadError
from lipaudit.frontends.memory import require
from lipaudit.frontends.onnx.ml import without_idle_normalizers
from lipaudit.frontends.onnx.operators import UnsupportedOperatorError, find_converter, operator_name

_OLDEST_OPSET = 9
_NODE = 20_000  # bytes that a node takes in the end: its protocol buffer, its module, its rule
_DEEPEST = 100


def prepare(model: onnx.ModelProto) -> onnx.ModelProto:
    """Convert old opsets up, inline local functions and those standard operators that are known only by their definition."""
    model = without_idle_normalizers(inline_functions(model))
    opset = standard_opset(model)
    if 0 < opset < _OLDEST_OPSET:
        model, opset = _convert_up(model, opset), _OLDEST_OPSET
    defined = [n for n in model.graph.node if find_converter(n) is None and _has_definition(n, opset)]
    return _inline(model, defined, opset) if defined else model


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its own functions written out, once it is known how many nodes that makes."""
    if not model.functions:
        return model
    nodes = count_nodes(model)
    require(nodes * _NODE, f"the {nodes} nodes of the graph, once its functions are written out,")
    return inliner.inline_local_functions(model)


def count_nodes(model: onnx.ModelProto) -> int:
    """How many nodes the graph has once its functions are written out, without writing them out.

    Raises :class:`ModelLoadError` for functions that call themselves, or one another in longer chains than anybody writes.
    """
    bodies = {(f.domain, f.name): list(_all_nodes(f.node)) for f in model.functions}
    counts: dict[tuple[str, str], int] = {}
    open_calls: list[tuple[str, str]] = []

    def count(nodes: Iterable[onnx.NodeProto]) -> int:
        return sum(count_of((node.domain, node.op_type)) for node in nodes)

    def count_of(key: tuple[str, str]) -> int:
        if key not in bodies:
            return 1
        if key not in counts:
            if key in open_calls or len(open_calls) >= _DEEPEST:
                reason = "calls itself" if key in open_calls else f"lies more than {_DEEPEST} calls deep"
                raise ModelLoadError(f"the function {key[1]!r} of the ONNX file {reason}: it cannot be written out")
            open_calls.append(key)
            counts[key] = count(bodies[key])
            open_calls.pop()
        return counts[key]

    return count(_all_nodes(model.graph.node))


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from _all_nodes(graph.node)


def standard_opset(model: onnx.ModelProto) -> int:
    """The version of the standard's operator set that the file imports, 0 where it imports none."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)


def undeclared_operators(nodes: Iterable[onnx.NodeProto], opset: int) -> list[str]:
    """What nodes use of the standard although the operator set that the file declares does not have it, in words."""
    problems = []
    for node in nodes:
        if node.domain in ("", "ai.onnx") and onnx.defs.has(node.op_type) and not _known(node.op_type, opset):
            name = node.name or node.output[0]
            problems.append(f"its node {name!r} is a {node.op_type}, which the declared opset {opset} does not have")
    return problems


def _known(operator: str, opset: int) -> bool:
    try:
        onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return False
    return True


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every initialiser is a graph input too: both converters of onnx learn types from there."""
    copy: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    known = {entry.name for entry in copy.graph.input}
    for tensor in copy.graph.initializer:
        if tensor.name not in known:
            copy.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return copy


def _convert_up(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    try:
        converted: onnx.ModelProto = version_converter.convert_version(_copy(model), _OLDEST_OPSET)
    except (RuntimeError, version_converter.ConvertError) as error:
        raise ModelLoadError(f"opset {opset} cannot be converted to opset {_OLDEST_OPSET}: {error}") from error
    return converted


def _inline(model: onnx.ModelProto, defined: list[onnx.NodeProto], opset: int) -> onnx.ModelProto:
    identities = sorted({(n.domain, n.op_type) for n in defined})
    model = _copy(model)
    for node in model.graph.node:
        if (node.domain, node.op_type) in identities:
            _write_defaults(node, opset)
    try:
        inlined: onnx.ModelProto = inliner.inline_selected_functions(model, identities, inline_schema_functions=True)
    except (RuntimeError, IndexError, ValueError) as error:
        names = ", ".join(f"{operator_name(n)} (opset {opset}, node {n.name or n.output[0]!r})" for n in defined)
        raise UnsupportedOperatorError(
            f"the ONNX operators {names} cannot be converted: their definitions cannot be written out"
        ) from error
    return inlined


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
    if not _known(node.op_type, opset):
        return False
    schema: Any = onnx.defs.get_schema(node.op_type, opset, "")
    return bool(schema.has_function or schema.has_context_dependent_function)
