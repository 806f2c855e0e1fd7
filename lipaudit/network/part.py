"""What a rule for a part of a network reads, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.network.entrywise import returns_its_operand
from lipaudit.rules.effect import Effect
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.work import Work


@dataclass(frozen=True)
class Shortcut:
    """|dy| <= factor |dx| for the node that has the shortcut, x the tensor ``source``.

    ``kind`` says what lies between. ``whole`` says that forms take it for one step: they would rarely prove less of its operations one
    by one.
    """

    source: str
    factor: Bracket
    kind: str
    whole: bool = False


@dataclass(frozen=True)
class Part:
    """The nodes of a simplified graph by name, their effects over all inputs, and the operations that rules may spend on all parts."""

    producers: Mapping[str, Node]
    effects: Mapping[str, Effect]
    work: Work = field(default_factory=lambda: Work(0.0))
    shortcuts: Mapping[str, Shortcut] = field(default_factory=dict)
    """Those of earlier nodes."""

    def node(self, argument: Argument) -> Node | None:
        """The operation that computes a tensor, without those that return it as it is; None for what is no tensor."""
        if not isinstance(argument, Ref):
            return None
        node = self.producers[argument.name]
        while returns_its_operand(node):
            node = self.producers[node.refs[0].name]
        return node

    def before(self, node: Node) -> Node | None:
        """The operation that computes the only tensor that a node reads; None where it reads several, or none."""
        return self.node(node.refs[0]) if len(node.refs) == 1 else None
