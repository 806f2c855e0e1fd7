"""Rebuilding a frozen graph with some nodes changed or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lipaudit.graph.node import Argument, Graph, Node, Ref, TensorInfo


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


@dataclass(frozen=True)
class Replacement:
    """What takes the place of one node: ``nodes``, of which the last has the replaced node's name and output.

    ``merged`` names nodes that the pattern went through. Those that nothing else reads disappear; ``nodes[core]``, the
    one that stands for the pattern, lists them among its sources.
    """

    nodes: tuple[Node, ...]
    core: int
    merged: tuple[str, ...] = ()


def substitute(graph: Graph, replacements: Mapping[str, Replacement]) -> Graph:
    """The graph with every named node replaced, without what nothing reads any more."""
    nodes: list[Node] = []
    for node in graph:
        nodes += replacements[node.name].nodes if node.name in replacements else (node,)
    replaced = drop_unread(replace(graph, nodes=tuple(nodes)))
    kept = {node.name for node in replaced}
    producers = {node.name: node for node in graph}
    gone = {
        found.nodes[found.core].name: [producers[name] for name in found.merged if name not in kept]
        for found in replacements.values()
    }

    def credit(node: Node) -> Node | None:
        if node.name not in gone:
            return None
        merged = (s for n in gone[node.name] for s in (*n.sources, label(n)))
        return replace(node, sources=tuple(s for s in dict.fromkeys((*node.sources, *merged)) if s != label(node)))

    return rebuild(replaced, credit)


class Steps:
    """Nodes in the place of one, appended one by one; all but the last get names derived from its name."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.node, self.nodes = node, list[Node]()
        self._taken = {n.name for n in graph}

    def add(
        self, suffix: str, op: str, arguments: Mapping[str, Argument], shape: tuple[int, ...], payload: Any = None
    ) -> Ref:
        """Append an operation whose output has the replaced node's dtype."""
        name = f"{self.node.name}_{suffix}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        info = TensorInfo(shape, self.node.output.dtype)
        self.nodes.append(Node(name, op, arguments, (info,), self.node.module, payload=payload))
        return Ref(name, info)

    def replacement(self, op: str, merged: tuple[str, ...] = ()) -> Replacement:
        """What was appended; ``op`` is the operation that stands for the pattern."""
        last = replace(self.nodes[-1], name=self.node.name, outputs=self.node.outputs)
        nodes = (*self.nodes[:-1], last)
        return Replacement(nodes, next(i for i, node in enumerate(nodes) if node.op == op), merged)
