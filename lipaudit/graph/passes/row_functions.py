"""Normalisations that arrive written out: what a tensor is as a function of the rows of another one.

For a tensor x and a set of axes, a row is what these axes span, of D entries; q = mean(z^2) over a row, with z = x or
z = x - mean(x). Written-out normalisations consist of a few kinds of tensors, followed here from x to the quotient:

- :class:`Rows` c z, :class:`Squares` c z^2 and :class:`Mean` c mean(x), :class:`SquaredMean` c mean(x)^2,
- :class:`Power` max(a q + b, m), where q is also mean(x^2) - mean(x)^2, and the unbiased variance is D / (D - 1) q,
- :class:`Size` c sqrt(q + e), c max(||z||, e) or c (||z|| + e), or its reciprocal. ||z|| = sqrt(D q),
- :class:`Quotient` rows by their size: the normalisation times a constant.

Numbers are exact fractions; sizes carry the squares of their constants. Everything else is None: operations that mix
rows, sizes of other rows than those that they divide, statistics over the batch axis, constants that are not uniform.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from lipaudit.graph.functions.normal_form import number
from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.graph.ops import CASTS, EXPANSIONS, VIEWS

Axes: TypeAlias = tuple[int, ...]
# A written-out normalisation has at most about a dozen operations.
_MAX_OPERATIONS = 24


@dataclass(frozen=True)
class Rows:
    """``factor`` z; ``centred`` holds the axes of the mean in z = x - mean(x), None for z = x."""

    factor: Fraction
    centred: Axes | None = None


@dataclass(frozen=True)
class Squares:
    """``factor`` z^2, entry by entry."""

    factor: Fraction
    centred: Axes | None


@dataclass(frozen=True)
class Mean:
    """``factor`` mean(x) over ``axes``."""

    axes: Axes
    factor: Fraction
    expanded: bool = False


@dataclass(frozen=True)
class SquaredMean:
    """``factor`` mean(x)^2 over ``axes``."""

    axes: Axes
    factor: Fraction
    expanded: bool = False


@dataclass(frozen=True)
class Power:
    """max(``slope`` q + ``shift``, ``floor``)."""

    axes: Axes
    centred: bool
    slope: Fraction
    shift: Fraction = Fraction(0)
    floor: Fraction = Fraction(0)
    expanded: bool = False


@dataclass(frozen=True)
class Size:
    """c sqrt(q + epsilon) for the form "root", c max(||z||, e) for "clamped", c (||z|| + e) for "shifted", c ||z|| for "".

    ``square`` is c^2; ``epsilon`` is that of the root, else e^2. ``inverse``: the reciprocal of all that.
    """

    axes: Axes
    centred: bool
    form: str
    square: Fraction
    epsilon: Fraction = Fraction(0)
    inverse: bool = False
    expanded: bool = False


@dataclass(frozen=True)
class Quotient:
    """sign sqrt(``square``) times z divided by ``size`` with c = 1."""

    size: Size
    sign: int
    square: Fraction


Statistic: TypeAlias = Mean | SquaredMean | Power | Size
Value: TypeAlias = Rows | Squares | Statistic | Quotient


class RowReader:
    """What the tensors of a graph are as functions of the rows of one of them, ``source``."""

    def __init__(self, producers: Mapping[str, Node], position: Mapping[str, int], source: Ref) -> None:
        self.producers, self.position, self.source = producers, position, source
        self.known: dict[str, Value | None] = {source.name: Rows(Fraction(1))}

    def value(self, name: str) -> Value | None:
        """What node ``name`` is, None where it is nothing of the above."""
        if name not in self.known:
            if len(self.known) > _MAX_OPERATIONS or self.position[name] < self.position[self.source.name]:
                return None
            node = self.producers[name]
            rule = _OPERATIONS.get(node.op)
            self.known[name] = None  # what is being read cannot depend on itself; a guard against deep recursion
            self.known[name] = rule(self, node) if rule is not None else None
        return self.known[name]

    def of(self, argument: Argument) -> Value | None:
        """What an argument is."""
        return self.value(argument.name) if isinstance(argument, Ref) else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the source."""
        return self.source.info.shape

    def axes(self, argument: Argument) -> Axes | None:
        """Axes counted from the front; None where they include the batch axis or are not said."""
        given = argument if isinstance(argument, tuple) else (argument,)
        counted = {a % len(self.shape) for a in given if isinstance(a, int)}
        return None if not counted or 0 in counted or len(counted) < len(given) else tuple(sorted(counted))

    def entries(self, axes: Axes) -> int:
        """D, the number of entries of a row."""
        return math.prod(self.shape[a] for a in axes)

    def aligned(self, statistic: Statistic, shape: tuple[int, ...]) -> bool:
        """Whether a statistic of this shape broadcasts along its own rows.

        Reductions, and views of them, keep the order of their elements: the shape alone decides.
        """
        if statistic.expanded:
            return shape == self.shape
        kept = tuple(1 if a in statistic.axes else n for a, n in enumerate(self.shape))
        return (1,) * (len(kept) - len(shape)) + shape == kept


