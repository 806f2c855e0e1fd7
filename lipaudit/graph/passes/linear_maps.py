"""Convolutions, dense layers and channelwise scales as nodes that carry their weights: W x + b, on differences W x."""

from __future__ import annotations

from dataclasses import replace

from lipaudit.graph.linear import (
    BATCH_NORMS,
    CONVOLUTION,
    CONVOLUTIONS,
    DENSE,
    PRODUCTS,
    SCALE,
    Linear,
    as_convolution,
    as_dense,
    as_scale,
)
from lipaudit.graph.node import Argument, Constant, Node
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch

_OPERATIONS = {
    *CONVOLUTIONS, *BATCH_NORMS, *PRODUCTS,
    "aten.linear.default", "aten.addmm.default", "aten.mm.default", "aten.matmul.default",
}  # fmt: skip
_SEVERAL_OPERANDS = NoMatch("more than one operand depends on the data")
_NO_LINEAR_MAP = NoMatch(
    "the constant is no kernel, no matrix on the last axis and no scale along one axis of the data"
)


def matcher(_index: GraphIndex) -> Matcher:
    """Matches convolutions and products with one constant, batch norms in evaluation mode among them."""
    return _match


def _match(node: Node) -> Match | NoMatch:
    if node.op not in _OPERATIONS:
        return OTHER_OPERATION
    refs = node.refs
    if len(refs) != 1:
        return _SEVERAL_OPERANDS
    if convolution := as_convolution(node):
        return _linear(node, CONVOLUTION, convolution)
    if dense := as_dense(node):
        return _linear(node, DENSE, dense)
    if scale := as_scale(node, refs[0].info.shape):
        return _linear(node, SCALE, scale)
    return _NO_LINEAR_MAP


def _linear(node: Node, op: str, payload: Linear) -> Match:
    arguments: dict[str, Argument] = {
        "input": node.refs[0],
        **{k: v for k, v in node.arguments.items() if isinstance(v, Constant)},
    }
    return Match((replace(node, op=op, arguments=arguments, outputs=node.outputs[:1], payload=payload),))
