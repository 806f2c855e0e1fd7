"""Compositions of element-wise operations of one tensor: each is one function of one real variable.

Operation by operation x / (1 + |x|) is a quotient by a data-dependent tensor, which has no finite constant, and x * (x > 0) a
product with a jump. As functions of x both have the supremum of their |slope|, which :mod:`lipaudit.graph.functions.largest_slope`
finds. Replaced are operations that join several branches of one tensor, and those that have no finite slope by themselves (roots,
exponentials, powers), where

- all operations between that tensor and the result act on each entry by itself, with constants (which may differ from entry to entry:
  then each set of constants makes its own function), and
- the supremum is finite, or the function jumps, or its slope grows without a bound (then it may be finite on a domain).

The tensor is the nearest one for which the supremum is finite. Everything else stays as it was, with the rules of its operations. What is
known by name (:mod:`lipaudit.graph.passes.activations`) has been replaced before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import torch

from lipaudit.graph.evaluate import evaluate_together
from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.from_aten import OPERATIONS, STEEP, Translator
from lipaudit.graph.functions.largest_slope import FLOAT32_HALF_ULP, FLOAT64_HALF_ULP, Slopes, steepest
from lipaudit.graph.functions.ranges import defined_over, range_over
from lipaudit.graph.functions.terms import NotElementaryError, Term
from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch
from lipaudit.spectral.interval import Interval

ELEMENTWISE = "lipaudit.elementwise"  # what such a function is called in a simplified graph
_SUMS = {f"aten.{name}.{kind}" for name in ("add", "sub", "rsub") for kind in ("Tensor", "Scalar")}
_MAX_OPERATIONS = 48
_ROUNDING = 2.0**-50
_MAX_FUNCTIONS = 32  # different sets of constants of one function
Program = tuple[Term, ...]
_ONE_OPERATION = NoMatch("one operation with a finite slope of its own")
_NO_SOURCE = NoMatch("no tensor before it has a finite slope, a jump or a growing slope to show")
_INEXACT = NoMatch("a constant is not known exactly")
_NOT_ELEMENTARY = NoMatch("the operations are not elementary functions of one tensor and of known constants")
_NO_GAIN = NoMatch("a sum that stretches by as much as its terms together")


@dataclass(frozen=True, eq=False)
class Elementwise:
    """A function of each entry: ``programs`` are its terms, one for each set of constants; ``nodes`` compute it from ``source``.

    It is computed in ``dtype``, whose rounding hides steps that are smaller.
    """

    programs: tuple[Program, ...]
    source: str
    nodes: tuple[Node, ...]

    @property
    def dtype(self) -> torch.dtype:
        """What the function is computed in."""
        return self.nodes[-1].output.dtype

    @property
    def _hidden(self) -> Fraction:
        """The relative size of steps that are rounding."""
        return FLOAT64_HALF_ULP if self.dtype == torch.float64 else FLOAT32_HALF_ULP

    def slopes(self, low: float = -math.inf, high: float = math.inf) -> Slopes:
        """sup |g'| over all real numbers or an interval, the largest over the sets of constants."""
        each = [_slopes(program, low, high, self._hidden) for program in self.programs]
        worst = next((s for s in each if s.jumps or s.grows), None)
        return worst or Slopes(
            max(s.lower for s in each), max(s.upper for s in each), max((s.steps for s in each), key=len)
        )

    def slope_range(self) -> tuple[float, float]:
        """An interval that holds every slope g', from sup |g' - c| and sup |g' + c| for c = sup |g'|; (-c, c) where these are not known."""
        each = [_slope_range(program, self._hidden) for program in self.programs]
        return min(low for low, _ in each), max(high for _, high in each)

    def values(self, low: float, high: float) -> Interval:
        """The values on an interval."""
        each = [_values(program, low, high) for program in self.programs]
        return Interval(min(values.low for values in each), max(values.high for values in each))

    @cached_property
    def formula(self) -> str:
        """The operations in their order."""
        return ", ".join(node.op.split(".")[1] for node in self.nodes)

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """The function at every entry of ``x``, in its dtype."""
        return evaluate_together(self.nodes, {self.source: x})


def _tape(program: Program) -> tuple[Tape, int]:
    tape = Tape()
    for term in program:
        tape.append(term)
    return tape, len(program) - 1


