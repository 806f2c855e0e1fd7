"""Activations that arrive written out, such as x * sigmoid(x) or 0.5 * x * (1 + erf(x / sqrt(2))).

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
from lipaudit.graph.functions.normal_form_slope import slope_bound
from lipaudit.graph.node import Node, Ref
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch
from lipaudit.spectral.bracket import Bracket

ACTIVATION = "lipaudit.activation"  # what a recognised activation is called in a simplified graph
# A written-out activation has at most about a dozen operations.
_MAX_OPERATIONS = 32
_NO_ACTIVATION_BEFORE = NoMatch("a constant factor of what is no recognised activation")
_NO_NORMAL_FORM = NoMatch("no polynomial in x and in one function of x, for any tensor x before it")
_NO_SLOPE = NoMatch("the slope of the normal form has no known supremum")

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
class _Recognised:
    """An activation, the tensor that it is a function of, the product it was recognised at, and the nodes between."""

    activation: Activation
    source: Ref
    product: Node
    between: tuple[str, ...]


def matcher(index: GraphIndex) -> Matcher:
    """Matches written-out activations, and constant factors after them."""
    chain = _Chain(index.producers, index.position)
    before: dict[str, _Recognised] = {}

    def match(node: Node) -> Match | NoMatch:
        if node.op not in PRODUCTS or not node.output.dtype.is_floating_point:
            return OTHER_OPERATION
        recognised = _recognised(node, before, chain)
        if isinstance(recognised, NoMatch):
            return recognised
        before[node.name] = recognised
        new = replace(
            node,
            op=ACTIVATION,
            arguments={"self": recognised.source},
            module=recognised.product.module,
            payload=recognised.activation,
        )
        return Match((new,), merged=recognised.between)

    return match


def _recognised(node: Node, before: Mapping[str, _Recognised], chain: _Chain) -> _Recognised | NoMatch:
    if len(node.refs) == 1:  # a constant factor after a recognised product
        inner = before.get(node.refs[0].name)
        if inner is None:
            return _NO_ACTIVATION_BEFORE
        sources, product = [inner.source], inner.product
    else:
        sources, product = chain.sources(node), node
    reason = _NO_NORMAL_FORM
    for source in sources:
        phi, between = chain.function(node, source)
        if phi is None:
            continue
        bound = slope_bound(phi)
        if bound is not None:
            return _Recognised(Activation(phi, bound), source, product, between)
        reason = _NO_SLOPE
    return reason


@dataclass(frozen=True)
class _Chain:
    """The nodes of a graph by name, and their places in topological order."""

    producers: Mapping[str, Node]
    position: Mapping[str, int]

    def sources(self, node: Node) -> list[Ref]:
        """The tensors of the node's shape and type that element-wise operations lead from to it, nearest first."""
        sources: dict[str, Ref] = {}
        waiting = list(node.refs)
        while waiting and len(sources) < _MAX_OPERATIONS:
            ref = waiting.pop(0)
            if ref.name not in sources and ref.info == node.output:
                sources[ref.name] = ref
                waiting += operands(self.producers[ref.name])
        return sorted(sources.values(), key=lambda ref: -self.position[ref.name])

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