def _scaled(value: Value | None, c: Fraction) -> Value | None:
    match value:
        case Rows() | Squares() | Mean() | SquaredMean():
            return replace(value, factor=value.factor * c) if c else None
        case Power() if c > 0:
            return replace(value, slope=value.slope * c, shift=value.shift * c, floor=value.floor * c)
        case Size() if c > 0:
            return replace(value, square=value.square / c**2 if value.inverse else value.square * c**2)
    return None


def _shape(argument: Argument) -> tuple[int, ...]:
    return argument.info.shape if isinstance(argument, Ref) else ()


def _product(rows: RowReader, node: Node) -> Value | None:
    left, right = node["self"], node["other"]
    for constant, other in ((left, right), (right, left)):
        if not isinstance(constant, Ref):
            c = number(constant)
            return None if c is None or not _keeps_shape(node, other) else _scaled(rows.of(other), c)
    a, b = rows.of(left), rows.of(right)
    if isinstance(a, Size):
        a, b, left, right = b, a, right, left
    match a, b:
        case Rows(), Rows() if a.centred == b.centred:
            return Squares(a.factor * b.factor, a.centred)
        case Mean(), Mean() if a.axes == b.axes and _shape(left) == _shape(right) and a.expanded == b.expanded:
            return SquaredMean(a.axes, a.factor * b.factor, a.expanded)
        case Rows(), Size(inverse=True):
            return _quotient(rows, a, b, _shape(right))
    return None


def _keeps_shape(node: Node, operand: Argument) -> bool:
    """Whether the constant operand, whatever its shape, did not broadcast the other one."""
    return _shape(operand) == node.output.shape


def _division(rows: RowReader, node: Node) -> Value | None:
    left, right = node["self"], node["other"]
    if node.get("rounding_mode") is not None:
        return None
    if not isinstance(right, Ref):
        c = number(right)
        return _scaled(rows.of(left), 1 / c) if c and _keeps_shape(node, left) else None
    below = rows.of(right)
    if not isinstance(below, Size):
        return None
    if not isinstance(left, Ref):
        c = number(left)
        return _scaled(_inverse(below), c) if c and _keeps_shape(node, right) else None
    above = rows.of(left)
    if isinstance(above, Rows) and not below.inverse:
        return _quotient(rows, above, below, _shape(right))
    return None


def _quotient(rows: RowReader, z: Rows, size: Size, shape: tuple[int, ...]) -> Value | None:
    if z.centred != (size.axes if size.centred else None) or not rows.aligned(size, shape):
        return None
    if not size.form or size.epsilon <= 0:
        return None  # without an epsilon the quotient has no finite constant
    return Quotient(size, 1 if z.factor > 0 else -1, z.factor**2 / size.square)


