"""Channelwise scales folded into linear maps: S (W x) = (S W) x and W (S x) = (W S) x, batch norms among them.

The norm of a product of matrices is at most the product of their norms, and mostly smaller: a batch norm folded into its convolution is
free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from lipaudit.graph.linear import (
    DENSE,
    SCALE,
    WEIGHTED,
    Linear,
    Scale,
    channel_axis,
    scale_columns,
    scale_rows,
)
from lipaudit.graph.node import Graph, Node, Ref
from lipaudit.graph.ops import VIEWS
from lipaudit.graph.rewrite import label, rebuild, rename, uses


def fold_scales(graph: Graph) -> Graph:
    """Fold channelwise scales into the linear operation before them (rows) or into all that follow (columns).

    Between a scale and a dense layer there may be views that keep the last axis, and only regroup the others: an entry
    keeps its place along the last axis, so that the scale and the view commute.
    """
    while True:
        folded = _fold_into_columns(_fold_into_rows(graph))
        if len(folded) == len(graph):
            return folded
        graph = folded


def _keeps_last_axis(node: Node) -> bool:
    if node.op not in VIEWS or len(node.refs) != 1:
        return False
    before, after = node.refs[0].info.shape, node.output.shape
    return bool(before) and bool(after) and before[-1] == after[-1]


def _behind_views(scale: Scale, before: int, after: int) -> Scale | None:
    """The scale of a tensor with ``before`` axes as one of a view with ``after`` axes that keeps the last one."""
    if scale.factor.numel() == 1:
        return scale
    return replace(scale, axis=after - 1) if scale.axis == before - 1 else None


def _with_new_names(graph: Graph, views: set[str]) -> Graph:
    """The views get new names: their values are no longer those of the recognised graph."""
    taken = {node.name for node in graph}
    names = {}
    for view in sorted(views):
        name = f"{view}_rescaled"
        while name in taken:
            name += "_"
        taken.add(name)
        names[view] = name
    return rename(graph, names) if names else graph


def _fold_into_rows(graph: Graph) -> Graph:
    counts = uses(graph)
    linear: dict[str, Node] = {}
    views: dict[str, Node] = {}
    rescaled: set[str] = set()

    def producer(name: str) -> tuple[Node | None, list[str]]:
        """The linear operation whose output the named one is, and the views in between that nothing else reads."""
        between = []
        while name in views and counts[name] == 1:
            between.append(name)
            name = views[name].refs[0].name
        operation = linear.get(name)
        passes_views = operation is None or operation.op == DENSE or not between
        return (operation if passes_views else None), between

    def change(node: Node) -> Ref | None:
        if node.op == SCALE:
            source = node.refs[0]
            before, between = producer(source.name)
            if before is not None and counts[before.name] == 1:
                dims = len(before.output.shape)
                scale = _behind_views(node.payload, len(source.info.shape), dims) if between else node.payload
                merged = scale and scale_rows(before.payload, scale, channel_axis(before.payload, dims))
                if merged is not None:
                    sources = (*before.sources, *node.sources, label(node))
                    linear[before.name] = replace(before, payload=merged, sources=sources)
                    counts[source.name] = counts[node.name]  # the scale's readers now read its source
                    rescaled.update(between)
                    return Ref(source.name, node.output)
        if node.op in WEIGHTED:
            linear[node.name] = node
        elif _keeps_last_axis(node):
            views[node.name] = node
        return None

    graph = rebuild(graph, change)
    graph = replace(graph, nodes=tuple(linear.get(n.name, n) for n in graph))
    return _with_new_names(graph, rescaled)


def _fold_into_columns(graph: Graph) -> Graph:
    readers: dict[str, list[Node]] = {}
    for node in graph:
        for ref in node.refs:
            readers.setdefault(ref.name, []).append(node)
    # per view and linear operation the scale that it takes over, and the payload that a linear operation gets by that
    scales: dict[str, Node] = {}
    payloads: dict[str, Linear] = {}
    for node in graph:
        if node.op != SCALE or node.name in graph.outputs:
            continue
        behind = _payloads_behind(node, node, readers, graph.outputs)
        if behind is not None:
            scales.update(dict.fromkeys((node.name, *behind), node))
            payloads.update({name: payload for name, payload in behind.items() if payload is not None})

    def change(node: Node) -> Node | None:
        scale = scales.get(node.name)
        if scale is None or scale.name == node.name:
            return None
        (key,) = (k for k, v in node.arguments.items() if isinstance(v, Ref))
        skipped = node.refs[0].name == scale.name
        changed = replace(node, arguments={**node.arguments, key: scale.refs[0] if skipped else node.refs[0]})
        if node.name not in payloads:
            return changed
        return replace(changed, payload=payloads[node.name], sources=(*node.sources, *scale.sources, label(scale)))

    graph = rebuild(graph, change)
    graph = replace(graph, nodes=tuple(n for n in graph if n.name not in scales or scales[n.name].name != n.name))
    return _with_new_names(graph, {name for name in scales if name not in payloads and scales[name].name != name})


def _payloads_behind(
    scale: Node, source: Node, readers: Mapping[str, list[Node]], outputs: Collection[str]
) -> dict[str, Linear | None] | None:
    """What the readers of a scale, or of a view of it, become if they take it over: None where one of them cannot.

    A linear operation gets a payload, a view has none.
    """
    payloads: dict[str, Linear | None] = {}
    dims = len(source.output.shape)
    behind = scale.payload if source is scale else _behind_views(scale.payload, len(scale.output.shape), dims)
    for reader in readers.get(source.name, []):
        if reader.op == DENSE or (reader.op in WEIGHTED and source is scale):
            payload = behind and scale_columns(reader.payload, behind, channel_axis(reader.payload, dims))
            if payload is None:
                return None
            payloads[reader.name] = payload
        elif _keeps_last_axis(reader) and reader.name not in outputs:
            more = _payloads_behind(scale, reader, readers, outputs)
            if not more:
                return None
            payloads |= {reader.name: None, **more}
        else:
            return None
    return payloads
