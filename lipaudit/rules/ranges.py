"""Intervals that hold every entry of an operation's output, whatever the network's input is.

They say which divisors stay away from zero and which gates are bounded. Plain interval arithmetic with one interval per
tensor; where an operation is not listed nothing is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.rules.magnitudes import ranged
from lipaudit.rules.operands import constant, count_refs, number
from lipaudit.spectral.interval import Interval

UNIT = Interval(0.0, 1.0)
SYMMETRIC = Interval(-1.0, 1.0)
# What a few roundings of an interval's ends may lose.
_OUTWARD = 1e-12


def _outward(low: float, high: float) -> Interval:
    if math.isnan(low) or math.isnan(high):
        return Interval()
    return Interval(low - _OUTWARD * abs(low), high + _OUTWARD * abs(high)) if low or high else Interval(low, high)


def _fixed(interval: Interval, *ops: str) -> None:
    ranged(*ops)(lambda _node, _intervals: interval)


_fixed(UNIT, "aten.sigmoid.default", "aten.hardsigmoid.default", "aten.softmax.int", "aten._softmax.default")
_fixed(
    SYMMETRIC, "aten.tanh.default", "aten.sin.default", "aten.cos.default", "aten.erf.default", "aten.softsign.default"
)
_fixed(Interval(-math.pi / 2, math.pi / 2), "aten.atan.default")
_fixed(Interval(-math.inf, 0.0), "aten.log_softmax.int", "aten._log_softmax.default", "aten.log_sigmoid.default")
_fixed(
    Interval(0.0, math.inf),
    "aten.linalg_vector_norm.default", "aten.norm.Scalar", "aten.norm.ScalarOpt_dim",
    *(f"aten.{name}.{kind}" for name in ("var", "std") for kind in ("default", "dim", "correction")),
)  # fmt: skip


def _monotone(function: Callable[[float], float], *ops: str) -> None:
    """Register a non-decreasing function of each entry."""
    ranged(*ops)(lambda _node, intervals: _outward(function(intervals[0].low), function(intervals[0].high)))


_monotone(lambda x: max(0.0, x), "aten.relu.default")
_monotone(lambda x: min(6.0, max(0.0, x)), "aten.relu6.default")
_monotone(lambda x: math.exp(min(x, 709.0)) if x < 709 else math.inf, "aten.exp.default")
_monotone(lambda x: math.sqrt(x) if x >= 0 else math.nan, "aten.sqrt.default")


@ranged("aten.softplus.default")
def softplus(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """log(1 + exp(beta x)) / beta >= max(0, x) for a positive beta."""
    return Interval(max(0.0, intervals[0].low)) if number(node, "beta") > 0 else Interval()


@ranged("aten.abs.default")
def absolute(_node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """|x|."""
    return Interval(max(0.0, intervals[0].low, -intervals[0].high), intervals[0].largest)


@ranged("aten.square.default")
def square(_node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """x^2."""
    least = max(0.0, intervals[0].low, -intervals[0].high)
    return _outward(least * least, intervals[0].largest * intervals[0].largest)


@ranged("aten.pow.Tensor_Scalar")
def power(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Even powers are not negative; powers of what is not negative are not negative either."""
    exponent = number(node, "exponent")
    if exponent == 2:
        return square(node, intervals)
    if exponent == 0.5 and intervals[0].low >= 0:
        return _outward(math.sqrt(intervals[0].low), math.sqrt(intervals[0].high))
    return Interval(0.0) if intervals[0].low >= 0 or (exponent > 0 and exponent % 2 == 0) else Interval()


