"""One registry from operation to rule.

A rule is a function of one node that says how much the operation can stretch a perturbation of its data-dependent
inputs. It is registered by ATen overload name; registering a name twice raises. An operation without a rule is
``unsupported``; it is never counted as 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias, TypeVar

from lipaudit.errors import MethodError, RegistryError
from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.inexact_constants import numerical, without_margin
from lipaudit.rules.region.magnitude import Magnitude, Region
from lipaudit.rules.region.radii import Radii
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

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


PassFunction: TypeAlias = Callable[[Node, Effect, tuple[Magnitude, ...]], tuple[Radii, ...]]
CeilingFunction: TypeAlias = Callable[[Node, tuple[Magnitude, ...]], Region | None]
RangeFunction: TypeAlias = Callable[[Node, tuple[Interval, ...]], Interval | tuple[Interval, ...]]
_Range = TypeVar("_Range", bound=RangeFunction)

_PASSES: dict[str, PassFunction] = {}
_CEILINGS: dict[str, CeilingFunction] = {}
_RANGES: dict[str, RangeFunction] = {}


def _register(table: dict[str, Callable[..., object]], ops: Iterable[str], function: Callable[..., object]) -> None:
    for op in ops:
        if op in table:
            raise RegistryError(f"{op} is registered twice: {table[op].__name__} and {function.__name__}")
        table[op] = function


def passes(*ops: str) -> Callable[[PassFunction], PassFunction]:
    """Register how the named operations pass radii on."""

    def register(function: PassFunction) -> PassFunction:
        _register(_PASSES, ops, function)  # type: ignore[arg-type]
        return function

    return register


def ceiling(*ops: str) -> Callable[[CeilingFunction], CeilingFunction]:
    """Register a region that holds the output of the named operations for every input."""

    def register(function: CeilingFunction) -> CeilingFunction:
        _register(_CEILINGS, ops, function)  # type: ignore[arg-type]
        return function

    return register


def ranged(*ops: str) -> Callable[[_Range], _Range]:
    """Register the interval that holds every entry of the output of the named operations."""

    def register(function: _Range) -> _Range:
        _register(_RANGES, ops, function)  # type: ignore[arg-type]
        return function

    return register


def passed(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The radii of a node's outputs around the image of its operands' centres."""
    if not any(operand.radii.finite for operand in operands):
        return tuple(Radii(o.shape) for o in node.outputs)
    if (function := _PASSES.get(node.op)) is not None:
        return function(node, effect, operands)
    return whole(node, effect, operands)


def whole(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The radius of the whole tensor only: the constants times those of the operands."""
    total = Bracket.sum([c * m.radii.total for c, m in zip(effect.factors, operands, strict=True)])
    return tuple(Radii.of(o.shape, {tuple(range(len(o.shape))): total}) for o in node.outputs)


def held(node: Node, operands: tuple[Magnitude, ...]) -> Region | None:
    """The region that holds a node's output whatever its input is, None if there is none."""
    function = _CEILINGS.get(node.op)
    return None if function is None else function(node, operands)


def interval_of(node: Node, intervals: tuple[Interval, ...], output: int | None = None) -> Interval:
    """The interval that holds every entry of a node's outputs, or of one of them."""
    function = _RANGES.get(node.op)
    found = Interval() if function is None else function(node, intervals)
    if isinstance(found, Interval):
        return found
    return found[output] if output is not None else reduce(Interval.union, found)
