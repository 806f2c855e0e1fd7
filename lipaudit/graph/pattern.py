"""Patterns: what is recognised at a node of a graph, what takes its place, and why nothing was recognised.

A *matcher* reads one node, and the nodes before it, and answers with a :class:`Match` or with :class:`NoMatch`, whose reason says what was
missing. :func:`replace_patterns` puts every match of a graph in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from lipaudit.graph.node import Argument, Graph, Node, Ref, TensorInfo
from lipaudit.graph.ops import VIEWS
from lipaudit.graph.rewrite import drop_unread, label, rebuild


@dataclass(frozen=True)
class Match:
    """A pattern that ends at one node, and what takes its place: ``nodes``, of which the last has that node's name and output.

    ``merged`` names nodes that the pattern went through. Those that nothing else reads disappear; ``nodes[core]``, the
    one that stands for the pattern, lists them among its sources.
    """

    nodes: tuple[Node, ...]
    core: int = 0
    merged: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoMatch:
    """Nothing was recognised at a node, and why not."""

    reason: str


OTHER_OPERATION = NoMatch("no operation that such a pattern ends with")
Matcher: TypeAlias = Callable[[Node], Match | NoMatch]


@dataclass(frozen=True, eq=False)
class GraphIndex:
    """A graph with its nodes by name."""

    graph: Graph

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return {node.name: node for node in self.graph}

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The place of every node in topological order."""
        return {node.name: i for i, node in enumerate(self.graph)}


def replace_patterns(graph: Graph, matcher_of: Callable[[GraphIndex], Matcher]) -> Graph:
    """The graph with every match in place; ``matcher_of`` gives the matcher of a graph, which is asked node by node, in order."""
    answers = match_all(graph, matcher_of)
    matches = {node.name: answer for node, answer in answers if isinstance(answer, Match)}
    return substitute(graph, matches) if matches else graph


def match_all(graph: Graph, matcher_of: Callable[[GraphIndex], Matcher]) -> Iterator[tuple[Node, Match | NoMatch]]:
    """Every node, in topological order, with what the matcher says of it."""
    match = matcher_of(GraphIndex(graph))
    for node in graph:
        yield node, match(node)


def substitute(graph: Graph, matches: Mapping[str, Match]) -> Graph:
    """The graph with every named node replaced, without what nothing reads any more."""
    nodes: list[Node] = []
    for node in graph:
        nodes += matches[node.name].nodes if node.name in matches else (node,)
    replaced = drop_unread(replace(graph, nodes=tuple(nodes)))
    kept = {node.name for node in replaced}
    producers = {node.name: node for node in graph}
    gone = {
        match.nodes[match.core].name: [producers[name] for name in match.merged if name not in kept]
        for match in matches.values()
        if match.merged
    }

    def credit(node: Node) -> Node | None:
        if node.name not in gone:
            return None
        merged = (s for n in gone[node.name] for s in (*n.sources, label(n)))
        return replace(node, sources=tuple(s for s in dict.fromkeys((*node.sources, *merged)) if s != label(node)))

    return rebuild(replaced, credit)


class NewNodes:
    """Nodes in the place of one, appended one by one; all but the last get names derived from its name."""

    def __init__(self, index: GraphIndex, node: Node) -> None:
        self.node, self.nodes = node, list[Node]()
        self._index, self._names = index, set[str]()

    def add(
        self, suffix: str, op: str, arguments: Mapping[str, Argument], shape: tuple[int, ...], payload: Any = None
    ) -> Ref:
        """Append an operation whose output has the replaced node's dtype."""
        name = f"{self.node.name}_{suffix}"
        while name in self._names or name in self._index.producers:
            name += "_"
        self._names.add(name)
        info = TensorInfo(shape, self.node.output.dtype)
        self.nodes.append(Node(name, op, arguments, (info,), self.node.module, payload=payload))
        return Ref(name, info)

    def match(self, op: str, merged: tuple[str, ...] = ()) -> Match:
        """What was appended, as a match; ``op`` is the operation that stands for the pattern."""
        last = replace(self.nodes[-1], name=self.node.name, outputs=self.node.outputs)
        nodes = (*self.nodes[:-1], last)
        return Match(nodes, next(i for i, node in enumerate(nodes) if node.op == op), merged)


def adds_axis(node: Node, axis: int) -> bool:
    """Whether a view adds an axis of one entry at the place ``axis``, and nothing else.

    >>> import torch
    >>> source = Ref("x", TensorInfo((2, 3), torch.float32))
    >>> view = Node("y", "aten.unsqueeze.default", {"self": source, "dim": 1}, (TensorInfo((2, 1, 3), torch.float32),))
    >>> adds_axis(view, 1), adds_axis(view, 0)
    (True, False)
    """
    before = node.refs[0].info.shape
    return node.op in VIEWS and node.output.shape == (*before[:axis], 1, *before[axis:])
