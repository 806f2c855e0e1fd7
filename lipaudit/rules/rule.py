"""One registry from operation to rule.

A rule is a function of one node that says how much the operation can stretch a perturbation of its data-dependent
inputs. It is registered by ATen overload name; registering a name twice raises. An operation without a rule is
``unsupported``; it is never counted as 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from lipaudit.errors import MethodError, RegistryError
from lipaudit.graph.node import Node
from lipaudit.rules.inexact_constants import numerical, without_margin
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.oracle import CertifiedNorms, Norms

if TYPE_CHECKING:
    from lipaudit.rules.region.magnitude import Magnitude


class Status(StrEnum):
    """What is known of a constant."""

    FINITE = "finite"
    UNBOUNDED = "unbounded"  # no finite constant holds over all inputs
    UNSUPPORTED = "unsupported"  # no rule: nothing is claimed


class Combination(StrEnum):
    """How the constants of several data-dependent inputs combine: L_out = sum_i c_i L_i or sqrt(sum_i (c_i L_i)^2)."""

    SUM = "sum"  # f(x, y) = f1(x) + f2(y), the general triangle inequality
    ROOT_SUM_SQUARES = "root_sum_squares"  # the inputs land in disjoint entries, or one entry picks one input


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
        join = Bracket.sum if self.combination is Combination.SUM else Bracket.root_sum_squares
        return self.factors[0] if len(self.factors) == 1 else join(self.factors)

    @property
    def rigor(self) -> Rigor:
        """The weakest rigor among the factors."""
        return Rigor.weakest(f.rigor for f in self.factors)


RuleFunction: TypeAlias = Callable[[Node, Settings], Effect]


@dataclass(frozen=True)
class Rule:
    """A registered rule: ``formula`` in one line of plain text, ``source`` names the theorem or section it rests on.

    ``exact`` claims that the factor equals the operation's true constant (up to the tolerance); conformance checks it.
    ``two_sided`` says that the factor's lower end is a lower bound of the operation's true constant (always so if exact).
    ``entrywise`` says that the factor bounds the slope of a function of each entry by itself.
    ``trivial`` marks operations that neither stretch nor compute anything (views, dropout in eval mode): they get no row
    in the report's table of layers.
    ``where_bounded`` marks operations that, for some operands, have a constant only where those are bounded
    (:meth:`Effect.where_bounded`); no other rule may say so.
    ``complex_numbers`` marks operations whose rule holds for complex tensors as well, the norm being that of real and
    imaginary parts together; every other rule is asked about real tensors only.
    ``covers`` says of a node whether the rule is one for its form of the operation; any other form is decomposed.
    """

    name: str
    ops: tuple[str, ...]
    function: RuleFunction
    formula: str
    source: str
    exact: bool = False
    two_sided: bool = False
    trivial: bool = False
    entrywise: bool = False
    where_bounded: bool = False
    complex_numbers: bool = False
    covers: Callable[[Node], bool] | None = None


_RULES: dict[str, Rule] = {}


def rule(
    *ops: str,
    formula: str,
    source: str,
    exact: bool = False,
    two_sided: bool = False,
    trivial: bool = False,
    entrywise: bool = False,
    where_bounded: bool = False,
    complex_numbers: bool = False,
    covers: Callable[[Node], bool] | None = None,
) -> Callable[[RuleFunction], RuleFunction]:
    """Register the decorated function as the rule for every overload name in ``ops``."""

    def register(function: RuleFunction) -> RuleFunction:
        entry = Rule(
            function.__name__,
            ops,
            function,
            formula,
            source,
            exact=exact,
            two_sided=exact or two_sided,
            trivial=trivial,
            entrywise=entrywise,
            where_bounded=where_bounded,
            complex_numbers=complex_numbers,
            covers=covers,
        )
        for op in ops:
            if op in _RULES:
                raise RegistryError(f"{op} has two rules: {_RULES[op].name} and {entry.name}")
            _RULES[op] = entry
        return function

    return register


def find_rule(op: str) -> Rule | None:
    """The rule for an overload name, or None."""
    return _RULES.get(op)


def has_rule(node: Node) -> bool:
    """Whether a rule is registered for a node's operation, in the form that it has there."""
    entry = _RULES.get(node.op)
    return entry is not None and (entry.covers is None or entry.covers(node))


def all_rules() -> dict[str, Rule]:
    """Every registered rule by overload name."""
    return dict(_RULES)


def apply_rule(node: Node, settings: Settings) -> Effect:
    """The effect of a node; ``unsupported`` where no rule is registered."""
    entry = _RULES.get(node.op)
    if entry is None:
        return Effect.unsupported(f"no rule for {node.op}")
    if not entry.complex_numbers and any(t.dtype.is_complex for t in (*(r.info for r in node.refs), *node.outputs)):
        return Effect.unsupported(f"the rule of {node.op} holds for real tensors only, and one here is complex")
    undefined = [key for key, value in node.arguments.items() if isinstance(value, float) and math.isnan(value)]
    if undefined:
        return Effect.unsupported(f"the argument {undefined[0]} of {node.op} is NaN")
    try:
        effect = entry.function(node, settings)
    except MethodError as error:
        return Effect.unsupported(str(error))
    if effect.status is Status.FINITE and len(effect.factors) != len(node.refs):
        raise RegistryError(
            f"rule {entry.name} gave {len(effect.factors)} factors for {len(node.refs)} inputs of {node.name}"
        )
    if effect.given is not None and not entry.where_bounded:
        raise RegistryError(
            f"rule {entry.name} needs bounded operands of {node.name} but is not registered where_bounded"
        )
    return numerical(effect) if without_margin(node) else effect
