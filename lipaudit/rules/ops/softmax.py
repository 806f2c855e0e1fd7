"""Softmax, log-softmax and log-sum-exp along an axis."""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.operands import data, number, root, stretch
from lipaudit.rules.region.magnitude import Magnitude, Region
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import ceiling, rule


def _length(node: Node) -> int:
    shape = data(node, "self").shape
    return shape[int(number(node, "dim"))] if shape else 1


@rule(
    "aten.softmax.int", "aten._softmax.default",
    formula="1/2", source="J = diag(p) - p p^T, whose norm is at most 1/2", exact=True,
)  # fmt: skip
def softmax(node: Node, _settings: Settings) -> Effect:
    """||diag(p) - p p^T|| is largest at p = (1/2, 1/2, 0, ...), where it is 1/2; over one entry softmax is constant."""
    return stretch(node, {"self": 0.5 if _length(node) > 1 else 0.0})


@ceiling("aten.softmax.int", "aten._softmax.default")
def simplex(node: Node, _operands: tuple[Magnitude, ...]) -> Region | None:
    """Probabilities: no entry above 1, no slice of a norm above 1."""
    shape = node.output.shape
    return Region((Radii.of(shape, {(): 1.0, (int(number(node, "dim")),): 1.0}),), 0.0) if shape else None


@rule(
    "aten.log_softmax.int", "aten._log_softmax.default",
    formula="sqrt(n)", source="J = I - 1 p^T is an oblique projection of norm sqrt(n) ||p||", exact=True,
)  # fmt: skip
def log_softmax(node: Node, _settings: Settings) -> Effect:
    """||I - 1 p^T|| = ||1 p^T|| = sqrt(n) ||p|| <= sqrt(n) over n > 1 entries, approached at unit vectors p."""
    length = _length(node)
    return stretch(node, {"self": root(length) if length > 1 else 0.0})


@rule("aten.logsumexp.default", formula="1", source="the gradient is a softmax, of norm at most 1", exact=True)
def logsumexp(node: Node, _settings: Settings) -> Effect:
    """The gradient is the vector of softmax probabilities; ||p|| <= 1, approached as p tends to a unit vector."""
    return stretch(node, {"self": 1.0})