def _sum(rows: RowReader, node: Node) -> Value | None:
    left, right = node["self"], node["other"]
    subtracts = node.op.startswith("aten.sub")
    if number(node.get("alpha", 1)) != 1:
        return None
    if isinstance(left, Ref) and isinstance(right, Ref):
        return _difference(rows, node) if subtracts else None
    constant, other = (right, left) if isinstance(left, Ref) else (left, right)
    c, value = number(constant), rows.of(other)
    if c is None or not _keeps_shape(node, other) or (subtracts and other is right):
        return None
    return _raised(value, -c if subtracts else c)


def _raised(value: Value | None, c: Fraction) -> Value | None:
    match value:
        case Power(floor=0):
            return replace(value, shift=value.shift + c)
        case Size(form="", inverse=False) if c > 0:
            return replace(value, form="shifted", epsilon=c**2 / value.square)
    return None


def _difference(rows: RowReader, node: Node) -> Value | None:
    """x - mean(x), and mean(x^2) - mean(x)^2."""
    left, right = rows.of(node["self"]), rows.of(node["other"])
    match left, right:
        case Rows(centred=None), Mean() if left.factor == right.factor:
            return Rows(left.factor, right.axes) if rows.aligned(right, _shape(node["other"])) else None
        case Power(centred=False, shift=0, floor=0, expanded=False), SquaredMean(expanded=False):
            same = left.axes == right.axes and left.slope == right.factor
            shapes = _shape(node["self"]) == _shape(node["other"])
            return replace(left, centred=True) if same and shapes else None
    return None


def _mean(rows: RowReader, node: Node) -> Value | None:
    """Means and sums over rows."""
    axes, value = rows.axes(node.get("dim")), rows.of(node["self"])
    if axes is None:
        return None
    weight = Fraction(1) if node.op.startswith("aten.mean") else Fraction(rows.entries(axes))
    match value:
        case Rows(centred=None):
            return Mean(axes, value.factor * weight)
        case Squares() if value.centred in (None, axes) and value.factor > 0:
            return Power(axes, value.centred is not None, value.factor * weight)
    return None


def _variance(rows: RowReader, node: Node) -> Value | None:
    """Variance or standard deviation of rows, which is that of centred rows."""
    axes, value = rows.axes(node.get("dim")), rows.of(node["self"])
    if axes is None or not isinstance(value, Rows) or value.centred not in (None, axes):
        return None
    if "unbiased" in node.arguments:
        correction: Fraction | None = Fraction(1 if node["unbiased"] else 0)
    else:
        correction = Fraction(1) if node["correction"] is None else number(node["correction"])
    entries = rows.entries(axes)
    if correction is None or correction < 0 or correction >= entries:
        return None
    power = Power(axes, True, value.factor**2 * entries / (entries - correction))
    return _root(rows, power) if "std" in node.op else power


def _statistics_pair(rows: RowReader, node: Node) -> Value | None:
    """The variance or the mean that ``var_mean`` returned."""
    source = node["self"]
    pair = rows.producers[source.name] if isinstance(source, Ref) else node
    if pair.op not in _PAIRS:
        return None
    rows.known.setdefault(pair.name, None)
    if node["index"] == 0:
        return _variance(rows, pair)
    axes, value = rows.axes(pair.get("dim")), rows.of(pair["self"])
    return Mean(axes, value.factor) if axes and isinstance(value, Rows) and value.centred is None else None


def _norm(rows: RowReader, node: Node) -> Value | None:
    """The l2 norm of rows."""
    axes, value = rows.axes(node.get("dim")), rows.of(node["self"])
    order = number(node["ord"] if "ord" in node.arguments else node["p"])
    if axes is None or order != 2 or not isinstance(value, Rows) or value.centred not in (None, axes):
        return None
    return Size(axes, value.centred is not None, "", value.factor**2)


