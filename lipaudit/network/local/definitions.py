"""Operations as compositions of others whose derivatives are known to move little near a centre.

On a ball these say more than the one constant that an operation has everywhere. A definition takes the arguments of the operation's schema
and computes the same; where it cannot, it raises NotImplementedError and the operation stays as it is. The tests compare values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from lipaudit.graph.passes.decomposition_rules import DEFINITIONS
from lipaudit.network.local.recurrent_definitions import RECURRENT_DEFINITIONS

_LONGEST = 64  # prefixes of a slice that are written one by one


def _product(rows: Tensor) -> Tensor:
    """The product along the last axis: halves times halves, then halves of that."""
    while (n := rows.shape[-1]) > 1:
        pairs = rows[..., : n // 2] * rows[..., n // 2 : 2 * (n // 2)]
        rows = torch.cat((pairs, rows[..., -1:]), -1) if n % 2 else pairs
    return rows.squeeze(-1)


def prod(self: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """The product of all entries."""
    rows = self.reshape(-1) if dtype is None else self.reshape(-1).to(dtype)
    return _product(_some(rows))


def prod_dim(self: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    """Products along an axis."""
    rows = self if dtype is None else self.to(dtype)
    total = _product(_some(rows.movedim(dim, -1)))
    return total.unsqueeze(dim) if keepdim else total


def _some(rows: Tensor) -> Tensor:
    if not rows.dim() or not rows.shape[-1]:
        raise NotImplementedError
    return rows


def cumprod(self: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Products of the first entries: those of the last 2, 4, 8 ... up to each."""
    rows, step = _some(self if dtype is None else self.to(dtype)).movedim(dim, -1), 1
    while step < rows.shape[-1]:
        rows = torch.cat((rows[..., :step], rows[..., step:] * rows[..., :-step]), -1)
        step *= 2
    return rows.movedim(-1, dim)


def logcumsumexp(self: Tensor, dim: int) -> Tensor:
    """log sum exp of the first entries."""
    rows = _some(self).movedim(dim, -1)
    if rows.shape[-1] > _LONGEST:
        raise NotImplementedError
    return torch.stack([rows[..., : k + 1].logsumexp(-1) for k in range(rows.shape[-1])], -1).movedim(-1, dim)


def maximum(self: Tensor, other: Tensor) -> Tensor:
    """b + relu(a - b)."""
    return other + torch.relu(self - other)


def minimum(self: Tensor, other: Tensor) -> Tensor:
    """b - relu(b - a)."""
    return other - torch.relu(other - self)


