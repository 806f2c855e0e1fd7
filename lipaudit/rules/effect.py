"""What a rule says of one operation: how far each of its inputs can stretch a difference, and what is known of that."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.oracle import CertifiedNorms, Norms


class Status(StrEnum):
    """What is known of a constant."""

    FINITE = "finite"
    UNBOUNDED = "unbounded"  # no finite constant holds over all inputs
    UNSUPPORTED = "unsupported"  # no rule: nothing is claimed


class Combination(StrEnum):
    """How the constants of several data-dependent inputs combine: L_out = sum_i c_i L_i, sqrt(sum_i (c_i L_i)^2) or max_i c_i L_i."""

    SUM = "sum"  # f(x, y) = f1(x) + f2(y), the general triangle inequality
    ROOT_SUM_SQUARES = "root_sum_squares"  # the inputs land in disjoint entries, or one entry picks one input
    MAXIMUM = "maximum"  # the same in the l-infinity norm

    @property
    def power(self) -> float:
        """p of the sum (sum_i (c_i L_i)^p)^(1/p)."""
        return {Combination.SUM: 1.0, Combination.ROOT_SUM_SQUARES: 2.0, Combination.MAXIMUM: math.inf}[self]

    def total(self, terms: Iterable[Bracket]) -> Bracket:
        """What the terms c_i L_i make together."""
        joins = {
            Combination.SUM: Bracket.sum,
            Combination.ROOT_SUM_SQUARES: Bracket.root_sum_squares,
            Combination.MAXIMUM: Bracket.maximum,
        }
        return joins[self](terms)


@dataclass(frozen=True)
class Settings:
    """What a rule may need to know beside its node: how the norms of linear maps are found."""

    norms: Norms = field(default_factory=CertifiedNorms)


@dataclass(frozen=True)
class Effect:
    """What a rule says of one operation.

    ``factors`` holds one constant per entry of ``node.refs`` (same order): the Lipschitz constant of the operation in
    that input, the others held fixed. ``combination`` says how they join. ``reason`` explains a status other than finite
    and what could be done about it. ``note`` is a short remark for the report (for example "grid 57x57").
    ``given`` is the effect as a function of the operands' magnitudes, one per entry of ``node.refs``, for an operation
    without a constant over all inputs that has one where its operands are bounded.
    """

    status: Status
    factors: tuple[Bracket, ...] = ()
    combination: Combination = Combination.SUM
    reason: str = ""
    note: str = ""
    given: Callable[[tuple[Magnitude, ...]], Effect] | None = None

    @classmethod
    def stretch(cls, *factors: Bracket | float, combination: Combination = Combination.SUM, note: str = "") -> Effect:
        """A finite effect; plain floats are exactly known constants."""
        brackets = tuple(f if isinstance(f, Bracket) else Bracket.exact(f) for f in factors)
        if any(b.log_upper == math.inf for b in brackets):
            return cls.unbounded("the constant does not fit any finite number")
        return cls(Status.FINITE, brackets, combination, note=note)

    @classmethod
    def unbounded(cls, reason: str) -> Effect:
        """No finite constant holds over all inputs."""
        return cls(Status.UNBOUNDED, reason=reason)

    @classmethod
    def where_bounded(cls, reason: str, given: Callable[[tuple[Magnitude, ...]], Effect]) -> Effect:
        """No finite constant holds over all inputs; ``given`` says what does where the operands are bounded."""
        return cls(Status.UNBOUNDED, reason=reason, given=given)

    @classmethod
    def unsupported(cls, reason: str) -> Effect:
        """Nothing can be claimed about this use of the operation."""
        return cls(Status.UNSUPPORTED, reason=reason)

    @property
    def constant(self) -> Bracket:
        """One figure for the report: the factors joined as if every input had constant 1."""
        return self.factors[0] if len(self.factors) == 1 else self.combination.total(self.factors)

    @property
    def rigor(self) -> Rigor:
        """The weakest rigor among the factors."""
        return Rigor.weakest(f.rigor for f in self.factors)
