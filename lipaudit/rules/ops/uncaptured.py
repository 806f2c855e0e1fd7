"""What stands for the parts of a network that could not be captured: nothing is claimed about it."""

from __future__ import annotations

from lipaudit.graph.capture.layerwise import UNCAPTURED
from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.rule import operations


@operations(UNCAPTURED).constant(formula="nothing is claimed", source="the network is no single graph of operations")
def uncaptured(node: Node, _settings: Settings) -> Effect:
    """Everything between the layers of a network that was not captured."""
    return Effect.unsupported(str(node.payload))
