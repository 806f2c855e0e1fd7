"""Functions of the size of rows: capsule squash, 1 / sqrt(mean(x^2) + eps), x / (1 + ||x||), exp(-||x||^2) and the like.

With r = ||z|| for a row z (of x, or of x less its mean, a projection), they are a number f(r) per row, or the row itself in another
length, phi(r) z / r. Both have exact constants, suprema of slopes of functions of one number:

- |f(||z||) - f(||w||)| <= sup |f'| | ||z|| - ||w|| | <= sup |f'| ||z - w||, attained along z;
- phi(r) z / r has the Jacobian phi'(r) along z and phi(r) / r across it (n - 1 times). With phi(0) = 0, phi(r) / r is the mean of phi'
  over [0, r], so that sup |phi'| over r >= 0 is the constant. With phi(0) != 0 the function jumps at 0 and is left alone.

The suprema come from :mod:`lipaudit.graph.functions.largest_slope`, what the tensors are as functions of rows from
:mod:`lipaudit.graph.passes.row_functions`. Normalisations that have names (:mod:`lipaudit.graph.passes.normalization`) are recognised
before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import torch

from lipaudit.graph.evaluate import evaluate_together
from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.from_aten import OPERATIONS, STEEP, Translator
from lipaudit.graph.functions.largest_slope import Slopes, steepest
from lipaudit.graph.functions.normal_form import number
from lipaudit.graph.functions.substitution import replace_terms, value_at
from lipaudit.graph.functions.terms import HALF, NotElementaryError, Term
from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.graph.ops import EXPANSIONS, VIEWS
from lipaudit.graph.passes.normalization import NORMALIZATION, Normalization
from lipaudit.graph.passes.row_functions import Axes, Power, RowReader, Rows, Size
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch

RADIAL = "lipaudit.radial"
_MAX_SOURCES = 12
_NO_ROWS = NoMatch("no function of the size of the rows of one tensor")
_NOT_ELEMENTARY = NoMatch("the function of the size cannot be written in terms of elementary functions")
_A_NORM = NoMatch("a norm, which is a mean of powers")
_JUMPS_AT_ZERO = NoMatch("rows of size 0 do not go to 0: the function jumps there")
_NO_SLOPE = NoMatch("the function of the size has no finite slope")
_PRODUCTS = {"aten.mul.Tensor", "aten.div.Tensor"}


@dataclass(frozen=True, eq=False)
class Radial:
    """A function of the size of the rows that ``axes`` span; ``nodes`` compute it from ``source``."""

    axes: Axes
    slopes: Slopes
    rows: bool  # whether the result is rows, not a number for each
    source: str
    nodes: tuple[Node, ...]

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """The function of ``x``, in its dtype."""
        return evaluate_together(self.nodes, {self.source: x})


@dataclass(frozen=True)
class _Number:
    """A number for each row, the function ``term`` of its size."""

    axes: Axes
    centred: bool
    term: int
    expanded: bool = False


@dataclass(frozen=True)
class _Stretched:
    """Rows z in another length: the function ``term`` of their size is the new length, with its sign."""

    centred: Axes | None
    term: int
    axes: Axes = ()  # none for a multiple of z, whatever rows it has


def matcher(index: GraphIndex) -> Matcher:
    """Matches functions of the size of rows that have a finite constant, at their last operation."""

    def match(node: Node) -> Match | NoMatch:
        if not (node.op in STEEP and node.refs) or not node.output.dtype.is_floating_point or len(node.outputs) != 1:
            return OTHER_OPERATION
        best: Radial | None = None
        reason = _NO_ROWS
        for source in _sources(node, index):
            radial = _radial(node, source, index)
            if isinstance(radial, NoMatch):
                reason = radial if reason is _NO_ROWS else reason
            elif best is None or radial.slopes.upper <= best.slopes.upper * (1 + 1e-9):
                best = radial  # a farther source has more of the operations in it, a mean that is taken off for one
        if best is None:
            return reason
        arguments = {"self": Ref(best.source, index.producers[best.source].output)}
        new = replace(node, op=RADIAL, arguments=arguments, payload=best)
        return Match((new,), merged=tuple(n.name for n in best.nodes[:-1]))

    return match


def _sources(node: Node, index: GraphIndex) -> list[Ref]:
    """The tensors that the operations before a node may read the rows of, the nearest first."""
    sources, waiting = dict[str, Ref](), list(node.refs)
    while waiting and len(sources) < _MAX_SOURCES:
        ref = waiting.pop(0)
        producer = index.producers[ref.name]
        if ref.name not in sources and ref.info.dtype == node.output.dtype and len(producer.outputs) == 1:
            sources[ref.name] = ref
            if producer.op in _ON_THE_WAY:
                waiting += producer.refs
    return sorted(sources.values(), key=lambda ref: -index.position[ref.name])


def _radial(node: Node, source: Ref, index: GraphIndex) -> Radial | NoMatch:
    if len(source.info.shape) < 2 or 0 in source.info.shape:
        return _NO_ROWS
    reader = _Reader(index, source)
    try:
        value = reader.value(node.name)
    except NotElementaryError:
        return _NOT_ELEMENTARY
    named = reader.rows.known.get(node.name)
    if isinstance(named, Size) and not named.inverse:
        return _A_NORM
    if isinstance(value, _Number) and not value.expanded and not isinstance(named, Power):
        axes = value.axes
    elif isinstance(value, _Stretched) and value.axes and node.output == source.info and len(node.refs) == 2:
        axes = value.axes
        if not reader.vanishes(value.term):
            return _JUMPS_AT_ZERO
    else:
        return _NO_ROWS
    slopes = steepest(reader.tape, value.term, 0.0, math.inf)
    if math.isinf(slopes.upper) or slopes.steps:
        return _NO_SLOPE
    nodes = sorted((index.producers[name] for name in reader.read(node)), key=lambda n: index.position[n.name])
    return Radial(axes, slopes, isinstance(value, _Stretched), source.name, tuple(nodes))


class _Reader:
    """What tensors are as functions of the rows of one of them."""

    def __init__(self, index: GraphIndex, source: Ref) -> None:
        self.producers, self.source = index.producers, source
        self.rows = RowReader(index.producers, index.position, source)
        self.tape = Tape()
        self.size = self.tape.variable()
        self.known: dict[str, _Number | _Stretched | None] = {}

    def vanishes(self, term: int) -> bool:
        """Whether a function is exactly 0 at 0."""
        try:
            return self.tape.exact(value_at(self.tape, term, Fraction(0))) == 0
        except NotElementaryError:
            return False

    def read(self, node: Node) -> set[str]:
        """The operations between the source and a node, that included."""
        names, waiting = set[str](), [node.name]
        while waiting:
            name = waiting.pop()
            if name not in names and name != self.source.name:
                names.add(name)
                waiting += [ref.name for ref in self.producers[name].refs]
        return names

    def value(self, name: str) -> _Number | _Stretched | None:
        """What a node is, None where it is nothing of the kind."""
        if name not in self.known:
            self.known[name] = None  # what is being read does not depend on itself
            self.known[name] = self._value(name)
        return self.known[name]

    def of(self, argument: Argument) -> _Number | _Stretched | None:
        """What an argument is."""
        return self.value(argument.name) if isinstance(argument, Ref) else None

    def _value(self, name: str) -> _Number | _Stretched | None:
        match self.rows.value(name):
            case Rows() as rows:
                return _Stretched(rows.centred, self.tape.scale(rows.factor, self.size))
            case Power() | Size() as statistic:
                return _Number(statistic.axes, statistic.centred, self._statistic(statistic), statistic.expanded)
        node = self.producers[name]
        if name == self.source.name or len(self.known) > 48 or node.op == "input":
            return None
        if node.op == NORMALIZATION and node.refs[0].name == self.source.name:
            return self._normalized(node.payload)
        if node.op in _PRODUCTS and (product := self._product(node)) is not None:
            return product
        if node.op in VIEWS:
            inner = self.of(node["self"])
            return inner if isinstance(inner, _Number) and not inner.expanded else None
        return self._number(node) if node.op in OPERATIONS else None

    def _statistic(self, value: Power | Size) -> int:
        """A mean of squares or a norm as a function of r."""
        t, entries = self.tape, self.rows.entries(value.axes)
        if isinstance(value, Power):
            total = t.sum([(value.slope / entries, t.power(self.size, 2))], value.shift)
            return t.maximum(total, t.constant(value.floor)) if value.floor else total
        size = self.size
        match value.form:
            case "root":
                size = t.power(t.sum([(Fraction(1, entries), t.power(size, 2))], value.epsilon), HALF)
            case "clamped":
                size = t.maximum(size, t.power(t.constant(value.epsilon), HALF))
            case "shifted":
                size = t.add(size, t.power(t.constant(value.epsilon), HALF))
        size = t.multiply(t.power(t.constant(value.square), HALF), size)
        return t.power(size, -1) if value.inverse else size

    def _normalized(self, payload: Normalization) -> _Stretched:
        """Rows by their size, as a normalisation that has been recognised."""
        epsilon = Fraction(payload.epsilon) if payload.form == "root" else Fraction(payload.epsilon) ** 2
        size = Size(payload.axes, payload.centred, payload.form, Fraction(1), epsilon)
        term = self.tape.multiply(self.size, self.tape.power(self._statistic(size), -1), anywhere=False)
        return _Stretched(payload.axes if payload.centred else None, term, payload.axes)

    def _product(self, node: Node) -> _Stretched | None:
        """Rows times or over a number for each."""
        left, right = node["self"], node["other"]
        divides = node.op.startswith("aten.div")
        if node.get("rounding_mode") is not None:
            return None
        if not isinstance(left, Ref) or not isinstance(right, Ref):
            rows, c = self.of(left), number(right) if isinstance(left, Ref) else None
            rows, c = (rows, c) if c is not None else (self.of(right), number(left))
            if not isinstance(rows, _Stretched) or not c or (divides and not isinstance(left, Ref)):
                return None
            return replace(rows, term=self.tape.scale(1 / c if divides else c, rows.term))
        a, b = self.of(left), self.of(right)
        if isinstance(a, _Number) and not divides:
            a, b, left, right = b, a, right, left
        if not isinstance(a, _Stretched) or not isinstance(b, _Number) or node.output.shape != self.rows.shape:
            return None
        same = a.centred == (b.axes if b.centred else None) and a.axes in ((), b.axes)
        if not same or left.info.shape != self.rows.shape or not self._aligned(b, right.info.shape):
            return None
        factor = self.tape.power(b.term, -1) if divides else b.term
        return replace(a, term=self.tape.multiply(a.term, factor, anywhere=False), axes=b.axes)

    def _aligned(self, value: _Number, shape: tuple[int, ...]) -> bool:
        """Whether numbers of this shape broadcast along their own rows."""
        if value.expanded:
            return shape == self.rows.shape
        kept = tuple(1 if a in value.axes else n for a, n in enumerate(self.rows.shape))
        return (1,) * (len(kept) - len(shape)) + shape == kept

    def _number(self, node: Node) -> _Number | None:
        """An element-wise function of numbers of the same rows."""
        parts = [self.of(ref) for ref in node.refs]
        numbers = [part for part in parts if isinstance(part, _Number)]
        if not numbers or len(numbers) < len(parts):
            return None
        first = numbers[0]
        if any((p.axes, p.centred, p.expanded) != (first.axes, first.centred, first.expanded) for p in numbers):
            return None
        if any(ref.info.shape != node.output.shape for ref in node.refs):
            return None

        def operand(argument: Argument) -> int:
            row_number = self.of(argument)
            if isinstance(row_number, _Number):
                return row_number.term
            c = number(argument)
            if c is None:
                raise NotElementaryError("neither a number of a row nor a constant")
            return self.tape.constant(c)

        return replace(first, term=self._positive(Translator(self.tape, operand).term(node)))

    def _positive(self, term: int) -> int:
        """|r| is r."""

        def change(_: int, other: Term) -> int | None:
            return self.size if other.kind == "absolute" and other.reads == (self.size,) else None

        return replace_terms(self.tape, term, change)


_ON_THE_WAY = OPERATIONS | VIEWS | EXPANSIONS | {NORMALIZATION} | {
    f"aten.{name}"
    for name in (
        "mean.dim", "sum.dim_IntList", "linalg_vector_norm.default", "norm.ScalarOpt_dim", "var.dim", "var.correction",
        "std.dim", "std.correction",
    )
}  # fmt: skip
