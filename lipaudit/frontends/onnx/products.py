"""ONNX matrix products: dense layers where one factor is constant."""

from __future__ import annotations

import torch
from torch import nn

from lipaudit.frontends.onnx.operators import NodeView, all_operands, converter, frozen


def dense(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    """A dense layer with given weights (c_out, c_in)."""
    module = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    module.weight = frozen(weight)
    if bias is not None:
        module.bias = frozen(bias)
    return module


@converter("MatMul")
def matmul(node: NodeView) -> nn.Module:
    """A product with a constant matrix on the right (leading axes of size 1 do not count) is a dense layer without bias."""
    shape = node.shape(1)
    if node.is_constant(1) and 2 <= len(shape) <= max(2, len(node.shape(0))) and set(shape[:-2]) <= {1}:
        return dense(node.tensor(1).reshape(shape[-2:]).t().contiguous(), None)
    return all_operands(node, torch.matmul)


@converter("Gemm")
def gemm(node: NodeView) -> nn.Module:
    """alpha A B + beta C, each of A and B transposed on request; a dense layer where alpha = beta = 1."""
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    trans_a, trans_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    plain = alpha == 1.0 and (beta == 1.0 or not node.has(2)) and not trans_a
    if plain and node.is_constant(1) and (not node.has(2) or node.is_constant(2)):
        weight = node.tensor(1) if trans_b else node.tensor(1).t().contiguous()
        width = weight.shape[0]
        if not node.has(2):
            return dense(weight, None)
        bias = node.tensor(2)
        if bias.numel() == 1 or bias.numel() == bias.shape[-1] == width:
            return dense(weight, bias.reshape(-1).expand(width).contiguous())

    def product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        result = torch.matmul(a.t() if trans_a else a, b.t() if trans_b else b)
        result = result if alpha == 1.0 else alpha * result
        return result if c is None else result + (c if beta == 1.0 else beta * c)

    return all_operands(node, product)
