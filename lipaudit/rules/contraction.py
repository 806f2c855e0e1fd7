"""Products of two data-dependent tensors: gating, matrix products, bilinear pooling, all as one contraction.

In the notation of :mod:`lipaudit.graph.contraction` the product is linear in each operand: da -> contraction(da, b) has a norm of at most

    max over the shared indices of ||slice of b over its other axes||_F,

where an index is shared if a, b and the output all have it: along these the map is block diagonal, one block per value,
and a block's norm is at most its Frobenius norm (Cauchy-Schwarz). For a product of equal shapes that is max|b|; for a
gate s broadcast over the positions of a it is max|s| for a and, for s, the largest l2 norm of a slice of a that shares
an entry of s; for a matrix product the Frobenius norm of the other matrix (bounds.md section 6).
"""

from __future__ import annotations

from collections.abc import Set

from lipaudit.graph.contraction import Contraction
from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.spectral.bracket import Bracket


def product_factors(product: Contraction, left: Magnitude, right: Magnitude) -> tuple[Bracket, Bracket]:
    """The constants in the left and in the right operand, the other one held fixed."""
    shared = product.shared
    return (
        right.size(_without(product.right, shared)),
        left.size(_without(product.left, shared)),
    )


def product_effect(product: Contraction, left: Magnitude, right: Magnitude) -> Effect:
    """The effect of the product in both operands."""
    return Effect.stretch(*product_factors(product, left, right))


def product_radii(product: Contraction, node: Node, left: Magnitude, right: Magnitude) -> Radii:
    """How far the product strays from the product of the centres: |a b - c_a c_b| <= |da b| + |c_a db|."""
    shape = node.outputs[0].shape
    everything = frozenset(range(len(shape)))
    wanted = {frozenset(), everything}
    wanted |= {_of_output(product, product.left, axes) for axes in left.radii.logs}
    wanted |= {_of_output(product, product.right, axes) for axes in right.radii.logs}
    bounds: dict[tuple[int, ...], float | Bracket] = {}
    for axes in wanted:
        fixed = {index for axis, index in enumerate(product.output) if axis not in axes}
        shared = product.shared - fixed
        here, there = _without(product.left, fixed), _without(product.right, fixed)
        here_once, there_once = _without(product.left, fixed | shared), _without(product.right, fixed | shared)
        moved = _least(left.spread(here) * right.size(there_once), left.spread(here_once) * right.size(there))
        rest = _least(
            left.centre_size(here) * right.spread(there_once), left.centre_size(here_once) * right.spread(there)
        )
        bounds[tuple(axes)] = Bracket.sum([moved, rest])
    return Radii.of(shape, bounds).sharpest()


def _of_output(product: Contraction, indices: tuple[str | None, ...], axes: frozenset[int]) -> frozenset[int]:
    chosen = {indices[axis] for axis in axes} - {None}
    return frozenset(axis for axis, index in enumerate(product.output) if index in chosen)


def _without(indices: tuple[str | None, ...], left_out: Set[str]) -> tuple[int, ...]:
    return tuple(axis for axis, index in enumerate(indices) if index is None or index not in left_out)


def _least(*brackets: Bracket) -> Bracket:
    return min(brackets, key=lambda b: b.log_upper)
