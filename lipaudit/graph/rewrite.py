"""Rebuilding a frozen graph with some nodes changed or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from lipaudit.graph.node import Argument, Graph, Node, Ref


def rebuild(graph: Graph, change: Callable[[Node], Node | Ref | None]) -> Graph:
    """A graph in which every node is kept (None), replaced, or removed in favour of another node's output (a Ref).

    References to removed nodes follow; ``sources`` of a removed node are not kept, callers do that.
    """
    moved: dict[str, Ref] = {}
    nodes: list[Node] = []
    for node in graph:
        current = replace(node, arguments={k: _follow(v, moved) for k, v in node.arguments.items()})
        changed = change(current)
        if isinstance(changed, Ref):
            moved[node.name] = changed
        else:
            nodes.append(changed or current)
    outputs = tuple(moved[name].name if name in moved else name for name in graph.outputs)
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def _follow(argument: Argument, moved: dict[str, Ref]) -> Argument:
    if isinstance(argument, Ref):
        return moved.get(argument.name, argument)
    if isinstance(argument, tuple):
        return tuple(_follow(part, moved) for part in argument)
    return argument


def rename(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with the named nodes called otherwise; ``names`` maps old names to new ones."""
    moved = {node.name: Ref(names[node.name], node.output) for node in graph if node.name in names}
    nodes = tuple(
        replace(
            node,
            name=names.get(node.name, node.name),
            arguments={k: _follow(v, moved) for k, v in node.arguments.items()},
        )
        for node in graph
    )
    return replace(graph, nodes=nodes, outputs=tuple(names.get(name, name) for name in graph.outputs))


def uses(graph: Graph) -> Counter[str]:
    """How often each node's output is read, the network's own outputs included."""
    return Counter([ref.name for node in graph for ref in node.refs] + list(graph.outputs))


def drop_unread(graph: Graph) -> Graph:
    """The graph without nodes that no output depends on; network inputs stay."""
    needed = {*graph.outputs, *graph.inputs}
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed.update(ref.name for ref in node.refs)
    return replace(graph, nodes=tuple(node for node in graph if node.name in needed))


def label(node: Node) -> str:
    """How a node is called in a list of what was folded: its module path, or its own name at the top level."""
    return node.module or node.name
