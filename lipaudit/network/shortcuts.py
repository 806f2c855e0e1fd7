"""Constants of whole parts of a network, from one tensor to a later one, where operations together stretch less than one by one.

The product rule adds what the branches of a residual block do. For some blocks more is known: a step of gradient descent on a convex
potential brings two points no further apart. Each rule is a function of the node in which such a part ends, and one line in the table.
The propagation takes the smaller of the sum and the shortcut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from lipaudit.graph.node import Graph, Node
from lipaudit.network.centring import centring
from lipaudit.network.gradient_steps import gradient_step
from lipaudit.network.lanes import lanes
from lipaudit.network.part import Part, Shortcut
from lipaudit.network.sandwiches import sandwich
from lipaudit.network.skew_series import skew_exponential
from lipaudit.rules.effect import Effect
from lipaudit.spectral.oracle import CertifiedNorms, Norms
from lipaudit.spectral.work import Work

ShortcutRule: TypeAlias = Callable[[Node, Part], Shortcut | None]

# What all parts together may always take, and their share of what is allowed.
_LEAST_WORK, _SHARE = 2e10, 0.6
SHORTCUTS: tuple[ShortcutRule, ...] = (gradient_step, skew_exponential, sandwich, centring, lanes)


def find_shortcuts(graph: Graph, effects: Mapping[str, Effect], norms: Norms, work: float = 0.0) -> dict[str, Shortcut]:
    """The shortcuts of a simplified graph by the nodes in which they end; none without norms of lipaudit's own.

    Args:
        graph: the simplified graph.
        effects: of its nodes, over all inputs.
        norms: how norms are found.
        work: floating-point operations that a bound of the network may spend beyond the product rule; parts take a share.
    """
    if not isinstance(norms, CertifiedNorms):
        return {}
    shortcuts: dict[str, Shortcut] = {}
    part = Part({node.name: node for node in graph}, effects, Work(_LEAST_WORK + _SHARE * work), shortcuts)
    for node in graph:
        for rule in SHORTCUTS:
            shortcut = rule(node, part)
            if shortcut is not None:
                shortcuts[node.name] = shortcut
                break
    return shortcuts
