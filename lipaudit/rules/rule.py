"""One registry of operations, each with up to seven facets side by side.

- **constant**: how far the operation can stretch a difference of its inputs (:class:`Rule`). An operation without one is
  ``unsupported``; it is never counted as 1.
- **radii**: how far the outputs stray from the image of the inputs' centres, along which axes (:mod:`lipaudit.rules.region.radii`).
  Without this facet the whole tensor is followed with the constant.
- **region**: a region that holds the output whatever the input is (a softmax, a normalised row), around a centre of its own.
- **interval**: an interval that holds every entry of the output, from those of the inputs. Without it nothing is claimed.
- **pull_back**: a quadratic form on the output carried back to the inputs (:mod:`lipaudit.rules.pull_back`).
- **movement**: how far the Jacobian can move while the inputs stay near a centre (:mod:`lipaudit.rules.movement`). Functions of each entry
  need none: it follows from their slopes (:mod:`lipaudit.rules.entry_slopes`).
- **induced_norm**: the constant in the l-infinity and l1 norm, given that in the l2 norm (:mod:`lipaudit.rules.induced_facets`). Without
  it the operation is ``unsupported`` in these norms.

:func:`operations` names operations by their overloads, ``operations("aten.tanh.default").constant(...)``; its methods register facets for
all of them. A second facet of one kind for one operation is an error.

An alias (:data:`lipaudit.graph.ops.ALIASES`) has the facets of its operation, and can have none of its own: what asks for a facet
translates the node first. ``docs/adding_an_operation.md`` registers an operation with every facet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias, TypeVar

from lipaudit.errors import MethodError, RegistryError
from lipaudit.graph.aliases import canonical
from lipaudit.graph.node import Node
from lipaudit.graph.ops import ALIASES
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.induced_facets import same_in_every_norm
from lipaudit.rules.inexact_constants import numerical, without_margin
from lipaudit.rules.movement import Movement, MovementFunction, Neighbourhood
from lipaudit.rules.norm import Norm
from lipaudit.rules.pull_back import PullBackFunction, QuadraticForm, Weights
from lipaudit.rules.radii_facets import entrywise as entrywise_radii
from lipaudit.rules.radii_facets import whole_tensor
from lipaudit.rules.region.magnitude import Magnitude, Region
from lipaudit.rules.region.radii import Radii
from lipaudit.spectral.interval import Interval
from lipaudit.spectral.oracle import UnknownNorms

ConstantFunction: TypeAlias = Callable[[Node, Settings], Effect]
RadiiFunction: TypeAlias = Callable[[Node, Effect, tuple[Magnitude, ...]], tuple[Radii, ...]]
RegionFunction: TypeAlias = Callable[[Node, tuple[Magnitude, ...]], Region | None]
InducedFunction: TypeAlias = Callable[[Node, Effect, Norm], Effect]
IntervalFunction: TypeAlias = Callable[[Node, tuple[Interval, ...]], Interval | tuple[Interval, ...]]
_Facet = TypeVar("_Facet", bound=Callable[..., object])
_Radii = TypeVar("_Radii", bound=RadiiFunction)
_Region = TypeVar("_Region", bound=RegionFunction)
_Interval = TypeVar("_Interval", bound=IntervalFunction)
_PullBack = TypeVar("_PullBack", bound=PullBackFunction)
_Induced = TypeVar("_Induced", bound=InducedFunction)
_Movement = TypeVar("_Movement", bound=MovementFunction)


@dataclass(frozen=True)
class Rule:
    """The constant of an operation: ``formula`` in one line of plain text, ``source`` names the theorem or section it rests on.

    ``family`` is the module that registers it.
    ``exact`` claims that the factor equals the operation's true constant (up to the tolerance); conformance checks it.
    ``two_sided`` says that the factor's lower end is a lower bound of the operation's true constant (always so if exact).
    ``entrywise`` says that the factor bounds the slope of a function of each entry by itself; it gives the radii, and the constants in
    other norms as well.
    ``trivial`` marks operations that neither stretch nor compute anything (views, dropout in eval mode): they get no row
    in the report's table of layers.
    ``where_bounded`` marks operations that, for some operands, have a constant only where those are bounded
    (:meth:`Effect.where_bounded`); no other rule may say so.
    ``complex_numbers`` marks operations whose rule holds for complex tensors as well, the norm being that of real and
    imaginary parts together; every other rule is asked about real tensors only.
    ``covers`` says of a node whether the rule is one for its form of the operation; any other form is decomposed.
    """

    name: str
    family: str
    ops: tuple[str, ...]
    function: ConstantFunction
    formula: str
    source: str
    exact: bool = False
    two_sided: bool = False
    trivial: bool = False
    entrywise: bool = False
    where_bounded: bool = False
    complex_numbers: bool = False
    covers: Callable[[Node], bool] | None = None


@dataclass(frozen=True)
class Operation:
    """What is registered for one operation."""

    constant: Rule | None = None
    radii: RadiiFunction | None = None
    region: RegionFunction | None = None
    interval: IntervalFunction | None = None
    pull_back: PullBackFunction | None = None
    movement: MovementFunction | None = None
    induced_norm: InducedFunction | None = None


def _with_aliases(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(n for name in names for n in (name, *(a for a, operation in ALIASES.items() if operation == name)))


FACETS = ("constant", "radii", "region", "interval", "pull_back", "movement", "induced_norm")
_OPERATIONS: dict[str, Operation] = {}


def _register(names: tuple[str, ...], facet: str, value: Any) -> None:
    for name in names:
        if name in ALIASES:
            raise RegistryError(f"{name} is a spelling of {ALIASES[name]}: register the {facet} of that")
        known = _OPERATIONS.get(name, Operation())
        if getattr(known, facet) is not None:
            raise RegistryError(f"{name} has two entries of its {facet}")
        _OPERATIONS[name] = replace(known, **{facet: value})


@dataclass(frozen=True)
class Operations:
    """Operations that share facets: each method registers one for all of them."""

    names: tuple[str, ...]

    def __or__(self, other: Operations) -> Operations:
        """The operations of both."""
        return Operations((*self.names, *other.names))

    def constant(
        self,
        *,
        formula: str,
        source: str,
        exact: bool = False,
        two_sided: bool = False,
        trivial: bool = False,
        entrywise: bool = False,
        where_bounded: bool = False,
        complex_numbers: bool = False,
        covers: Callable[[Node], bool] | None = None,
    ) -> Callable[[ConstantFunction], ConstantFunction]:
        """Register the decorated function as the constant; the arguments are the fields of :class:`Rule`."""

        def register(function: ConstantFunction) -> ConstantFunction:
            entry = Rule(
                function.__name__,
                function.__module__.rpartition(".")[2],
                _with_aliases(self.names),
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
            _register(self.names, "constant", entry)
            if entrywise:
                _register(self.names, "radii", entrywise_radii)
                _register(self.names, "induced_norm", same_in_every_norm)
            return function

        return register

    def radii(self, function: _Radii) -> _Radii:
        """Register how the operations pass radii on, given their effect and the magnitudes of their operands."""
        return self._facet("radii", function)

    def region(self, function: _Region) -> _Region:
        """Register a region that holds the output for every input."""
        return self._facet("region", function)

    def interval(self, function: _Interval) -> _Interval:
        """Register the interval that holds every entry of the output, or one per output, from those of the operands."""
        return self._facet("interval", function)

    def pull_back(self, function: _PullBack) -> _PullBack:
        """Register how a quadratic form on the output is carried back to the inputs."""
        return self._facet("pull_back", function)

    def movement(self, function: _Movement) -> _Movement:
        """Register how far the Jacobian moves while the operands stay near a centre."""
        return self._facet("movement", function)

    def induced_norm(self, function: _Induced) -> _Induced:
        """Register the constants in the l-infinity and l1 norm, given the effect in the l2 norm with norms of weights left open."""
        return self._facet("induced_norm", function)

    def _facet(self, facet: str, function: _Facet) -> _Facet:
        _register(self.names, facet, function)
        return function


def operations(*names: str) -> Operations:
    """The operations of these overload names (``aten.conv2d.default``), to register facets for."""
    return Operations(names)


def find_operation(op: str) -> Operation:
    """Everything that is registered for an overload name or what it is a spelling of."""
    return _OPERATIONS.get(ALIASES.get(op, op), Operation())


def find_rule(op: str) -> Rule | None:
    """The rule for an overload name, or None."""
    return find_operation(op).constant


def has_rule(node: Node) -> bool:
    """Whether a rule is registered for a node's operation, in the form that it has there."""
    entry = find_rule(node.op)
    return entry is not None and (entry.covers is None or entry.covers(canonical(node)))


