"""Exact simplifications of a captured graph.

Written-out operations are recognised first (:mod:`lipaudit.graph.recognise`). Then constant shifts go, scales are
folded, padding is absorbed, linear branches are merged.

None of them changes the function on differences: f(x) - f(y) stays what it was (biases drop out). They matter because
the norm of a product of matrices is smaller than the product of their norms: a batch norm folded into its convolution
is free.
"""

from __future__ import annotations

from dataclasses import replace

from lipaudit.graph.branches import merge_branches
from lipaudit.graph.linear import (
    CONVOLUTION,
    DENSE,
    SCALE,
    as_convolution,
    as_dense,
    as_scale,
    channel_axis,
    scale_columns,
    scale_rows,
)
from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref
from lipaudit.graph.recognise import recognise
from lipaudit.graph.rewrite import drop_unread, label, rebuild, uses

_ADDITIONS = {"aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar"}
_LINEAR = {CONVOLUTION, DENSE, SCALE}


def simplify(graph: Graph) -> Graph:
    """Recognition, then folding."""
    return fold(recognise(graph))


def fold(graph: Graph) -> Graph:
    """Every simplification of a recognised graph that is exact on differences, in the order in which they enable each other."""
    steps = (drop_shifts, recognise_linear, absorb_padding, fold_scales, merge_branches)
    for step in steps:
        graph = step(graph)
    return graph


def drop_shifts(graph: Graph) -> Graph:
    """Remove additions of constants that keep the shape: they do not change differences."""

    def change(node: Node) -> Ref | None:
        refs = node.refs
        if len(refs) != 1 or node.op not in _ADDITIONS:
            return None
        unscaled = refs[0] is node["self"] or (node.op.startswith("aten.add") and node.get("alpha", 1) == 1)
        same = refs[0].info == node.output
        return refs[0] if unscaled and same and isinstance(_other(node), Constant | int | float) else None

    return rebuild(graph, change)


def _other(node: Node) -> Argument:
    return node["other"] if isinstance(node["self"], Ref) else node["self"]


def recognise_linear(graph: Graph) -> Graph:
    """Replace convolutions, dense layers and channelwise scales by nodes that carry their weights."""

    def change(node: Node) -> Node | None:
        refs = node.refs
        if len(refs) != 1:
            return None
        if convolution := as_convolution(node):
            return _linear_node(node, CONVOLUTION, refs[0], convolution)
        if dense := as_dense(node):
            return _linear_node(node, DENSE, refs[0], dense)
        if scale := as_scale(node, refs[0].info.shape):
            return _linear_node(node, SCALE, refs[0], scale)
        return None

    return rebuild(graph, change)


def _linear_node(node: Node, op: str, source: Ref, payload: object) -> Node:
    arguments: dict[str, Argument] = {
        "input": source,
        **{k: v for k, v in node.arguments.items() if isinstance(v, Constant)},
    }
    return replace(node, op=op, arguments=arguments, outputs=node.outputs[:1], payload=payload)


def absorb_padding(graph: Graph) -> Graph:
    """Give a padding's borders to the only convolution that reads it (tighter, and exact for circular padding)."""
    counts = uses(graph)
    producers = {n.name: n for n in graph}

    def change(node: Node) -> Node | None:
        if node.op != CONVOLUTION or node.payload.transposed or any(any(p) for p in node.payload.padding):
            return None
        source = node.refs[0]
        pad = producers[source.name]
        if counts[pad.name] != 1 or (borders := _borders(pad, len(node.payload.kernel_size))) is None:
            return None
        padding, mode, inner = borders
        size = inner.info.shape[-len(padding) :]
        try:
            payload = replace(node.payload, padding=padding, padding_mode=mode, input_size=size)
        except ValueError:
            return None  # a border that torch's own convolution could not have: the padding keeps its own rule
        return replace(
            node, arguments={**node.arguments, "input": inner}, payload=payload, sources=(*node.sources, label(pad))
        )

    return drop_unread(rebuild(graph, change))


def _borders(pad: Node, d: int) -> tuple[tuple[tuple[int, int], ...], str, Ref] | None:
    if pad.op not in ("aten.pad.default", "aten.constant_pad_nd.default") or not isinstance(pad["self"], Ref):
        return None
    widths = pad["pad"]
    mode = {"constant": "zeros"}.get(str(pad.get("mode", "constant")), str(pad.get("mode", "constant")))
    if not isinstance(widths, tuple):
        return None
    numbers = [w for w in widths if isinstance(w, int)]
    if len(numbers) != len(widths) or any(numbers[2 * d :]) or min(numbers) < 0:
        return None
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    pairs = (pairs + [(0, 0)] * d)[:d]
    return tuple(reversed(pairs)), mode, pad["self"]


def fold_scales(graph: Graph) -> Graph:
    """Fold channelwise scales into the linear operation before them (rows) or into all that follow (columns)."""
    while True:
        folded = _fold_into_columns(_fold_into_rows(graph))
        if len(folded) == len(graph):
            return folded
        graph = folded


def _fold_into_rows(graph: Graph) -> Graph:
    counts = uses(graph)
    linear: dict[str, Node] = {}

    def change(node: Node) -> Ref | None:
        if node.op == SCALE:
            source = node.refs[0]
            before = linear.get(source.name)
            if before is not None and counts[before.name] == 1:
                merged = scale_rows(before.payload, node.payload, channel_axis(before.payload, len(source.info.shape)))
                if merged is not None:
                    sources = (*before.sources, *node.sources, label(node))
                    linear[before.name] = replace(before, payload=merged, sources=sources)
                    counts[before.name] = counts[node.name]  # the scale's readers now read the producer
                    return Ref(before.name, node.output)
        if node.op in _LINEAR:
            linear[node.name] = node
        return None

    graph = rebuild(graph, change)
    return replace(graph, nodes=tuple(linear.get(n.name, n) for n in graph))


def _fold_into_columns(graph: Graph) -> Graph:
    readers: dict[str, list[Node]] = {}
    for node in graph:
        for ref in node.refs:
            readers.setdefault(ref.name, []).append(node)
    scales: dict[str, Node] = {}
    for node in graph:
        if node.op != SCALE or node.name in graph.outputs:
            continue
        dims = len(node.output.shape)
        if all(
            r.op in _LINEAR and scale_columns(r.payload, node.payload, channel_axis(r.payload, dims)) is not None
            for r in readers.get(node.name, [])
        ):
            scales[node.name] = node

    def change(node: Node) -> Node | Ref | None:
        if node.name in scales:
            return None
        if node.op in _LINEAR and node.refs[0].name in scales:
            scale = scales[node.refs[0].name]
            payload = scale_columns(node.payload, scale.payload, channel_axis(node.payload, len(scale.output.shape)))
            arguments = {**node.arguments, "input": scale.refs[0]}
            return replace(
                node, payload=payload, arguments=arguments, sources=(*node.sources, *scale.sources, label(scale))
            )
        return None

    graph = rebuild(graph, change)
    return replace(graph, nodes=tuple(n for n in graph if n.name not in scales))
