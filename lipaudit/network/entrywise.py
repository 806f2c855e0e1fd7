"""Operations that act on every entry by itself: which slopes they have, and which leave it as it is."""

from __future__ import annotations

import torch

from lipaudit.graph.node import Node
from lipaudit.graph.ops import CASTS, DROPOUTS, IDENTITIES, PRELU
from lipaudit.graph.passes.activations import ACTIVATION
from lipaudit.graph.passes.elementwise import ELEMENTWISE
from lipaudit.rules.operands import along_channels
from lipaudit.rules.operands import constant as constant_operand

_INCREASING = {
    "aten.relu.default", "aten.relu6.default", "aten.sigmoid.default", "aten.tanh.default", "aten.hardtanh.default",
    "aten.hardsigmoid.default", "aten.softplus.default", "aten.log_sigmoid.default", "aten.atan.default", "aten.asinh.default",
    "aten.erf.default", "aten.selu.default", "aten.threshold.default", "aten.softshrink.default",
}  # fmt: skip
# of one tensor and constants
_EXTREMES = {"aten.maximum.default", "aten.minimum.default", "aten.clamp.Tensor"}
_BOTH_SIGNS = {
    ACTIVATION, "aten.mish.default", "aten.abs.default", "aten.celu.default", "aten.sin.default", "aten.cos.default",
}  # fmt: skip
_ROUNDING = 2.0**-50
# functions f with f'(x) + f'(-x) = 1: the smallest slope is 1 minus the largest
_REFLECTED = {"aten.silu.default", "aten.gelu.default", "aten.hardswish.default"}
_LEAST_OF_THE_REFLECTED = 1.0998  # the largest slope of silu, less than that of the others


def returns_its_operand(node: Node) -> bool:
    """Whether the output of a node is its only data-dependent operand, entry by entry, but for rounding to another precision.

    A cast to integers or booleans jumps, and one of a complex number to a real one drops a part of it.
    """
    refs = node.refs
    if len(refs) != 1 or len(node.outputs) != 1 or refs[0].info.shape != node.output.shape:
        return False
    if node.op in DROPOUTS:
        return node["train"] is False
    kinds = {(d.is_floating_point, d.is_complex) for d in (refs[0].info.dtype, node.output.dtype)}
    return node.op in IDENTITIES | CASTS and len(kinds) == 1 and kinds != {(False, False)}


def slopes(node: Node, constant: float) -> tuple[float, float] | None:
    """An interval that holds the slopes of an element-wise function whose constant is given; None for other operations."""
    if node.op in _INCREASING:
        return (0.0, constant)
    if node.op == "aten.leaky_relu.default":
        slope = node["negative_slope"]
        assert isinstance(slope, int | float)
        return (min(float(slope), 1.0), max(float(slope), 1.0))
    if node.op == "aten.elu.default":
        numbers = [node[key] for key in ("alpha", "scale", "input_scale")]
        if all(isinstance(n, int | float) and n >= 0 for n in numbers):
            return (0.0, constant)
        return (-constant, constant)
    if node.op in _REFLECTED:
        return (1 - constant, constant) if constant >= _LEAST_OF_THE_REFLECTED else (-constant, constant)
    if node.op == ACTIVATION and (reflection := node.payload.expression.reflection) is not None:
        least = float(reflection) - constant
        return (max(-constant, least - _ROUNDING * (abs(float(reflection)) + constant)), constant)
    if node.op in _BOTH_SIGNS:
        return (-constant, constant)
    if node.op == ELEMENTWISE:
        low, high = node.payload.slope_range()
        return (max(low, -constant), min(high, constant))
    if node.op in _EXTREMES and len(node.refs) == 1 and node.refs[0].info.shape == node.output.shape:
        return (0.0, constant)
    if (each := slopes_of_entries(node)) is not None:
        return (float(each[0].min()), float(each[1].max()))
    if node.op == "aten.clamp.default":
        return (0.0, 1.0)
    return None


def slopes_of_entries(node: Node) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The slopes of a PReLU with constant weights, from min(1, w) to max(1, w), in float64, in a shape that fits its output.

    None for other operations.
    """
    weight = constant_operand(node, "weight") if node.op in PRELU else None
    if weight is None or node.output.shape != node.refs[0].info.shape or weight.numel() == 0:
        return None
    each = along_channels(weight, len(node.output.shape))
    return each.clamp_max(1.0), each.clamp_min(1.0)
