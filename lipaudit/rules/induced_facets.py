"""Constants in the l-infinity and l1 norm that many operations share, from their constants in the l2 norm.

- A function of each entry, a bijection of the entries, a sorting: the same constant in every norm.
- An operation each of whose entries picks at most one entry of its inputs, so that its Jacobian has at most a single one per row: its
  constant is sqrt(c) in the l2 norm, c the largest number of times that one entry is picked, c in the l1 norm and 1 in the l-infinity norm.

Where the inputs land in disjoint entries, or every entry picks one of several inputs, their constants join as a maximum in the
l-infinity norm; in the l1 norm they add.
"""

from __future__ import annotations

import math
from dataclasses import replace

from lipaudit.graph.node import Node
from lipaudit.rules.effect import Combination, Effect
from lipaudit.rules.norm import Norm
from lipaudit.spectral.bracket import Bracket

_ONE = Bracket.exact(1.0)


def same_in_every_norm(_node: Node, effect: Effect, norm: Norm) -> Effect:
    """The constants of the l2 norm."""
    return replace(effect, combination=combination_in(norm, effect.combination), given=None)


def picked(_node: Node, effect: Effect, norm: Norm) -> Effect:
    """1 in the l-infinity norm, the square of the l2 constant in the l1 norm; 0 where nothing is picked."""
    if norm is Norm.LINF:
        factors = tuple(f if f.log_upper == -math.inf else _ONE for f in effect.factors)
    else:
        factors = tuple(f * f for f in effect.factors)
    return replace(effect, factors=factors, combination=combination_in(norm, effect.combination), given=None)


def adjoint_of_picked(_node: Node, effect: Effect, norm: Norm) -> Effect:
    """For an operation that adds up what is picked, whose Jacobian has at most a single one per column: the norms change places."""
    other = {Norm.LINF: Norm.L1, Norm.L1: Norm.LINF}[norm]
    return replace(picked(_node, effect, other), combination=combination_in(norm, effect.combination))


def combination_in(norm: Norm, combination: Combination) -> Combination:
    """How constants that join as the root of the sum of squares in the l2 norm do in another one."""
    if combination is Combination.SUM or norm is Norm.L1:
        return Combination.SUM
    return Combination.MAXIMUM