def clamp(self: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:  # noqa: A002
    """min(max(x, low), high)."""
    result = self if min is None else maximum(self, min)
    return result if max is None else minimum(result, max)


def clamp_min(self: Tensor, min: Tensor) -> Tensor:  # noqa: A002
    """max(x, low)."""
    return maximum(self, min)


def clamp_max(self: Tensor, max: Tensor) -> Tensor:  # noqa: A002
    """min(x, high)."""
    return minimum(self, max)


def aminmax(self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest entry."""
    axes = tuple(range(self.dim())) if dim is None else (dim,)
    return self.amin(axes, keepdim), self.amax(axes, keepdim)


def _both(left: Tensor, right: Tensor) -> Tensor:
    return torch.stack(torch.broadcast_tensors(left, right))  # type: ignore[no-untyped-call]


def hypot(self: Tensor, other: Tensor) -> Tensor:
    """The norm of a pair."""
    size: Tensor = torch.linalg.vector_norm(_both(self, other), 2, (0,))
    return size


def logaddexp(self: Tensor, other: Tensor) -> Tensor:
    """log sum exp of a pair."""
    return torch.logsumexp(_both(self, other), (0,))


def logaddexp2(self: Tensor, other: Tensor) -> Tensor:
    """The same with the base 2."""
    return torch.logsumexp(_both(self, other) * math.log(2), (0,)) / math.log(2)


def vector_norm(
    self: Tensor,
    ord: float = 2,  # noqa: A002
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Norms of other orders than 2: sums of moduli, the largest one, powers of sums of powers."""
    axes = tuple(range(self.dim())) if dim is None else tuple(dim) if isinstance(dim, list | tuple) else (dim,)
    size = (self if dtype is None else self.to(dtype)).abs()
    if ord == math.inf:
        return size.amax(axes, keepdim)
    if ord == 1:
        return size.sum(axes, keepdim)
    if not 1 < ord < math.inf or ord == 2:
        raise NotImplementedError
    return size.pow(ord).sum(axes, keepdim).pow(1 / ord)


def norm(self: Tensor, p: float | None, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The older spelling."""
    return vector_norm(self, 2 if p is None else p, dim or None, keepdim)


def cdist(x1: Tensor, x2: Tensor, p: float = 2, compute_mode: int | None = None) -> Tensor:  # noqa: ARG001
    """Norms of the differences of all pairs of rows."""
    size: Tensor = torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, (-1,))
    return size


def pdist(self: Tensor, p: float = 2) -> Tensor:
    """Norms of the differences of all pairs of rows of one matrix."""
    first, second = torch.triu_indices(len(self), len(self), 1)
    size: Tensor = torch.linalg.vector_norm(self.index_select(0, first) - self.index_select(0, second), p, (-1,))
    return size


def var(self: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    """The sum of squares less the mean, over the degrees of freedom."""
    axes = tuple(range(self.dim())) if not dim else tuple(dim)
    count = math.prod(self.shape[axis] for axis in axes)
    centred = self - self.mean(axes, keepdim=True)
    return centred.square().sum(axes, keepdim) / (count - (1 if correction is None else correction))


def var_mean(
    self: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The variance, and the mean."""
    axes = tuple(range(self.dim())) if not dim else tuple(dim)
    return var(self, axes, correction=correction, keepdim=keepdim), self.mean(axes, keepdim)


def var_mean_dim(self: Tensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The variance, and the mean."""
    return var_mean(self, dim, correction=float(unbiased), keepdim=keepdim)


def var_mean_of_all(self: Tensor, unbiased: bool = True) -> tuple[Tensor, Tensor]:
    """The variance, and the mean."""
    return var_mean(self, correction=float(unbiased))


def nan_to_num(self: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Tensor:  # noqa: ARG001
    """The identity, on numbers."""
    return self.clone()


def copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:  # noqa: ARG001
    """What is written over a tensor."""
    return src.expand(self.shape).to(self.dtype)


def power_of_a_number(self: float, exponent: Tensor) -> Tensor:
    """b^x = exp(x log b)."""
    if not 0 < self < math.inf:
        raise NotImplementedError
    return torch.exp(exponent * math.log(self))


def rrelu(
    self: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,  # noqa: ARG001
) -> Tensor:
    """A leaky ReLU with the mean of the slopes."""
    if training:
        raise NotImplementedError
    return torch.nn.functional.leaky_relu(self, (lower + upper) / 2)


def addcmul(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """x + c a b."""
    return self + value * (tensor1 * tensor2)


def addcdiv(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """x + c a / b."""
    return self + value * (tensor1 / tensor2)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(s q k^T + b) v, in which heads may share keys and values."""
    if dropout_p:
        raise NotImplementedError
    if enable_gqa:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    logits = torch.matmul(query, key.transpose(-2, -1)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        attn_mask = torch.zeros(attn_mask.shape, dtype=query.dtype).masked_fill(~attn_mask, -math.inf)
    if is_causal:
        hidden = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
        causal = torch.zeros(hidden.shape, dtype=query.dtype).masked_fill(hidden, -math.inf)
        attn_mask = causal if attn_mask is None else attn_mask + causal
    if attn_mask is not None:
        logits = logits + attn_mask
    return torch.matmul(torch.softmax(logits, -1), value)


LOCAL_DEFINITIONS: Mapping[str, Callable[..., Any]] = {
    **DEFINITIONS,
    "aten.prod.default": prod,
    "aten.prod.dim_int": prod_dim,
    "aten.cumprod.default": cumprod,
    "aten.logcumsumexp.default": logcumsumexp,
    **dict.fromkeys(("aten.maximum.default", "aten.max.other", "aten.fmax.default"), maximum),
    **dict.fromkeys(("aten.minimum.default", "aten.min.other", "aten.fmin.default"), minimum),
    "aten.clamp.Tensor": clamp,
    "aten.clamp_min.Tensor": clamp_min,
    "aten.clamp_max.Tensor": clamp_max,
    "aten.aminmax.default": aminmax,
    "aten.hypot.default": hypot,
    "aten.logaddexp.default": logaddexp,
    "aten.logaddexp2.default": logaddexp2,
    "aten.linalg_vector_norm.default": vector_norm,
    "aten.norm.Scalar": norm,
    "aten.norm.ScalarOpt_dim": norm,
    "aten.cdist.default": cdist,
    "aten._cdist_forward.default": cdist,
    "aten.pdist.default": pdist,
    "aten._pdist_forward.default": pdist,
    "aten.var.correction": var,
    "aten.var_mean.correction": var_mean,
    "aten.var_mean.dim": var_mean_dim,
    "aten.var_mean.default": var_mean_of_all,
    "aten.pow.Scalar": power_of_a_number,
    "aten.rrelu.default": rrelu,
    "aten.nan_to_num.default": nan_to_num,
    "aten.copy.default": copy,
    "aten.addcmul.default": addcmul,
    "aten.addcdiv.default": addcdiv,
    "aten.scaled_dot_product_attention.default": attention,
    **RECURRENT_DEFINITIONS,
}
