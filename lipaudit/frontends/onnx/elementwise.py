"""Element-wise ONNX operators: activations, arithmetic, comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.operators import (
    TORCH_DTYPES,
    NodeView,
    all_operands,
    converter,
    elementwise,
    first_operand,
)

_UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Relu": functional.relu,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "Abs": torch.abs,
    "Neg": torch.neg,
    "Exp": torch.exp,
    "Log": torch.log,
    "Sqrt": torch.sqrt,
    "Floor": torch.floor,
    "Ceil": torch.ceil,
    "Round": torch.round,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Cos": torch.cos,
    "Tan": torch.tan,
    "Asin": torch.asin,
    "Acos": torch.acos,
    "Atan": torch.atan,
    "Sinh": torch.sinh,
    "Cosh": torch.cosh,
    "Asinh": torch.asinh,
    "Acosh": torch.acosh,
    "Atanh": torch.atanh,
    "Erf": torch.erf,
    "Reciprocal": torch.reciprocal,
    "Softsign": functional.softsign,
    "Not": torch.logical_not,
    "IsNaN": torch.isnan,
    "Mish": functional.mish,
    "HardSwish": functional.hardswish,
}


@converter(*_UNARY)
def unary(node: NodeView) -> nn.Module:
    """Functions of one number without options."""
    return first_operand(node, _UNARY[node.op])


@converter("Softplus")
def softplus(node: NodeView) -> nn.Module:
    """log(1 + e^x) = -logsigmoid(-x), stable and without the switch to the identity of torch's softplus."""
    return first_operand(node, lambda x: -functional.logsigmoid(-x))


@converter("LeakyRelu", "Elu", "Celu", "ThresholdedRelu")
def parametrised(node: NodeView) -> nn.Module:
    """Activations with one number; ONNX stores it in float32 and that value is kept."""
    default = {"LeakyRelu": 0.01, "Elu": 1.0, "Celu": 1.0, "ThresholdedRelu": 1.0}[node.op]
    alpha = float(np.float32(node.attr("alpha", default)))
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "LeakyRelu": partial(functional.leaky_relu, negative_slope=alpha),
        "Elu": partial(functional.elu, alpha=alpha),
        "Celu": partial(functional.celu, alpha=alpha),
        "ThresholdedRelu": partial(functional.threshold, threshold=alpha, value=0.0),
    }
    return first_operand(node, functions[node.op])


@converter("Selu")
def selu(node: NodeView) -> nn.Module:
    """gamma (x for x > 0, alpha (e^x - 1) otherwise)."""
    alpha = float(np.float32(node.attr("alpha", 1.67326319217681884765625)))
    gamma = float(np.float32(node.attr("gamma", 1.05070102214813232421875)))
    if np.float32(alpha) == np.float32(1.6732632423543772) and np.float32(gamma) == np.float32(1.0507009873554805):
        return first_operand(node, functional.selu)
    return first_operand(node, lambda x: gamma * functional.elu(x, alpha=alpha))


@converter("HardSigmoid")
def hard_sigmoid(node: NodeView) -> nn.Module:
    """clip(alpha x + beta, 0, 1). Alpha is a float32: the one nearest to 1/6 exceeds it, so that torch's would be too flat."""
    alpha, beta = float(np.float32(node.attr("alpha", 0.2))), float(np.float32(node.attr("beta", 0.5)))
    return first_operand(node, lambda x: torch.clamp(x * alpha + beta, 0.0, 1.0))


@converter("Shrink")
def shrink(node: NodeView) -> nn.Module:
    """x + bias below -lambd, x - bias above lambd, 0 between: soft where bias = lambd, hard (it jumps) where bias = 0."""
    bias, limit = (float(np.float32(node.attr(k, d))) for k, d in (("bias", 0.0), ("lambd", 0.5)))
    if bias not in (0.0, limit):
        node.fail(f"it jumps at {limit:g} (its bias is neither 0 nor {limit:g}), so that it has no Lipschitz constant")
    return first_operand(node, partial(functional.softshrink if bias else functional.hardshrink, lambd=limit))


@converter("Gelu")
def gelu(node: NodeView) -> nn.Module:
    """GELU, exact or with the tanh approximation."""
    return first_operand(node, partial(functional.gelu, approximate=node.attr("approximate", "none")))


@converter("Swish")
def swish(node: NodeView) -> nn.Module:
    """x sigmoid(alpha x)."""
    alpha = float(np.float32(node.attr("alpha", 1.0)))
    if alpha == 1.0:
        return first_operand(node, functional.silu)
    return first_operand(node, lambda x: x * torch.sigmoid(x * alpha))