@lru_cache(maxsize=4096)
def _slopes(program: Program, low: float, high: float, hidden: Fraction) -> Slopes:
    return steepest(*_tape(program), low, high, hidden)


@lru_cache(maxsize=4096)
def _slope_range(program: Program, hidden: Fraction) -> tuple[float, float]:
    slopes = _slopes(program, -math.inf, math.inf, hidden)
    most = slopes.upper
    if slopes.steps or math.isinf(most):
        return -most, most
    ends = []
    for sign in (1, -1):
        tape, root = _tape(program)
        shifted = tape.subtract(root, tape.scale(sign * Fraction(most), tape.variable()))
        away = steepest(tape, shifted, hidden=hidden).upper
        ends.append(most - min(away * (1 + _ROUNDING) + most * _ROUNDING, 2 * most))
    return ends[0], -ends[1]


@lru_cache(maxsize=4096)
def _values(program: Program, low: float, high: float) -> Interval:
    tape, root = _tape(program)
    # where it is not defined, what compares or skips NaN may take either way
    return range_over(tape, root, low, high) if defined_over(tape, root, low, high) else Interval()


def matcher(index: GraphIndex) -> Matcher:
    """Matches compositions of element-wise operations that are worth more as one function, at their last operation."""
    cones = _Cones(index.producers, index.position)

    def match(node: Node) -> Match | NoMatch:
        function = cones.function(node)
        if isinstance(function, NoMatch):
            return function
        source = Ref(function.source, index.producers[function.source].output)
        new = replace(node, op=ELEMENTWISE, arguments={"self": source}, payload=function)
        return Match((new,), merged=tuple(n.name for n in function.nodes[:-1]))

    return match


@dataclass(frozen=True)
class _Cones:
    """The nodes of a graph by name, and their places in topological order."""

    producers: Mapping[str, Node]
    position: Mapping[str, int]
    open: set[str] = field(default_factory=set)  # what has no finite slope, which functions of it may have

    def function(self, node: Node) -> Elementwise | NoMatch:
        """The function that a node ends, or why it ends none that is worth more than its pieces."""
        if node.op not in OPERATIONS or len(node.outputs) != 1 or not node.output.dtype.is_floating_point:
            return OTHER_OPERATION
        by_itself = len({ref.name for ref in node.refs}) > 1 or (node.op in STEEP and self._steep(node))
        if not by_itself and not any(ref.name in self.open for ref in node.refs):
            return _ONE_OPERATION
        best, reason = None, _NO_SOURCE
        for source, nodes in self._sources(node):
            if node.op not in STEEP and any(c.error for c in _tensors(nodes)):
                reason = _INEXACT  # the pieces may hold whatever an inexact constant is, the function would not
                break
            programs = _programs(nodes, source)
            if programs is None:
                reason = _NOT_ELEMENTARY
                break
            function = Elementwise(programs, source.name, nodes)
            slopes = function.slopes()
            if not math.isinf(slopes.upper) and source.name in self.open:
                best = best or function  # a function of what has no bound itself: a farther source may do better
            elif not math.isinf(slopes.upper):
                gains = node.op not in _SUMS or slopes.upper < self._terms(node, source, nodes)
                return function if gains else _NO_GAIN
            if best is None and (slopes.jumps or slopes.grows):
                best = function
        self.open.add(node.name)
        if best is None:
            return reason
        return best if by_itself else _ONE_OPERATION

    @staticmethod
    def _terms(node: Node, source: Ref, nodes: tuple[Node, ...]) -> float:
        """What the terms of a sum stretch by, each a single operation, less what a search leaves open: a sum that gains nothing stays."""
        total = 0.0
        for key in ("self", "other"):
            argument = node[key]
            if not isinstance(argument, Ref):
                continue
            scale = abs(float(node["alpha"])) if (key == "self") == node.op.startswith("aten.rsub") else 1.0  # type: ignore[arg-type]
            if argument.name == source.name:
                total += scale
                continue
            before = _needed(argument.name, nodes)
            programs = _programs(before, source) if len(before) == 1 else None
            total += math.inf if programs is None else scale * Elementwise(programs, source.name, before).slopes().upper
        return total * (1 - 1e-6)

    def _steep(self, node: Node) -> bool:
        """Whether an operation with one operand has no finite slope by itself, or reads it twice."""
        if node.op in ("aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Scalar"):
            return len(node.refs) == 2
        if node.op == "aten.div.Tensor":
            return isinstance(node["other"], Ref)
        return True

    def _sources(self, node: Node) -> list[tuple[Ref, tuple[Node, ...]]]:
        """The tensors that the node is an element-wise function of, the nearest first, and the operations in between."""
        sources: list[tuple[Ref, tuple[Node, ...]]] = []
        waiting, cone = {node.name: Ref(node.name, node.output)}, list[Node]()
        while waiting and len(cone) < _MAX_OPERATIONS:
            last = max(waiting, key=self.position.__getitem__)
            ref = waiting.pop(last)
            if cone and not waiting and ref.info == node.output:
                sources.append((ref, tuple(sorted(cone, key=lambda n: self.position[n.name]))))
            producer = self.producers[last]
            if producer.op not in OPERATIONS or not self._entrywise(producer, node):
                break
            cone.append(producer)
            waiting.update({r.name: r for r in producer.refs})
        return sources

    @staticmethod
    def _entrywise(node: Node, end: Node) -> bool:
        """Whether operands and output have the shape of the end, and its type or, for conditions, that of booleans."""
        kinds = (end.output.dtype, torch.bool)
        return len(node.outputs) == 1 and all(
            info.shape == end.output.shape and info.dtype in kinds
            for info in (node.output, *(r.info for r in node.refs))
        )


