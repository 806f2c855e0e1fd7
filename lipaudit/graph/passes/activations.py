"""Recognition of activations that arrive written out, such as x * sigmoid(x) or 0.5 * x * (1 + erf(x / sqrt(2))).

Operation by operation they are products of two data-dependent tensors, which have no finite constant. As functions of
the one tensor that both factors are computed from they have: the supremum of |slope|. A product is replaced where all
operations between that tensor and the product act on each element by itself, with uniform constants, and their
composition has a normal form with a known supremum. Everything else stays as it was.

This must run before constant additions are dropped: clamp(x + 3, 0, 6) is not clamp(x, 0, 6) inside a product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from lipaudit.graph.functions.normal_form import PRODUCTS, Expression, constant, express, number, operands
from lipaudit.graph.functions.slope import slope_bound
from lipaudit.graph.node import Graph, Node, Ref
from lipaudit.graph.rewrite import Replacement, substitute
from lipaudit.spectral.bracket import Bracket

ACTIVATION = "lipaudit.activation"  # what a recognised activation is called in a simplified graph
# A written-out activation has at most about a dozen operations.
_MAX_OPERATIONS = 32

_NAMES = {
    "x sigmoid(x)": "silu",
    "0.5 x + 0.5 x erf(0.70711 x)": "gelu",
    "0.5 x + 0.5 x tanh(0.035677 x^3 + 0.79788 x)": "gelu (tanh)",
    "0.16667 x clamp(x + 3, 0, 6)": "hardswish",
    "x clamp(0.16667 x + 0.5, 0, 1)": "hardswish",
    "x tanh(softplus(x))": "mish",
}


@dataclass(frozen=True)
class Activation:
    """An element-wise function; ``constant`` is the supremum of its |slope| over the real line."""

    expression: Expression
    constant: Bracket

    @property
    def formula(self) -> str:
        """The function with numbers to five digits."""
        return str(self.expression)

    @property
    def name(self) -> str:
        """What the function is called, ``""`` where it has no name."""
        return _NAMES.get(self.formula, "")

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """The function at every element of ``x``."""
        return self.expression.evaluate(x)


@dataclass(frozen=True)
class _Match:
    """An activation, the tensor that it is a function of, the product it was recognised at, and the nodes between."""

    activation: Activation
    source: Ref
    product: Node
    between: tuple[str, ...]


def recognise_activations(graph: Graph) -> Graph:
    """Replace written-out activations by nodes that carry their constant.

    Constant factors after them are taken in, operations that nothing else reads disappear.
    """
    chain = _Chain({n.name: n for n in graph}, {n.name: i for i, n in enumerate(graph)})
    matches: dict[str, _Match] = {}
    for node in graph:
        found = _match(node, matches, chain)
        if found is not None:
            matches[node.name] = found
    replacements = {
        name: Replacement((_activation_node(chain.producers[name], match),), 0, match.between)
        for name, match in matches.items()
    }
    return substitute(graph, replacements)


def _activation_node(node: Node, match: _Match) -> Node:
    return replace(
        node, op=ACTIVATION, arguments={"self": match.source}, module=match.product.module, payload=match.activation
    )


def _match(node: Node, matches: Mapping[str, _Match], chain: _Chain) -> _Match | None:
    if node.op not in PRODUCTS or not node.output.dtype.is_floating_point:
        return None
    if len(node.refs) == 1:  # a constant factor after a recognised product
        before = matches.get(node.refs[0].name)
        if before is None:
            return None
        sources, product = [before.source], before.product
    else:
        sources, product = chain.sources(node), node
    for source in sources:
        phi, between = chain.function(node, source)
        bound = slope_bound(phi) if phi is not None else None
        if phi is not None and bound is not None:
            return _Match(Activation(phi, bound), source, product, between)
    return None


@dataclass(frozen=True)
class _Chain:
    """The nodes of a graph by name, and their places in topological order."""

    producers: Mapping[str, Node]
    position: Mapping[str, int]

    def sources(self, node: Node) -> list[Ref]:
        """The tensors of the node's shape and type that element-wise operations lead from to it, nearest first."""
        found: dict[str, Ref] = {}
        waiting = list(node.refs)
        while waiting and len(found) < _MAX_OPERATIONS:
            ref = waiting.pop(0)
            if ref.name not in found and ref.info == node.output:
                found[ref.name] = ref
                waiting += operands(self.producers[ref.name])
        return sorted(found.values(), key=lambda ref: -self.position[ref.name])

    def function(self, node: Node, source: Ref) -> tuple[Expression | None, tuple[str, ...]]:
        """The node's output as a function of ``source`` alone (None if it has no normal form), and the nodes between."""
        known: dict[str, Expression | None] = {source.name: Expression.variable()}

        def operand_of(current: Node) -> Callable[[str], Expression | None]:
            def operand(key: str) -> Expression | None:
                argument = current[key]
                if not isinstance(argument, Ref):
                    value = number(argument)
                    return None if value is None else constant(value)
                if argument.name not in known:
                    elsewhere = self.position[argument.name] < self.position[source.name]
                    producer = self.producers[argument.name]
                    same = not elsewhere and argument.info == source.info
                    known[argument.name] = express(producer, operand_of(producer)) if same else None
                return known[argument.name]

            return operand

        phi = express(node, operand_of(node)) if node.output == source.info else None
        between = sorted(set(known) - {source.name}, key=lambda name: self.position[name])
        return phi, tuple(between)
