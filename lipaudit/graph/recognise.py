"""Recognition: a captured graph in the operations that the rules know, equal to it in value.

Networks and exporters write the same operation in many ways. Here identities go, and what arrives written out
becomes one operation. Biases, shifts and masks stay, so that the result can be evaluated
(:mod:`lipaudit.graph.interpret`) and equals the network.
"""

from __future__ import annotations

from dataclasses import replace

from lipaudit.graph.activations import recognise_activations
from lipaudit.graph.node import Graph, Node, Ref
from lipaudit.graph.rewrite import rebuild

_IDENTITIES = {
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.lift_fresh_copy.default",
}
_DROPOUTS = {"aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default"}
_EVAL_BATCH_NORM = "aten._native_batch_norm_legit_no_training.default"


def recognise(graph: Graph) -> Graph:
    """Every recognition, in the order in which they enable each other."""
    steps = (drop_identities, recognise_activations)
    for step in steps:
        graph = step(graph)
    return graph


def drop_identities(graph: Graph) -> Graph:
    """Remove operations that return their input."""

    def change(node: Node) -> Node | Ref | None:
        refs = node.refs
        if len(refs) != 1:
            return None
        if node.name in alone:
            return _batch_norm(node)
        if node.op in _IDENTITIES or (node.op in _DROPOUTS and node.get("train") is False):
            return refs[0]
        if node.op == "getitem" and refs[0].name in alone:
            return refs[0]
        return None

    alone = _batch_norms_without_statistics(graph)
    return rebuild(graph, change)


def _batch_norms_without_statistics(graph: Graph) -> set[str]:
    """Batch norms in eval mode of which nothing reads the statistics that they return beside their output."""
    norms = {n.name for n in graph if n.op == _EVAL_BATCH_NORM and len(n.refs) == 1}
    for node in graph:
        if node.op != "getitem" or node["index"] != 0:
            norms.difference_update(ref.name for ref in node.refs)
    return norms.difference(graph.outputs)


def _batch_norm(node: Node) -> Node:
    """The same batch norm spelled with one output."""
    arguments = {**node.arguments, "training": False, "cudnn_enabled": False}
    return replace(node, op="aten.batch_norm.default", arguments=arguments, outputs=node.outputs[:1])