def _needed(end: str, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Those of the nodes that one of them is computed from, itself included."""
    wanted, needed = {end}, list[Node]()
    for node in reversed(nodes):
        if node.name in wanted:
            wanted.update(ref.name for ref in node.refs)
            needed.append(node)
    return tuple(reversed(needed))


def _programs(nodes: tuple[Node, ...], source: Ref) -> tuple[Program, ...] | None:
    """The function in terms of x, for each set of constants; None where it has none."""
    constants = _constants(nodes)
    if constants is None:
        return None
    programs: dict[Program, None] = {}
    for values in constants:
        tape = Tape()
        known = {source.name: tape.variable()}

        def operand(
            argument: Argument,
            tape: Tape = tape,
            known: dict[str, int] = known,
            values: Mapping[int, Fraction] = values,
        ) -> int:
            if isinstance(argument, Ref):
                return known[argument.name]
            value = values.get(id(argument)) if isinstance(argument, Constant) else _number(argument)
            if value is None:
                raise NotElementaryError("neither a tensor nor a number")
            return tape.constant(value)

        translator = Translator(tape, operand)
        try:
            for node in nodes:
                known[node.name] = translator.term(node)
        except NotElementaryError:
            return None
        programs[tape.program(known[nodes[-1].name])] = None
    return tuple(programs)


def _number(argument: Argument) -> Fraction | None:
    if not isinstance(argument, bool | int | float) or not math.isfinite(argument):
        return None
    return Fraction(argument)


def _tensors(nodes: tuple[Node, ...]) -> list[Constant]:
    return [a for node in nodes for a in node.arguments.values() if isinstance(a, Constant)]


def _constants(nodes: tuple[Node, ...]) -> list[dict[int, Fraction]] | None:
    """The values of the constants of nodes, by their identity, for each set that occurs.

    None where there are too many, or where one stands for a weight whose value no status may rest on.
    """
    constants = _tensors(nodes)
    tensors = {id(a): a.value for a in constants}
    if not all(a.known for a in constants) or any(
        t.is_meta or t.is_complex() or t.numel() == 0 for t in tensors.values()
    ):
        return None
    if not tensors:
        return [{}]
    wide = [t.detach().to("cpu", torch.float64) for t in tensors.values()]
    if any(not bool(torch.isfinite(t).all()) for t in wide):
        return None
    try:
        together = torch.stack([t.flatten() for t in torch.broadcast_tensors(*wide)])  # type: ignore[no-untyped-call]
    except RuntimeError:
        return None
    if together.shape[1] > 1:
        together = torch.unique(together, dim=1)
    if together.shape[1] > _MAX_FUNCTIONS:
        return None
    return [dict(zip(tensors, map(Fraction, column), strict=True)) for column in together.T.tolist()]
