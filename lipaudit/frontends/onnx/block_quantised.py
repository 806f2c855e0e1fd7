"""Dense layers whose weights are stored in few bits, with a scale for every block (com.microsoft.MatMulNBits)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from lipaudit.frontends.onnx.operators import NodeView, converter
from lipaudit.frontends.onnx.products import dense

Array: TypeAlias = np.ndarray[Any, Any]
_A, _B, _SCALES, _ZERO_POINTS, _GROUPS, _BIAS = range(6)
_INTEGER_ACTIVATIONS = 4


class _InFloat64(nn.Module):
    """A dense layer whose weights only float64 holds without rounding."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate; the result has the type of x."""
        y: Tensor = self.layer(x.to(torch.float64)).to(x.dtype)
        return y


@converter("MatMulNBits", domain="com.microsoft")
def product(node: NodeView) -> nn.Module:
    """x W^T + b with W_nk = (q_nk - z_ng) s_ng, where g is the block that holds k; W is exact.

    q has 2, 4 or 8 bits, z as many (2^(bits - 1) where it is not given) and s at most 24, so that the product fits into the 53 bits of a
    float64.
    """
    bits, block, width = (int(node.attr(name, 0)) for name in ("bits", "block_size", "K"))
    bits = bits or 4
    if bits not in (2, 4, 8) or block < 1 or not (node.is_constant(_B) and node.is_constant(_SCALES)):
        node.fail(
            f"weights of {bits} bits in blocks of {block}, or weights that depend on the input, are not supported"
        )
    if node.attr("accuracy_level", 0) == _INTEGER_ACTIVATIONS:
        node.fail("accuracy_level 4 lets its input be rounded to integers, which jumps; write the file without it")
    if node.attr("weight_prepacked", 0):
        node.fail("its weights are laid out for one kind of processor (weight_prepacked); write the file without that")
    rows, blocks = int(node.attr("N")), -(-width // block)
    q = _unpacked(node.constant(_B).reshape(rows, blocks, -1), bits)[..., :block].reshape(rows, -1)[:, :width]
    scales = node.constant(_SCALES).astype(np.float64).reshape(rows, blocks)
    zeros = np.full((rows, blocks), 2 ** (bits - 1), np.int64)
    if node.has(_ZERO_POINTS):
        packed = node.constant(_ZERO_POINTS)
        if packed.dtype != np.uint8:
            node.fail("zero points that are no integers are not supported")
        zeros = _unpacked(packed.reshape(rows, -1), bits)[:, :blocks]
    groups = np.arange(width) // block
    if node.has(_GROUPS):
        groups = node.constant(_GROUPS).reshape(-1)[:width].astype(np.int64)
    weight = torch.from_numpy((q - zeros[:, groups]) * scales[:, groups])
    bias = node.tensor(_BIAS).reshape(-1).to(torch.float64) if node.has(_BIAS) else None
    return _InFloat64(dense(weight, bias))


def _unpacked(packed: Array, bits: int) -> Array:
    """The unsigned numbers of the last axis, the lowest bits of a byte first."""
    shifts = np.arange(0, 8, bits)
    numbers: Array = (packed[..., None].astype(np.int64) >> shifts) & (2**bits - 1)
    values: Array = numbers.reshape(*packed.shape[:-1], -1)
    return values
