"""The operators of onnxruntime's own domain (com.microsoft) that its optimiser leaves in transformer and image files.

Each is a fusion of standard operators; the formulas are those of onnxruntime's operator documentation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.attention import band, join_heads, split_heads
from lipaudit.frontends.onnx.convolution import convolution
from lipaudit.frontends.onnx.normalization import layer_norm, rms_norm
from lipaudit.frontends.onnx.operators import Apply, NodeView, all_operands, converter
from lipaudit.frontends.onnx.products import dense

_DOMAIN = "com.microsoft"
Function: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


@converter("Gelu", "BiasGelu", "FastGelu", "QuickGelu", domain=_DOMAIN)
def gelu(node: NodeView) -> nn.Module:
    """GELU of x, or of x plus a bias: exact, by tanh (Fast), or x sigmoid(alpha x) (Quick)."""
    alpha = float(np.float32(node.attr("alpha", 1.702)))
    functions: dict[str, Function] = {
        "Gelu": functional.gelu,
        "BiasGelu": functional.gelu,
        "FastGelu": partial(functional.gelu, approximate="tanh"),
        "QuickGelu": lambda x: x * torch.sigmoid(x * alpha),
    }
    function = functions[node.op]
    return all_operands(node, lambda x, bias=None: function(x if bias is None else x + bias))


def _activation(node: NodeView) -> Function:
    """The activation of a fused operator, "" for none."""
    name = node.attr("activation", "")
    parameters = [float(np.float32(p)) for p in node.attr("activation_params", [])]
    if not parameters and node.attr("activation_alpha") is not None:
        parameters = [float(np.float32(node.attr(f"activation_{p}", 0.0))) for p in ("alpha", "beta")]
    functions: dict[str, Callable[..., Any]] = {
        "": lambda x: x,
        "Relu": functional.relu,
        "Sigmoid": torch.sigmoid,
        "Tanh": torch.tanh,
        "LeakyRelu": lambda x, alpha=0.01, _beta=0.0: functional.leaky_relu(x, alpha),
        "Clip": lambda x, low, high: torch.clamp(x, low, high),
        "HardSigmoid": lambda x, alpha, beta: torch.clamp(x * alpha + beta, 0.0, 1.0),
    }
    if name not in functions:
        node.fail(f"the activation {name!r} is not supported")
    return lambda x: functions[name](x, *parameters)


@converter("FusedConv", domain=_DOMAIN)
def fused_convolution(node: NodeView) -> nn.Module:
    """activation(conv(x) + z)."""
    activation = _activation(node)
    if node.has(3) and node.is_constant(3):
        node.fail("the summand of the convolution is constant")
    return _Fused(convolution(node), activation)


class _Fused(nn.Module):
    """A convolution, a summand where there is one, an activation."""

    def __init__(self, conv: nn.Module, activation: Function) -> None:
        super().__init__()
        self.conv = conv
        self._activation = activation

    def forward(self, x: torch.Tensor, z: torch.Tensor | None = None) -> torch.Tensor:
        """Evaluate."""
        y: torch.Tensor = self.conv(x)
        return self._activation(y if z is None else y + z)


@converter("FusedMatMul", "TransposeMatMul", "FusedGemm", domain=_DOMAIN)
def fused_product(node: NodeView) -> nn.Module:
    """activation(alpha A B + beta C), the last two axes of A and B exchanged on request."""
    alpha, beta = (float(np.float32(node.attr(name, 1.0))) for name in ("alpha", "beta"))
    trans_a, trans_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    if node.attr("transBatchA", 0) or node.attr("transBatchB", 0):
        node.fail("exchanged batch axes (transBatchA, transBatchB) are not supported")
    activation = _activation(node)
    if node.is_constant(1) and len(node.shape(1)) == 2 and not trans_a and alpha == beta == 1.0 and not node.has(2):
        weight = node.tensor(1) if trans_b else node.tensor(1).t().contiguous()
        return nn.Sequential(OrderedDict(dense=dense(weight, None), activation=Apply(activation, [None])))

    def product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        y = torch.matmul(a.mT if trans_a else a, b.mT if trans_b else b)
        y = y if alpha == 1.0 else y * alpha
        return activation(y if c is None else y + (c if beta == 1.0 else c * beta))

    return all_operands(node, product)


class _SkipNorm(nn.Module):
    """norm(x + skip + bias) and that sum, as outputs 0 and 3; 1 and 2 are statistics that only training reads."""

    bias: torch.Tensor | None

    def __init__(self, norm: nn.Module, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.norm = norm
        self.register_buffer("bias", bias)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Evaluate."""
        total = x + skip if self.bias is None else x + skip + self.bias
        return self.norm(total), None, None, total