def all_operations() -> dict[str, Operation]:
    """Every registered operation by overload name, its aliases included."""
    return {alias: _OPERATIONS[name] for name in _OPERATIONS for alias in _with_aliases((name,))}


def all_rules() -> dict[str, Rule]:
    """Every registered rule by overload name."""
    return {op: entry.constant for op, entry in all_operations().items() if entry.constant is not None}


def apply_rule(node: Node, settings: Settings) -> Effect:
    """The effect of a node; ``unsupported`` where no rule is registered."""
    entry = find_rule(node.op)
    if entry is None:
        return Effect.unsupported(f"no rule for {node.op}")
    if not entry.complex_numbers and any(t.dtype.is_complex for t in (*(r.info for r in node.refs), *node.outputs)):
        return Effect.unsupported(f"the rule of {node.op} holds for real tensors only, and one here is complex")
    undefined = [key for key, value in node.arguments.items() if isinstance(value, float) and math.isnan(value)]
    if undefined:
        return Effect.unsupported(f"the argument {undefined[0]} of {node.op} is NaN")
    try:
        effect = entry.function(canonical(node), settings)
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


def apply_rule_in(norm: Norm, node: Node) -> Effect:
    """The effect of a node in the l-infinity or l1 norm; ``unsupported`` where no constant is registered in these norms.

    On finitely many entries all norms are equivalent: what has no finite constant in the l2 norm has none in any other.
    """
    effect = apply_rule(node, Settings(UnknownNorms()))
    if effect.status is not Status.FINITE:
        return replace(effect, given=None)
    function = find_operation(node.op).induced_norm
    if function is None:
        return Effect.unsupported(f"it has a constant in the l2 norm, and no rule in the {norm.value} norm")
    if any(t.dtype.is_complex for t in (*(r.info for r in node.refs), *node.outputs)):
        return Effect.unsupported(f"the rule in the {norm.value} norm holds for real tensors only")
    induced = function(canonical(node), effect, norm)
    if induced.status is Status.FINITE and len(induced.factors) != len(node.refs):
        raise RegistryError(
            f"the {norm.value} norm of {node.op} has {len(induced.factors)} factors for {len(node.refs)} inputs"
        )
    return numerical(induced) if without_margin(node) else induced