@ranged("aten.reciprocal.default", "aten.rsqrt.default")
def inverse(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """1 / x and 1 / sqrt(x) of positive entries."""
    low, high = intervals[0].low, intervals[0].high
    if low <= 0:
        return Interval()
    root = math.sqrt if "rsqrt" in node.op else float
    return _outward(1 / root(high) if high < math.inf else 0.0, 1 / root(low))


@ranged("aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default", "aten.hardtanh.default")
def clamp(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """min(max(x, low), high) with numbers for limits."""
    low, high = (node.get(a, node.get(b)) for a, b in (("min", "min_val"), ("max", "max_val")))
    found = intervals[0]
    if isinstance(low, int | float):
        found = Interval(max(found.low, low), max(found.high, low))
    if isinstance(high, int | float):
        found = Interval(min(found.low, high), min(found.high, high))
    return found


def operand(node: Node, key: str, intervals: tuple[Interval, ...]) -> Interval:
    """The interval of an operand: a data-dependent one's, a constant's own."""
    argument = node[key]
    if isinstance(argument, Ref):
        position = sum(count_refs(a) for k, a in list(node.arguments.items())[: list(node.arguments).index(key)])
        return intervals[position]
    if isinstance(argument, Constant) and not argument.known:
        return Interval()
    value = constant(node, key)
    if value is None or value.numel() == 0 or bool(value.isnan().any()):
        return Interval()
    return Interval(float(value.min()), float(value.max()))


@ranged("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")
def add(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self + alpha other, self - alpha other."""
    left, right = operand(node, "self", intervals), operand(node, "other", intervals)
    alpha = number(node, "alpha") * (-1 if "sub" in node.op else 1)
    ends = sorted((_product(alpha, right.low), _product(alpha, right.high)))
    return _outward(left.low + ends[0], left.high + ends[1])


@ranged("aten.mul.Tensor", "aten.mul.Scalar")
def multiply(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self other; of a tensor with itself, a square."""
    if len(node.refs) == 2 and node.refs[0].name == node.refs[1].name:
        return square(node, intervals)
    left, right = operand(node, "self", intervals), operand(node, "other", intervals)
    corners = [_product(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return _outward(min(corners), max(corners))


@ranged("aten.div.Tensor", "aten.div.Scalar")
def divide(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self / other for a positive divisor."""
    left, right = operand(node, "self", intervals), operand(node, "other", intervals)
    if right.low <= 0 or node.get("rounding_mode") is not None:
        return Interval()
    corners = [_product(a, b) for a in (left.low, left.high) for b in (1 / right.low, 1 / right.high)]
    return _outward(min(corners), max(corners))


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


@ranged("aten.neg.default")
def negate(_node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """-x."""
    return Interval(-intervals[0].high, -intervals[0].low)


@ranged("aten.sum.default", "aten.sum.dim_IntList")
def total(_node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """A sum keeps the sign."""
    low, high = intervals[0].low, intervals[0].high
    return Interval(0.0 if low >= 0 else -math.inf, 0.0 if high <= 0 else math.inf)


@ranged(
    "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.flatten.using_ints",
    "aten.unflatten.int", "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default",
    "aten.permute.default", "aten.transpose.int", "aten.t.default", "aten.flip.default", "aten.roll.default",
    "aten.pixel_shuffle.default", "aten.pixel_unshuffle.default", "aten.unbind.int", "aten.split.Tensor",
    "aten.split.sizes", "aten.split_with_sizes.default", "aten.chunk.default", "aten.slice.Tensor", "aten.select.int",
    "aten.expand.default", "aten.expand_as.default", "aten.repeat.default", "aten.tile.default", "aten.index.Tensor",
    "aten.index_select.default", "aten.repeat_interleave.self_int", "aten.to.dtype", "aten._to_copy.default",
    "aten.to.dtype_layout", "aten.type_as.default", "aten.contiguous.default", "aten.clone.default",
    "aten.alias.default", "aten.mean.default", "aten.mean.dim", "aten.amax.default", "aten.amin.default",
    "aten.max.default", "aten.min.default", "aten.view_as.default", "aten.reshape_as.default", "aten.dropout.default",
    *(f"aten.max_pool{d}d.default" for d in (1, 2, 3)), *(f"aten.adaptive_max_pool{d}d.default" for d in (1, 2, 3)),
    *(f"aten.adaptive_avg_pool{d}d.default" for d in (1, 2, 3)), "aten.upsample_nearest2d.vec", "aten.movedim.int",
    "aten.upsample_nearest2d.default", "aten.upsample_bilinear2d.vec", "aten.upsample_bilinear2d.default", "getitem",
)  # fmt: skip
def kept(_node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of the input, or means of them."""
    return intervals[0]


@ranged(*(f"aten.avg_pool{d}d.default" for d in (1, 2, 3)), "aten.constant_pad_nd.default", "aten.pad.default")
def padded(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of the input or a constant, or means of them; a divisor of one's own gives no claim."""
    if node.get("divisor_override") is not None:
        return Interval()
    fill = node.get("value", 0.0)
    value = float(fill) if isinstance(fill, int | float) else 0.0
    return intervals[0].union(Interval(value, value))


@ranged("aten.cat.default", "aten.stack.default")
def joined(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of all of the operands; constants among them have their own."""
    parts = node["tensors"]
    if not isinstance(parts, tuple) or any(not isinstance(part, Ref) for part in parts) or not intervals:
        return Interval()
    found = intervals[0]
    for other in intervals[1:]:
        found = found.union(other)
    return found


@ranged("aten.maximum.default", "aten.max.other", "aten.minimum.default", "aten.min.other")
def extremum(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The larger or the smaller of two entries."""
    left, right = operand(node, "self", intervals), operand(node, "other", intervals)
    pick = max if ".max" in node.op else min
    return Interval(pick(left.low, right.low), pick(left.high, right.high))


@ranged("aten.clamp_min.Tensor", "aten.clamp_max.Tensor")
def clamp_to_tensor(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """A tensor for a limit."""
    key, pick = ("min", max) if "clamp_min" in node.op else ("max", min)
    left, right = operand(node, "self", intervals), operand(node, key, intervals)
    return Interval(pick(left.low, right.low), pick(left.high, right.high))


@ranged("lipaudit.normalization")
def normalization(node: Node, _intervals: tuple[Interval, ...]) -> Interval:
    """An entry is at most the norm of its slice."""
    payload = node.payload
    shape = node.refs[0].info.shape
    bound = math.sqrt(math.prod(shape[a] for a in payload.axes)) if payload.form == "root" else 1.0
    return _outward(-bound, bound)
