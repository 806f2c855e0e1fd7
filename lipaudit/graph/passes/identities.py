"""Operations that return their input, and outputs that nothing reads.

clone(x) = x, dropout(x) = x in evaluation mode, and so is padding by nothing.
"""

from __future__ import annotations

from dataclasses import replace

from lipaudit.graph.node import Argument, Graph, Node, Ref
from lipaudit.graph.ops import CASTS, DROPOUTS, IDENTITIES, PADDINGS
from lipaudit.graph.rewrite import rebuild

# Norms that return their statistics as well, as the same norm with one output: its name, and arguments renamed or added.
_ONE_OUTPUT: dict[str, tuple[str, dict[str, str], dict[str, Argument]]] = {
    "aten._native_batch_norm_legit_no_training.default": (
        "aten.batch_norm.default", {}, {"training": False, "cudnn_enabled": False},
    ),
    "aten.native_layer_norm.default": ("aten.layer_norm.default", {}, {"cudnn_enable": False}),
    "aten.native_group_norm.default": (
        "aten.group_norm.default", {"group": "num_groups"}, {"cudnn_enabled": False},
    ),
    "aten._fused_rms_norm.default": ("aten.rms_norm.default", {}, {}),
}  # fmt: skip


def drop_identities(graph: Graph) -> Graph:
    """Remove operations that return their input, and outputs that nothing reads."""

    def change(node: Node) -> Node | Ref | None:
        if node.name in alone:
            return _with_one_output(node)
        refs = node.refs
        if not refs:
            return None
        same = len(node.outputs) == 1 and node.get("self") is refs[0] and refs[0].info == node.output
        inactive = node.op in DROPOUTS and len(node.outputs) == 1 and node["train"] is False
        unpadded = node.op in PADDINGS and not any(node["pad"])  # type: ignore[arg-type]
        if node.op in IDENTITIES or (node.op in CASTS and same) or inactive or unpadded:
            return refs[0]
        return refs[0] if node.op == "getitem" and refs[0].name in alone else None

    alone = _statistics_unread(graph)
    return rebuild(graph, change)


def _statistics_unread(graph: Graph) -> set[str]:
    """Norms of which nothing reads the statistics that they return beside their output."""
    norms = {n.name for n in graph if n.op in _ONE_OUTPUT}
    for node in graph:
        if node.op != "getitem" or node["index"] != 0:
            norms.difference_update(ref.name for ref in node.refs)
    return norms.difference(graph.outputs)


def _with_one_output(node: Node) -> Node:
    op, renamed, added = _ONE_OUTPUT[node.op]
    arguments = {renamed.get(k, k): v for k, v in node.arguments.items() if k not in ("N", "C", "HxW")}
    return replace(node, op=op, arguments={**arguments, **added}, outputs=node.outputs[:1])
