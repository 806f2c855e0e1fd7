"""The product rule as a bound of the whole network: L(node) = sum_i c_i L(input i), computed by :mod:`lipaudit.network.propagate`."""

from __future__ import annotations

from lipaudit.network.bound import NetworkBound, Problem


def product_rule(problem: Problem) -> NetworkBound:
    """The constants that the propagation gave the outputs; statuses other than finite are results, too."""
    return NetworkBound("product", problem.propagation.network, problem.propagation.outputs)
