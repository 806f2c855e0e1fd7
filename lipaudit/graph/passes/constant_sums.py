"""Divisions by a sum that is known: the weights of a softmax add up to 1.

A network that mixes softmax weights with constant ones and normalises the mixture, a = (1 - g) softmax(z) + g P, a / sum(a),
divides by (1 - g) + g sum(P), a constant. The sum over an axis follows these rules: 1 for a softmax over that axis, its
value for a constant, the sum of both for an addition, the multiple for a product with a constant that does not vary along
the axis. Taken for a data-dependent divisor it would have no bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from lipaudit.graph.constant_errors import LARGEST
from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.graph.ops import CASTS, IDENTITIES, SOFTMAX, VIEWS
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch, adds_axis
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, composed

_PASSING = IDENTITIES | CASTS
_DIVISIONS = {"aten.div.Tensor"}
# A sum below this part of what it is summed from has lost digits to cancellation.
_CANCELLED = 1e-6
_NOT_DATA = NoMatch("the divisor is a constant, or the quotient is rounded")
_NOT_A_SUM = NoMatch("the divisor is no sum over one axis")
_UNKNOWN = NoMatch("the sum is that of no softmax along the axis, nor of a mixture of one with constants")
_LOST = NoMatch("the terms of the sum cancel")


def matcher(index: GraphIndex) -> Matcher:
    """Matches quotients by sums whose value is known, and makes the divisor a constant."""
    producers = index.producers

    def match(node: Node) -> Match | NoMatch:
        if node.op not in _DIVISIONS:
            return OTHER_OPERATION
        divisor = node["other"]
        if node.get("rounding_mode") is not None or not isinstance(divisor, Ref):
            return _NOT_DATA
        summed = _summed(producers[divisor.name], producers)
        if summed is None:
            return _NOT_A_SUM
        source, axis = summed
        total = _sum(source, axis, len(source.info.shape), producers)
        if total is None or total.error > LARGEST:
            return _UNKNOWN
        if bool((total.value.abs() <= _CANCELLED * total.size).any()):
            return _LOST
        # every term and every partial sum is rounded once; a divisor that is too small keeps the quotient's bound above
        terms = source.info.shape[axis] + 16
        rounding = (terms * 2.0**-52 + total.error) * total.size / total.value.abs()
        return Match((replace(node, arguments={**node.arguments, "other": Constant(total.value * (1 - rounding))}),))

    return match


def _summed(divisor: Node, producers: Mapping[str, Node]) -> tuple[Ref, int] | None:
    """The tensor whose sum over one axis, kept as an axis of one entry, the divisor is, and that axis."""
    view = divisor if divisor.op in VIEWS else None
    total = divisor if view is None else producers[view.refs[0].name]
    if total.op != "aten.sum.dim_IntList" or total["dtype"] is not None or not isinstance(total["self"], Ref):
        return None
    if not divisor.output.dtype.is_floating_point:
        return None
    dims, rank = total["dim"], len(total["self"].info.shape)
    if not isinstance(dims, tuple) or len(dims) != 1 or not isinstance(dims[0], int):
        return None
    axis = dims[0] % rank
    if not total["keepdim"]:
        return (total["self"], axis) if view is not None and adds_axis(view, axis) else None
    return (total["self"], axis) if view is None else None


@dataclass(frozen=True)
class _Total:
    """A sum over an axis, which keeps one entry, in float64, and the sum of the absolute values of its terms.

    ``error`` is that of its terms, each relative to itself: of constants, and of the operations on the way.
    """

    value: torch.Tensor
    size: torch.Tensor
    error: float = 0.0


def _sum(argument: Argument, axis: int, rank: int, producers: Mapping[str, Node]) -> _Total | None:
    """The sum over an axis as tensors of ``rank`` axes; None where it is not known."""
    if isinstance(argument, Constant):
        return _constant_sum(argument, axis, rank)
    if not isinstance(argument, Ref):
        return None
    node = producers[argument.name]
    if len(argument.info.shape) != rank or len(node.outputs) != 1 or not argument.info.dtype.is_floating_point:
        return None
    if node.op in SOFTMAX:
        dim = node["dim"]
        same = isinstance(dim, int) and dim % rank == axis
        one = torch.ones((1,) * rank, dtype=torch.float64)
        return _Total(one, one) if same else None
    if node.op in _PASSING:
        return _sum(next(iter(node.arguments.values())), axis, rank, producers)
    if node.op in ("aten.add.Tensor", "aten.sub.Tensor") and node["alpha"] == 1:
        left, right = (_broadcast_sum(node, key, axis, rank, producers) for key in ("self", "other"))
        if left is None or right is None:
            return None
        value = left.value + right.value if node.op == "aten.add.Tensor" else left.value - right.value
        return _Total(value, left.size + right.size, max(left.error, right.error) + UNIT_ROUNDOFF)
    if node.op == "aten.mul.Tensor":
        for varying, factor in ((node["self"], node["other"]), (node["other"], node["self"])):
            scale = _uniform(factor, axis, rank)
            inner = None if scale is None else _sum(varying, axis, rank, producers)
            if scale is not None and inner is not None and _full(varying, axis, node):
                error = composed(inner.error, factor.error if isinstance(factor, Constant) else 0.0)
                return _Total(scale * inner.value, scale.abs() * inner.size, error)
    return None


def _full(argument: Argument, axis: int, node: Node) -> bool:
    """Whether an operand has as many entries along the axis as the result, so that none is repeated."""
    return isinstance(argument, Ref) and argument.info.shape[axis] == node.output.shape[axis]


def _broadcast_sum(node: Node, key: str, axis: int, rank: int, producers: Mapping[str, Node]) -> _Total | None:
    argument = node[key]
    if isinstance(argument, Constant):
        value = argument.value
        shape = (1,) * (rank - value.dim()) + tuple(value.shape)
        copies = node.output.shape[axis] if shape[axis] == 1 else 1
        total = _constant_sum(argument, axis, rank)
        return None if total is None else replace(total, value=total.value * copies, size=total.size * copies)
    return _sum(argument, axis, rank, producers) if _full(argument, axis, node) else None


def _constant_sum(constant: Constant, axis: int, rank: int) -> _Total | None:
    value = constant.value
    if value.is_complex() or value.dim() > rank or not bool(torch.isfinite(value).all()):
        return None
    full = value.detach().to("cpu", torch.float64).reshape((1,) * (rank - value.dim()) + tuple(value.shape))
    return _Total(full.sum(axis, keepdim=True), full.abs().sum(axis, keepdim=True), constant.error)


def _uniform(factor: Argument, axis: int, rank: int) -> torch.Tensor | None:
    """A constant factor that does not vary along the axis."""
    if isinstance(factor, int | float):
        return torch.full((1,) * rank, float(factor), dtype=torch.float64)
    if not isinstance(factor, Constant) or factor.value.is_complex() or factor.value.dim() > rank:
        return None
    value = factor.value.detach().to("cpu", torch.float64)
    value = value.reshape((1,) * (rank - value.dim()) + tuple(value.shape))
    return value if value.shape[axis] == 1 else None
