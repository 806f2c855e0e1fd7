"""Local response normalisation, as the graph recognises it."""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.graph.passes.local_response_norm import RESPONSE_NORM
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.rule import operations


@operations(RESPONSE_NORM).constant(
    formula="k^-b (1 + 2 sqrt(m) (b / (b + 1))^(b+1)) for x / (k + a sum x^2)^b over windows of m channels",
    source="Jacobian diag(D^-b) - M, row by row by Cauchy-Schwarz",
)
def response_norm(node: Node, _settings: Settings) -> Effect:
    """A channel over a power of the squares of its neighbours."""
    return Effect.stretch(node.payload.constant, note=f"windows of {node.payload.windows} channels")
