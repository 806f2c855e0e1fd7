"""Making an exported program functional: no operation changes a tensor in place.

In a raw program an operation in place may have no users while its effect is read through an alias; the functional form has
none of that. ``run_decompositions({})`` gives it by tracing the program a second time, which takes as long as the export
itself. It can be had for nothing where every operation in place acts on a tensor that was made for it: computed by an
operation that returns a new tensor, and read by nothing else. Then ``relu_`` is ``relu``. One operation in place that is
not of this kind, and the program is traced again.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from lipaudit.errors import CaptureError

# Operations that always return a new tensor (dropout in eval mode, for one, returns its input).
_NEW = {
    "aten." + name
    for name in (
        "conv1d.default", "conv2d.default", "conv3d.default", "conv1d.padding", "conv2d.padding", "conv3d.padding",
        "conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input", "linear.default",
        "batch_norm.default", "group_norm.default", "layer_norm.default", "add.Tensor", "sub.Tensor", "mul.Tensor",
        "div.Tensor", "cat.default", "matmul.default", "bmm.default", "lift_fresh_copy.default",
    )
}  # fmt: skip


def functional(program: ExportedProgram, numbers: bool = False) -> ExportedProgram:
    """The program in functional form; its graph is changed, or traced again where that is not enough.

    Raises:
        CaptureError: if entries of weights were read as ``numbers`` and the program may overwrite what was read.
    """
    outputs = program.graph_signature.output_specs
    if all(spec.kind is OutputKind.USER_OUTPUT for spec in outputs) and _rename_in_place(program.graph):
        return program
    if numbers and _overwrites_weights(program):
        raise CaptureError(
            "the network reads numbers from tensors that it may overwrite while it runs, so that they are no constants; "
            "its control flow depends on them: keep what it reads apart from what it writes"
        )
    again: ExportedProgram = program.run_decompositions({})
    return again


def _overwrites_weights(program: ExportedProgram) -> bool:
    """Whether an operation in place may change a tensor that is no input of the network's own: a parameter, a buffer, another constant."""
    specs = program.graph_signature.input_specs
    given = {spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT}
    outputs = program.graph_signature.output_specs
    if not all(spec.kind in (OutputKind.USER_OUTPUT, OutputKind.USER_INPUT_MUTATION) for spec in outputs):
        return True
    for node in program.graph.nodes:
        target = node.target
        if node.op != "call_function" or (isinstance(target, torch._ops.OpOverload) and not target._schema.is_mutable):
            continue
        if not isinstance(target, torch._ops.OpOverload):
            if "getitem" not in str(target):
                return True
            continue
        waiting, seen = list(node.all_input_nodes), set[torch.fx.Node]()
        while waiting:
            origin = waiting.pop()
            if origin in seen or (origin.op == "call_function" and _returns_new(origin.target)):
                continue
            seen.add(origin)
            if not origin.all_input_nodes and (origin.op != "placeholder" or origin.name not in given):
                return True
            waiting += origin.all_input_nodes
    return False


def _returns_new(target: object) -> bool:
    """Whether an operation returns a tensor that shares no memory with its arguments, as far as torch says."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    aliased = any(result.alias_info is not None for result in target._schema.returns)
    return str(target) in _NEW or not (aliased or target._can_decompose())


def _rename_in_place(graph: torch.fx.Graph) -> bool:
    """Replace every operation in place by its functional counterpart; False, and nothing changed, where one is not safe."""
    replaced: dict[torch.fx.Node, torch._ops.OpOverload] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            if "getitem" not in str(target):
                return False  # a higher-order operation may change anything
            continue
        if not target._schema.is_mutable:
            continue
        counterpart = _counterpart(target)
        changed = node.args[0] if node.args else None
        if counterpart is None or not isinstance(changed, torch.fx.Node):
            return False
        new = changed in replaced or str(changed.target) in _NEW
        if not new or list(changed.users) != [node] or sum(a is changed for a in node.all_input_nodes) != 1:
            return False
        if any(a is changed for a in (*node.args[1:], *node.kwargs.values())):
            return False
        replaced[node] = counterpart
    for node, target in replaced.items():
        node.target = target
    return True


def _counterpart(target: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """The operation that computes the same without changing its first argument, which alone it may change."""
    schema = target._schema
    name = schema.name.removeprefix("aten::")
    written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if not name.endswith("_") or written != [schema.arguments[0].name]:
        return None
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    counterpart = getattr(packet, target._overloadname, None)
    if not isinstance(counterpart, torch._ops.OpOverload) or counterpart._schema.is_mutable:
        return None
    same = [a.name for a in counterpart._schema.arguments] == [a.name for a in schema.arguments]
    return counterpart if same else None
