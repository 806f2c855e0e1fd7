"""Centring: x minus its mean over some axes is an orthogonal projection, with the constant 1; the product rule says 2."""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.network.part import Part, Shortcut
from lipaudit.spectral.bracket import Bracket


def centring(node: Node, part: Part) -> Shortcut | None:
    """The constant of x - mean(x), the mean kept as axes of one entry."""
    if node.op != "aten.sub.Tensor" or node["alpha"] != 1 or len(node.refs) != 2:
        return None
    whole, mean = part.node(node["self"]), part.node(node["other"])
    if whole is None or mean is None or mean.op != "aten.mean.dim" or part.before(mean) is not whole:
        return None
    kept = mean["keepdim"] is True and whole.output.shape == node.output.shape
    return Shortcut(whole.name, Bracket.at_most(1.0), "centring") if kept else None
