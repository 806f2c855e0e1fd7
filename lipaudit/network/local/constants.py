"""The constants of single operations on a domain, and whether more is known near a centre."""

from __future__ import annotations

import math

from lipaudit.graph.aliases import canonical
from lipaudit.graph.node import Graph, Node
from lipaudit.graph.ops import aten
from lipaudit.graph.passes.elementwise import ELEMENTWISE
from lipaudit.network.affine import is_affine
from lipaudit.network.local.pieces import moves
from lipaudit.network.propagate import Propagation
from lipaudit.network.rounding import errors_need_no_constants
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.entry_slopes import is_entrywise
from lipaudit.rules.rule import apply_rule, has_movement

DETACHED = set(aten("detach", "alias", "lift_fresh_copy"))
"""Operations that return their operand."""
_SMOOTH = set(
    aten(
        "square", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "sinh", "cosh",
        "pow.Tensor_Scalar", "mul.Tensor",
    )
)  # fmt: skip


def is_smooth(node: Node) -> bool:
    """Whether an operation is a function of each entry that is smooth wherever its derivative is finite."""
    return canonical(node).op in _SMOOTH


class Constants:
    """The constants of the operations of a graph on a domain, and of those that they are written as.

    Args:
        graph: the graph.
        propagation: the product rule on the domain.
    """

    def __init__(self, graph: Graph, propagation: Propagation) -> None:
        self._effects = propagation.effects
        self._operations = {node.name: node.op for node in graph}

    def are_own(self, node: Node) -> bool:
        """Whether a node is one of the graph, and no part of one, the last of which may have its name."""
        return self._operations.get(node.name) == node.op

    def effect(self, node: Node) -> Effect | None:
        """The constants of a node on the domain, of one that stands for a part of another its constants everywhere."""
        return self._effects.get(node.name) if self.are_own(node) else apply_rule(node, Settings())

    def factors(self, node: Node) -> list[float]:
        """The constants of a node in its operands; infinite where they are not known."""
        effect = self.effect(node)
        if effect is None or effect.status is not Status.FINITE or len(effect.factors) != len(node.refs):
            return [math.inf] * len(node.refs)
        return [f.upper if f.log_upper < 700 else math.inf for f in effect.factors]

    def are_followed(self, node: Node) -> bool:
        """Whether the derivative of a node is known near the centre: of others it is known that it is at most their constant."""
        if node.op == "getitem" or node.op in DETACHED or is_affine(node):
            return True
        if is_entrywise(node):  # of functions that differ from entry to entry only the slopes of all together are known
            return node.op != ELEMENTWISE or len(node.payload.programs) == 1
        if not has_movement(node) or not all(ref.info.dtype.is_floating_point for ref in node.refs):
            return False
        return moves(node) and (errors_need_no_constants(node) or all(map(math.isfinite, self.factors(node))))