def radii_of(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The radii of a node's outputs around the image of its operands' centres."""
    if not any(operand.radii.finite for operand in operands):
        return tuple(Radii(o.shape) for o in node.outputs)
    return (find_operation(node.op).radii or whole_tensor)(canonical(node), effect, operands)


def region_of(node: Node, operands: tuple[Magnitude, ...]) -> Region | None:
    """The region that holds a node's output whatever its input is, None if there is none."""
    function = find_operation(node.op).region
    return None if function is None else function(canonical(node), operands)


def interval_of(node: Node, intervals: tuple[Interval, ...], output: int | None = None) -> Interval:
    """The interval that holds every entry of a node's outputs, or of one of them."""
    function = find_operation(node.op).interval
    image = Interval() if function is None else function(canonical(node), intervals)
    if isinstance(image, Interval):
        return image
    return image[output] if output is not None else reduce(Interval.union, image)


def pull_back_of(node: Node, form: QuadraticForm, weights: Weights) -> tuple[QuadraticForm, ...] | None:
    """Forms on the inputs of a node that bound a form on its output, None where no pull-back is registered."""
    function = find_operation(node.op).pull_back
    return None if function is None else function(canonical(node), form, weights)


def has_movement(node: Node) -> bool:
    """Whether it is registered how far the Jacobian of a node's operation moves."""
    return find_operation(node.op).movement is not None


def movement_of(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """How far the Jacobian of a node moves in the neighbourhoods of its operands, None where nothing is known."""
    function = find_operation(node.op).movement
    return None if function is None else function(canonical(node), operands)
