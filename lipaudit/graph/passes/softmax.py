"""Softmax that arrives written out: e^x / sum(e^x), with or without a number per row taken off before.

softmax(x - c) = softmax(x) for every c that does not vary along the axis, the largest entry of a row for one: written-out forms
subtract it against overflow. A sum with an epsilon is another function and stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.graph.ops import VIEWS
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch, adds_axis

_SOFTMAX = "aten.softmax.int"
_NOT_A_QUOTIENT = NoMatch("no quotient of two tensors, nor a product with a reciprocal")
_NOT_AN_EXPONENTIAL = NoMatch("what is divided is no exponential of the shape of the result")
_NOT_A_SUM = NoMatch("the divisor is no sum over one axis")
_OTHER_SUM = NoMatch("the divisor is the sum of something else than the exponentials")


def matcher(index: GraphIndex) -> Matcher:
    """Matches quotients of exponentials by their sums along an axis."""
    producers = index.producers

    def match(node: Node) -> Match | NoMatch:
        if node.op not in ("aten.div.Tensor", "aten.mul.Tensor"):
            return OTHER_OPERATION
        if node.get("rounding_mode") is not None or len(node.refs) != 2:
            return _NOT_A_QUOTIENT
        above, below = node.refs
        merged: tuple[str, ...] = ()
        if node.op == "aten.mul.Tensor":  # e^x times the reciprocal of the sum
            if producers[above.name].op == "aten.reciprocal.default":
                above, below = below, above
            inverse = producers[below.name]
            if inverse.op != "aten.reciprocal.default":
                return _NOT_A_QUOTIENT
            merged, below = (inverse.name,), inverse.refs[0]
        power, total = producers[above.name], producers[below.name]
        if power.op != "aten.exp.default" or above.info != node.output:
            return _NOT_AN_EXPONENTIAL
        view = None
        if total.op in VIEWS:
            merged, view, total = (*merged, total.name), total, producers[total.refs[0].name]
        axis = _axis(total, len(node.output.shape), view)
        if axis is None:
            return _NOT_A_SUM
        summed = producers[total.refs[0].name]
        if summed.op != power.op or summed.refs != power.refs:
            return _OTHER_SUM
        argument, shifts = _unshifted(power.refs[0], axis, producers)
        arguments: dict[str, Argument] = {"self": argument, "dim": axis, "dtype": None}
        between = (*shifts, *dict.fromkeys((power.name, summed.name)), total.name, *merged)
        return Match((replace(node, op=_SOFTMAX, arguments=arguments),), merged=between)

    return match


def _axis(total: Node, rank: int, view: Node | None) -> int | None:
    """The axis that a sum keeps as one of a single entry."""
    if total.op != "aten.sum.dim_IntList" or total["dtype"] is not None or len(total.refs) != 1:
        return None
    dims = total["dim"]
    if not isinstance(dims, tuple) or len(dims) != 1 or not isinstance(dims[0], int):
        return None
    axis = dims[0] % rank
    if total["keepdim"]:
        return axis if view is None else None
    return axis if view is not None and adds_axis(view, axis) else None


def _unshifted(ref: Ref, axis: int, producers: Mapping[str, Node]) -> tuple[Ref, tuple[str, ...]]:
    """x of x - c, where c has a single entry along the axis; the operand itself where nothing is taken off."""
    node = producers[ref.name]
    if node.op != "aten.sub.Tensor" or node["alpha"] != 1 or len(node.refs) != 2:
        return ref, ()
    left, right = node.refs
    rank = len(ref.info.shape)
    shape = (1,) * (rank - len(right.info.shape)) + right.info.shape
    return (left, (node.name,)) if left.info == ref.info and shape[axis] == 1 else (ref, ())