@converter("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=_DOMAIN)
def skip_normalization(node: NodeView) -> nn.Module:
    """Layer (or RMS) norm over the last axis of x + skip + bias; also that sum."""
    epsilon, axis = float(node.attr("epsilon", 1e-12)), len(node.shape()) - 1
    if node.is_constant(0) or node.is_constant(1):
        node.fail("one of its summands is constant")
    simplified = node.op.startswith("SkipSimplified")
    scale, position = node.tensor(2), 3 if simplified else 4
    bias = node.tensor(position) if node.has(position) else None
    if simplified:
        return _SkipNorm(rms_norm(node, axis, scale, epsilon), bias)
    return _SkipNorm(layer_norm(node, axis, scale, node.tensor(3) if node.has(3) else None, epsilon), bias)


def _refuse_inputs(node: NodeView, names: dict[int, str]) -> None:
    for index, name in names.items():
        if node.has(index):
            node.fail(f"its input {name} is not supported")


def _attend(
    node: NodeView, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Attention of joined heads with the node's number of heads, scale and direction."""
    heads = int(node.attr("num_heads"))
    scale = float(node.attr("scale", 0.0)) or None
    q, k, v = (split_heads(t, heads) for t in (q, k, v))
    if node.attr("unidirectional", 0):
        allowed = band(q.shape[2], k.shape[2], -1, 0)
        bias = torch.zeros(allowed.shape, dtype=q.dtype) if bias is None else bias
        bias = bias.masked_fill(~allowed, -torch.inf)
    return join_heads(functional.scaled_dot_product_attention(q, k, v, bias, scale=scale))


class _SelfAttention(nn.Module):
    """Queries, keys and values by one dense layer, cut into three; then attention."""

    bias: torch.Tensor | None

    def __init__(self, node: NodeView, project: nn.Module, sizes: list[int], bias: torch.Tensor | None) -> None:
        super().__init__()
        self.project = project
        self.register_buffer("bias", bias)
        self._node, self._sizes = node, sizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Evaluate."""
        q, k, v = torch.split(self.project(x), self._sizes, dim=-1)
        return _attend(self._node, q, k, v, self.bias)


@converter("Attention", domain=_DOMAIN)
def self_attention(node: NodeView) -> nn.Module:
    """softmax(Q K^T / sqrt(d) + bias) V of x (batch, length, c), with the weights of Q, K and V side by side."""
    _refuse_inputs(node, {3: "mask_index", 4: "past", 6: "past_sequence_length"})
    if node.attr("do_rotary", 0):
        node.fail("rotary embedding inside attention (do_rotary) is not supported")
    weight = node.tensor(1)
    sizes = [int(n) for n in node.attr("qkv_hidden_sizes", [weight.shape[1] // 3] * 3)]
    project = dense(weight.t().contiguous(), node.tensor(2) if node.has(2) else None)
    return _SelfAttention(node, project, sizes, node.tensor(5) if node.has(5) else None)


@converter("MultiHeadAttention", domain=_DOMAIN)
def multi_head_attention(node: NodeView) -> nn.Module:
    """The same of given queries, keys and values (batch, length, heads d), with an optional bias for the three."""
    _refuse_inputs(node, {4: "key_padding_mask", 6: "past_key", 7: "past_value", 8: "past_sequence_length"})
    if not (node.has(1) and node.has(2)) or any(len(node.shape(i)) != 3 for i in range(3)):
        node.fail("packed queries, keys and values are not supported")
    if node.has(5):
        node.constant(5)
    bias = node.has(3)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        constants = list(rest)
        if bias:
            shifts = torch.split(constants.pop(0), [q.shape[-1], k.shape[-1], v.shape[-1]])
            q, k, v = (t + s for t, s in zip((q, k, v), shifts, strict=True))
        return _attend(node, q, k, v, constants[0] if constants else None)

    given = [i for i in (3, 5) if node.has(i)]
    slots = [node.tensor(i) if node.is_constant(i) else None for i in range(3)] + [node.tensor(i) for i in given]
    return Apply(attend, slots)
