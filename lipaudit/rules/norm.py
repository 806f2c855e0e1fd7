"""The norms of inputs and outputs in which a network is bounded: l2, l-infinity (the largest entry), l1 (the sum of moduli).

Several tensors are one vector. Of tensors in disjoint entries the norm is the root of the sum of squares, the largest, or the sum of
their norms; constants of parts of an output join in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

from lipaudit.spectral.bracket import Bracket


class Norm(StrEnum):
    """A norm of vectors, the same for inputs and outputs."""

    L2 = "l2"
    LINF = "linf"
    L1 = "l1"

    @property
    def power(self) -> float:
        """p of the norm (sum_i |x_i|^p)^(1/p)."""
        return {Norm.L2: 2.0, Norm.LINF: math.inf, Norm.L1: 1.0}[self]

    def of_parts(self, constants: Iterable[Bracket]) -> Bracket:
        """The constant of several outputs as one vector, from those of each.

        >>> [round(norm.of_parts([Bracket.exact(3.0), Bracket.exact(4.0)]).upper, 9) for norm in Norm]
        [5.0, 4.0, 7.0]
        """
        joins = {Norm.L2: Bracket.root_sum_squares, Norm.LINF: Bracket.maximum, Norm.L1: Bracket.sum}
        return joins[self](constants)