def _root(rows: RowReader, value: Value | None) -> Value | None:
    if not isinstance(value, Power):
        return None
    axes, centred, expanded = value.axes, value.centred, value.expanded
    if value.shift > 0 and value.floor == 0:
        return Size(axes, centred, "root", value.slope, value.shift / value.slope, expanded=expanded)
    square = value.slope / rows.entries(axes)
    if value.shift == 0 and value.floor == 0:
        return Size(axes, centred, "", square, expanded=expanded)
    if value.shift == 0:
        return Size(axes, centred, "clamped", square, value.floor / square, expanded=expanded)
    return None


def _inverse(value: Value | None) -> Value | None:
    return replace(value, inverse=True) if isinstance(value, Size) and not value.inverse else None


def _power(rows: RowReader, node: Node) -> Value | None:
    value = rows.of(node["self"])
    exponent = _EXPONENTS.get(node.op) or number(node["exponent"])
    match value, exponent:
        case Rows(), 2:
            return Squares(value.factor**2, value.centred)
        case Mean(), 2:
            return SquaredMean(value.axes, value.factor**2, value.expanded)
        case Size(), -1:
            return _inverse(value)
    if exponent == Fraction(1, 2):
        return _root(rows, value)
    return _inverse(_root(rows, value)) if exponent == Fraction(-1, 2) else None


def _clamp(rows: RowReader, node: Node) -> Value | None:
    """max(value, limit); a limit of 0 changes nothing of what is never negative."""
    if node.get("max") is not None:
        return None
    left, limit = node["self"], node["other"] if "other" in node.arguments else node.get("min")
    if not isinstance(left, Ref):
        left, limit = limit, left
    c, value = number(limit), rows.of(left)
    if c is None or c < 0 or not _keeps_shape(node, left):
        return None
    match value:
        case Power(shift=0, floor=0):
            return replace(value, floor=c)
        case Size(form="", inverse=False):
            return replace(value, form="clamped", epsilon=c**2 / value.square) if c else value
    return None


def _view(rows: RowReader, node: Node) -> Value | None:
    value = rows.of(node["self"])
    return value if isinstance(value, Statistic) and not value.expanded else None


def _expand(rows: RowReader, node: Node) -> Value | None:
    value = rows.of(node["self"])
    if not isinstance(value, Statistic) or not rows.aligned(value, _shape(node["self"])):
        return None
    return replace(value, expanded=True) if node.output.shape == rows.shape else None


def _cast(rows: RowReader, node: Node) -> Value | None:
    real = all(t.dtype.is_floating_point for t in (node.output, *(ref.info for ref in node.refs)))
    return rows.of(node["self"]) if real else None


_EXPONENTS = {
    "aten.square.default": Fraction(2),
    "aten.sqrt.default": Fraction(1, 2),
    "aten.rsqrt.default": Fraction(-1, 2),
    "aten.reciprocal.default": Fraction(-1),
}
_PAIRS = {f"aten.{name}.{kind}" for name in ("var_mean", "std_mean") for kind in ("dim", "correction")}
_OPERATIONS: dict[str, Callable[[RowReader, Node], Value | None]] = {
    **{f"aten.mul.{kind}": _product for kind in ("Tensor", "Scalar")},
    **{f"aten.div.{kind}": _division for kind in ("Tensor", "Scalar")},
    **{f"aten.{name}.{kind}": _sum for name in ("add", "sub") for kind in ("Tensor", "Scalar")},
    **{f"aten.{name}": _mean for name in ("mean.dim", "sum.dim_IntList")},
    **{f"aten.{name}.{kind}": _variance for name in ("var", "std") for kind in ("dim", "correction")},
    **{f"aten.{name}": _norm for name in ("linalg_vector_norm.default", "norm.ScalarOpt_dim")},
    **dict.fromkeys(_EXPONENTS, _power),
    "aten.pow.Tensor_Scalar": _power,
    **{f"aten.{name}": _clamp for name in ("clamp.default", "clamp_min.default", "maximum.default", "max.other")},
    **dict.fromkeys(VIEWS, _view),
    **dict.fromkeys(EXPANSIONS, _expand),
    **dict.fromkeys(CASTS, _cast),
    "getitem": _statistics_pair,
}
