"""ONNX Attention and RotaryEmbedding: torch's scaled dot-product attention, rotations of pairs of entries."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.operators import Apply, NodeView, converter, first_operand


def split_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """(batch, length, heads d) to (batch, heads, length, d)."""
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def join_heads(x: torch.Tensor) -> torch.Tensor:
    """(batch, heads, length, d) to (batch, length, heads d)."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def band(queries: int, keys: int, left: int, right: int) -> torch.Tensor:
    """Whether query i attends key j: i - left <= j <= i + right, a limit below 0 standing for none."""
    distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
    allowed = torch.ones(queries, keys, dtype=torch.bool)
    if left >= 0:
        allowed &= distance >= -left
    if right >= 0:
        allowed &= distance <= right
    return allowed


@converter("Attention")
def attention(node: NodeView) -> nn.Module:
    """softmax(scale Q K^T + mask) V per head, heads as an axis (rank 4) or joined in the last one (rank 3)."""
    for index, name in ((4, "past keys"), (5, "past values"), (6, "lengths of padded keys")):
        if node.has(index):
            node.fail(f"{name} (as language models pass them on) are not supported")
    if node.attr("softcap", 0.0):
        node.fail("the soft limit of the logits (softcap) is not supported")
    joined = len(node.shape()) == 3
    heads = [int(node.attr(name, 1)) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    length = 1 if joined else 2
    right = 0 if node.attr("is_causal", 0) else int(node.attr("right_window_size", -1))
    allowed = band(node.shape(0)[length], node.shape(1)[length], int(node.attr("left_window_size", -1)), right)
    if node.has(3) and not node.is_constant(3):
        node.fail("its mask depends on the network's input")
    limited = not bool(allowed.all())
    mask = _mask(node.tensor(3) if node.has(3) else None, allowed if limited else None)
    scale = node.attr("scale")
    grouped = node.shape(0)[1] != node.shape(1)[1] if not joined else heads[0] != heads[1]

    def attend(*tensors: torch.Tensor) -> torch.Tensor:
        q, k, v = (split_heads(t, n) if joined else t for t, n in zip(tensors[:3], heads, strict=True))
        bias = tensors[3] if len(tensors) > 3 else None
        y = functional.scaled_dot_product_attention(q, k, v, bias, scale=scale, enable_gqa=grouped)
        return join_heads(y) if joined else y

    constants = [None if node.value(i).constant is None else node.tensor(i) for i in range(3)]
    return Apply(attend, constants if mask is None else [*constants, mask])


def _mask(stored: torch.Tensor | None, allowed: torch.Tensor | None) -> torch.Tensor | None:
    """The stored mask (boolean, or added to the logits) together with the pairs that are allowed at all."""
    if stored is None or allowed is None:
        return stored if allowed is None else allowed
    if stored.dtype == torch.bool:
        return stored & allowed
    return stored.masked_fill(~allowed, -torch.inf)


@converter("RotaryEmbedding")
def rotary_embedding(node: NodeView) -> nn.Module:
    """(a, b) to (a cos - b sin, a sin + b cos) for pairs of entries: neighbours, or one from each half."""
    shape = node.shape()
    joined = len(shape) == 3
    heads = int(node.attr("num_heads", 1)) if joined else shape[1]
    if joined and shape[2] % heads:
        node.fail(f"{shape[2]} entries do not split into {heads} heads")
    cosine, sine = node.tensor(1), node.tensor(2)
    if node.has(3):
        cosine, sine = (table[node.tensor(3)] for table in (cosine, sine))
    rotated = int(node.attr("rotary_embedding_dim", 0)) or (shape[2] // heads if joined else shape[3])
    rotate = partial(
        _rotate, heads=heads if joined else 0, width=rotated, interleaved=bool(node.attr("interleaved", 0))
    )
    tables = (t[..., : rotated // 2].unsqueeze(1).contiguous() for t in (cosine, sine))
    return first_operand(node, rotate, *tables)


def _rotate(
    x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, *, heads: int, width: int, interleaved: bool
) -> torch.Tensor:
    y = split_heads(x, heads) if heads else x
    turned, rest = y[..., :width], y[..., width:]
    first, second = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, dim=-1)
    parts = (first * cosine - second * sine, first * sine + second * cosine)
    turned = torch.stack(parts, dim=-1).flatten(-2) if interleaved else torch.cat(parts, dim=-1)
    y = torch.cat([turned, rest], dim=-1) if rest.shape[-1] else turned
    return join_heads(y) if heads else y
