"""How far two outputs of a network can be apart, whatever the inputs: the diameter of the set of its outputs.

Where every output lies within a radius rho of one centre, ||f(x) - f(y)|| <= 2 rho for all inputs x and y: probabilities and other bounded
outputs change by no more, however large the Lipschitz constant is. Several outputs count as one vector, rho^2 = sum of rho_i^2.
Two rows of probabilities p and q are at most ||p - q||_2^2 <= ||p||_2^2 + ||q||_2^2 <= 2 apart, because no entry is negative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from lipaudit.graph.node import Graph, Node
from lipaudit.graph.ops import SOFTMAX
from lipaudit.network.magnitudes import Extents
from lipaudit.rules.rule import find_rule
from lipaudit.spectral.bracket import Bracket


def output_diameter(graph: Graph, extents: Extents) -> float | None:
    """An upper bound of the diameter, from radii that were recorded over all inputs; None where the outputs are not bounded.

    In plain units; numerical: the radii that it adds up leave rounding out.
    """
    nodes = {node.name: node for node in graph}
    names = dict.fromkeys(graph.outputs)
    if not names:
        return None
    apart = [_of_rows(nodes, nodes[name]) or Bracket.exact(2.0) * extents.radii(name).total for name in names]
    diameter = Bracket.root_sum_squares(apart).upper
    return diameter if math.isfinite(diameter) else None


def _of_rows(nodes: Mapping[str, Node], node: Node) -> Bracket | None:
    """sqrt(2 rows) for an output of rows of probabilities, seen through operations that only view it; None for any other."""
    while node.op not in SOFTMAX:
        rule = find_rule(node.op)
        if rule is None or not rule.trivial or len(node.refs) != 1 or len(node.outputs) != 1:
            return None
        if math.prod(node.refs[0].info.shape) != math.prod(node.output.shape):
            return None
        node = nodes[node.refs[0].name]
    dim = node["dim"]
    if not isinstance(dim, int):
        return None
    shape = node.output.shape
    return Bracket.at_most(math.sqrt(2 * math.prod(shape) / shape[dim])) if shape and shape[dim] else None
