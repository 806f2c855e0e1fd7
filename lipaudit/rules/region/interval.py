"""Intervals that hold every entry of an operation's output, whatever the network's input is.

They say which divisors stay away from zero and which gates are bounded. Interval arithmetic with outward rounding
(:mod:`lipaudit.spectral.interval`), one interval per tensor; where an operation is not listed nothing is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.rules.operands import constant, count_refs, number
from lipaudit.rules.rule import ranged
from lipaudit.spectral.interval import Interval

UNIT = Interval(0.0, 1.0)
SYMMETRIC = Interval(-1.0, 1.0)
NOT_NEGATIVE = Interval(0.0, math.inf)


def _fixed(interval: Interval, *ops: str) -> None:
    ranged(*ops)(lambda _node, _intervals: interval)


_fixed(UNIT, "aten.hardsigmoid.default", "aten.softmax.int", "aten._softmax.default")
_fixed(SYMMETRIC, "aten.softsign.default")
_fixed(Interval(-math.inf, 0.0), "aten.log_softmax.int", "aten._log_softmax.default")
_fixed(
    NOT_NEGATIVE,
    "aten.linalg_vector_norm.default", "aten.norm.Scalar", "aten.norm.ScalarOpt_dim",
    *(f"aten.{name}.{kind}" for name in ("var", "std") for kind in ("default", "dim", "correction")),
)  # fmt: skip

_ENTRYWISE: dict[str, Callable[[Interval], Interval]] = {
    "relu": lambda x: x.maximum(0.0),
    "relu6": lambda x: x.maximum(0.0).minimum(6.0),
    "abs": abs,
    "neg": lambda x: -x,
    "square": lambda x: x**2,
    "reciprocal": lambda x: 1.0 / x,
    "sqrt": Interval.sqrt,
    "rsqrt": lambda x: x**-0.5,
    "exp": Interval.exp,
    "expm1": Interval.expm1,
    "log": Interval.log,
    "log1p": Interval.log1p,
    "sigmoid": Interval.sigmoid,
    "log_sigmoid": lambda x: -(-x).softplus(),
    "tanh": Interval.tanh,
    "sinh": Interval.sinh,
    "cosh": Interval.cosh,
    "asinh": Interval.asinh,
    "atan": Interval.atan,
    "sin": Interval.sin,
    "cos": Interval.cos,
    "erf": Interval.erf,
}


def _entrywise(name: str, function: Callable[[Interval], Interval]) -> None:
    ranged(f"aten.{name}.default")(lambda _node, intervals: function(intervals[0]))


for _name, _function in _ENTRYWISE.items():
    _entrywise(_name, _function)


@ranged("aten.softplus.default")
def softplus(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """log(1 + exp(beta x)) / beta for a positive beta; x above the threshold is less than that, and not negative."""
    beta = number(node, "beta")
    if beta <= 0:
        return Interval()
    smooth = (intervals[0] * beta).softplus() / beta
    return Interval(max(0.0, intervals[0].low), smooth.high)


@ranged("aten.pow.Tensor_Scalar")
def power(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """x^p; even powers are not negative, nor are powers of what is not negative, also where nothing else is known."""
    exponent = number(node, "exponent")
    found = intervals[0] ** exponent
    return found.within(NOT_NEGATIVE) if intervals[0].low >= 0 or exponent % 2 == 0 else found


@ranged("aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default", "aten.hardtanh.default")
def clamp(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """min(max(x, low), high) with numbers for limits."""
    low, high = (node.get(a, node.get(b)) for a, b in (("min", "min_val"), ("max", "max_val")))
    found = intervals[0]
    if isinstance(low, int | float):
        found = found.maximum(_number(low))
    if isinstance(high, int | float):
        found = found.minimum(_number(high))
    return found


def _number(value: float) -> Interval:
    """A number that a node holds; an integer may be none that a float can be."""
    return Interval.of(value) if isinstance(value, int) else Interval.point(value)


def operand(node: Node, key: str, intervals: tuple[Interval, ...]) -> Interval:
    """The interval of an operand: a data-dependent one's, a constant's own."""
    argument = node[key]
    if isinstance(argument, Ref):
        position = sum(count_refs(a) for k, a in list(node.arguments.items())[: list(node.arguments).index(key)])
        return intervals[position]
    if isinstance(argument, int | float):
        return _number(argument)
    if isinstance(argument, Constant) and not argument.known:
        return Interval()
    value = constant(node, key)
    if not isinstance(argument, Constant) or value is None or value.numel() == 0 or bool(value.isnan().any()):
        return Interval()
    if argument.value.is_floating_point():
        return Interval(float(value.min()), float(value.max()))
    low, high = (int(end) for end in (argument.value.min(), argument.value.max()))
    return Interval.of(low).union(Interval.of(high))


def _factor(node: Node, key: str) -> Interval:
    """A weight of a sum, a number or a constant of one entry; of a complex one nothing is known."""
    argument: Argument = node.get(key, 1)
    if isinstance(argument, int | float):
        return _number(argument)
    value = constant(node, key) if isinstance(argument, Constant) and argument.known else None
    return Interval() if value is None or value.numel() != 1 else Interval.point(float(value))


@ranged(
    "aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar", "aten.rsub.Tensor", "aten.rsub.Scalar"
)  # fmt: skip
def add(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self + alpha other, self - alpha other, other - alpha self."""
    left, right, alpha = operand(node, "self", intervals), operand(node, "other", intervals), _factor(node, "alpha")
    if "rsub" in node.op:
        return right - alpha * left
    return left - alpha * right if "sub" in node.op else left + alpha * right


@ranged("aten.mul.Tensor", "aten.mul.Scalar")
def multiply(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self other; of a tensor with itself, a square."""
    if len(node.refs) == 2 and node.refs[0].name == node.refs[1].name:
        return intervals[0] ** 2
    return operand(node, "self", intervals) * operand(node, "other", intervals)


@ranged("aten.div.Tensor", "aten.div.Scalar")
def divide(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self / other for a divisor that does not vanish."""
    if node.get("rounding_mode") is not None:
        return Interval()
    return operand(node, "self", intervals) / operand(node, "other", intervals)


@ranged("aten.sum.default", "aten.sum.dim_IntList")
def total(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """A sum of so many entries."""
    count = math.prod(node.refs[0].info.shape) // max(1, math.prod(node.output.shape))
    return intervals[0] * float(count)


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
    return intervals[0].union(_number(fill) if isinstance(fill, int | float) else Interval.point(0.0))


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
    return left.maximum(right) if ".max" in node.op else left.minimum(right)


@ranged("aten.clamp_min.Tensor", "aten.clamp_max.Tensor")
def clamp_to_tensor(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """A tensor for a limit."""
    left = operand(node, "self", intervals)
    if "clamp_min" in node.op:
        return left.maximum(operand(node, "min", intervals))
    return left.minimum(operand(node, "max", intervals))


@ranged("lipaudit.normalization")
def normalization(node: Node, _intervals: tuple[Interval, ...]) -> Interval:
    """An entry is at most the norm of its slice."""
    payload = node.payload
    shape = node.refs[0].info.shape
    entries = float(math.prod(shape[a] for a in payload.axes))
    bound = Interval.point(entries).sqrt().high if payload.form == "root" else 1.0
    return Interval(-bound, bound)