@converter("Clip")
def clip(node: NodeView) -> nn.Module:
    """Limits from attributes (up to opset 10) or from constant inputs."""
    if node.opset < 11:
        low, high = node.attr("min"), node.attr("max")
    else:
        low = node.constant(1).item() if node.has(1) else None
        high = node.constant(2).item() if node.has(2) else None
    if low is None and high is None:
        return first_operand(node, lambda x: x.clone())
    if low == 0 and high is None:
        return first_operand(node, functional.relu)
    if low == 0 and high == 6:
        return first_operand(node, functional.relu6)
    return first_operand(node, partial(torch.clamp, min=low, max=high))


@converter("PRelu")
def prelu(node: NodeView) -> nn.Module:
    """max(x, 0) + slope min(x, 0); torch's prelu where the slope is one number or one per channel."""
    slope, shape = node.tensor(1), node.shape(0)
    aligned = (1,) * (len(shape) - slope.ndim) + tuple(slope.shape)
    if slope.numel() == 1:
        slopes = slope.reshape(1)
    elif len(shape) >= 2 and slope.numel() == aligned[1] == shape[1]:
        slopes = slope.reshape(-1)
    else:
        return all_operands(node, lambda x, a: torch.clamp(x, min=0.0) + a * torch.clamp(x, max=0.0))
    module = nn.PReLU(slopes.numel())
    module.weight = nn.Parameter(slopes, requires_grad=False)
    return module


@converter("Softmax", "LogSoftmax")
def softmax(node: NodeView) -> nn.Module:
    """Along one axis; before opset 13 over all axes from ``axis`` on, flattened."""
    function = functional.softmax if node.op == "Softmax" else functional.log_softmax
    shape = node.shape()
    axis = node.axis("axis", -1 if node.opset >= 13 else 1)
    if node.opset >= 13 or all(size == 1 for size in shape[axis + 1 :]):
        return first_operand(node, lambda x: function(x, dim=axis))
    rows = int(np.prod(shape[:axis]))
    return first_operand(node, lambda x: function(x.reshape(rows, -1), dim=1).reshape(shape))


@converter("Cast", "CastLike")
def cast(node: NodeView) -> nn.Module:
    """To another floating type, to integers or to booleans."""
    if node.op == "CastLike":
        dtype = node.tensor(1).dtype if node.is_constant(1) else None
        if dtype is None:
            return all_operands(node, lambda x, like: x.to(like.dtype))
    else:
        dtype = TORCH_DTYPES.get(node.attr("to"))
        if dtype is None:
            node.fail(f"torch has no tensor type for {onnx.TensorProto.DataType.Name(node.attr('to'))}")
    return first_operand(node, lambda x: x.to(dtype))


def _divide(a: Any, b: Any) -> Any:
    both = [x for x in (a, b) if isinstance(x, torch.Tensor)]
    if any(x.is_floating_point() for x in both) or isinstance(a, float) or isinstance(b, float):
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


def _larger(a: Any, b: Any) -> torch.Tensor:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.maximum(a, b)
    return torch.clamp(a, min=b) if isinstance(a, torch.Tensor) else torch.clamp(b, min=a)


def _smaller(a: Any, b: Any) -> torch.Tensor:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.minimum(a, b)
    return torch.clamp(a, max=b) if isinstance(a, torch.Tensor) else torch.clamp(b, max=a)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _divide,
    "Pow": torch.pow,
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "Less": operator.lt,
    "GreaterOrEqual": operator.ge,
    "LessOrEqual": operator.le,
}


@converter(*_BINARY)
def binary(node: NodeView) -> nn.Module:
    """Functions of two numbers, with numpy's broadcasting."""
    if node.op in ("And", "Or", "Xor"):
        return all_operands(node, _BINARY[node.op])
    return elementwise(node, _BINARY[node.op])


@converter("Max", "Min", "Sum", "Mean")
def variadic(node: NodeView) -> nn.Module:
    """Functions of any number of tensors."""
    count = len(node.operands)
    functions: dict[str, Callable[..., Any]] = {
        "Max": lambda *x: reduce(_larger, x),
        "Min": lambda *x: reduce(_smaller, x),
        "Sum": lambda *x: reduce(operator.add, x),
        "Mean": lambda *x: reduce(operator.add, x) / count,
    }
    return elementwise(node, functions[node.op])


@converter("Where")
def where(node: NodeView) -> nn.Module:
    """Entries of the second or third input, by a mask."""
    return all_operands(node, torch.where)
