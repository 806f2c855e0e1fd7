"""Products of data-dependent tensors and functions with unbounded slopes: no constant over all inputs, one on a domain."""

from __future__ import annotations

import torch

from tests.nodes import data
from tests.rules.ops.cases import unbounded, unsupported

# gates: of equal shapes, per channel, per position, broadcast on both sides, fewer axes
for left, right in (
    ((1, 3, 2, 2), (1, 3, 1, 1)), ((1, 3, 1, 1), (1, 3, 2, 2)), ((1, 3, 2, 2), (1, 1, 2, 2)), ((3, 1), (1, 4)),
    ((2, 3, 4), (4,)), ((2, 3, 4), (3, 1)), ((1,), (2, 3)),
):  # fmt: skip
    unbounded("aten.mul.Tensor", data(*left), data(*right))
    unbounded("addcmul", data(1), data(*left), data(*right), value=-0.5)
unbounded("addcmul", data(1, 3, 5), data(1, 3, 1), data(1, 3, 1))
unbounded("addcmul", torch.zeros(2, 3, 4, dtype=torch.float64), data(3, 1), data(1, 1))
for left, right in (
    ((3, 4), (4, 2)), ((1, 2, 3, 4), (1, 2, 4, 2)), ((2, 3, 4), (4, 2)), ((4,), (4, 2)), ((3, 4), (4,)),
    ((2, 1, 3, 4), (1, 3, 4, 2)), ((4,), (4,)),
):  # fmt: skip
    unbounded("matmul", data(*left), data(*right))
for equation, left, right in (
    ("bhnd,bhmd->bhnm", (1, 2, 3, 4), (1, 2, 2, 4)), ("nd,md->nm", (3, 2), (4, 2)), ("bij,bjk->bki", (2, 2, 3), (2, 3, 2)),
    ("bi,bi->b", (2, 3), (2, 3)), ("i,j", (3,), (2,)), ("bchw,bc->bchw", (1, 2, 2, 3), (1, 2)),
):  # fmt: skip
    unbounded("einsum", equation, [data(*left), data(*right)])
unsupported("einsum", "ij,jk,kl->il", [data(2, 2), data(2, 2), data(2, 2)])
unsupported("einsum", "ii,ij->j", [data(2, 2), data(2, 2)])
unsupported("einsum", "ij,k->jk", [data(2, 2), data(2)])
unsupported("einsum", "bij,bjk->bik", [data(2, 3, 5), data(2, 1, 4)])
unsupported("einsum", "bij,bij->bij", [data(1, 3, 1), data(1, 3, 2)])
unsupported("einsum", "bij,jk->bik", [data(1, 3, 1), torch.ones(5, 4, dtype=torch.float64)])
unsupported("einsum", "bij,jk->bik", [data(1, 3, 5), torch.ones(1, 4, dtype=torch.float64)])
unbounded("linear", data(2, 3), data(4, 3))
unbounded("linear", data(2, 3), data(4, 3), data(4))
unbounded("addmm", data(2, 4), data(2, 3), data(3, 4), beta=0.5, alpha=2.0)
unbounded("conv2d", data(1, 2, 4, 4), data(3, 2, 3, 3), padding=[1, 1])
unbounded("conv2d", data(1, 2, 5, 5), data(2, 1, 3, 3), data(2), stride=[2, 2], groups=2)

# attention: several queries, one query, masks, scales, grouped queries
for n, m, d, e in ((3, 4, 2, 2), (1, 3, 2, 4), (4, 2, 1, 1)):
    unbounded("scaled_dot_product_attention", data(1, 2, n, d), data(1, 2, m, d), data(1, 2, m, e))
closed = torch.tensor([[True, False, True], [False, False, False]])
unbounded("scaled_dot_product_attention", data(1, 2, 2, 3), data(1, 2, 3, 3), data(1, 2, 3, 3), closed)
unbounded(
    "scaled_dot_product_attention",
    data(2, 3),
    data(3, 3),
    data(3, 3),
    torch.zeros(2, 3).masked_fill(~closed, -torch.inf).double(),
)
mask = torch.tensor([[0.0, -1.0, 2.0], [1.0, 0.0, -5.0]], dtype=torch.float64)
unbounded("scaled_dot_product_attention", data(1, 2, 2, 3), data(1, 2, 3, 3), data(1, 2, 3, 3), mask)
unbounded("scaled_dot_product_attention", data(2, 3), data(3, 3), data(3, 3), mask, scale=2.5)
unbounded("scaled_dot_product_attention", data(1, 1, 3, 2), data(1, 1, 3, 2), data(1, 1, 3, 2), is_causal=True)
unbounded(
    "scaled_dot_product_attention", data(1, 4, 2, 3), data(1, 2, 3, 3), data(1, 2, 3, 3), enable_gqa=True, scale=1.0
)
LEARNED = torch.randn((1, 2, 3, 3), generator=torch.Generator().manual_seed(6), dtype=torch.float64)
unbounded("scaled_dot_product_attention", LEARNED[:, :, :1], data(1, 2, 3, 3), data(1, 2, 3, 3))
unbounded("scaled_dot_product_attention", data(1, 2, 2, 3), LEARNED, data(1, 2, 3, 4))
unbounded("scaled_dot_product_attention", data(1, 2, 2, 3), LEARNED, LEARNED)
unbounded("scaled_dot_product_attention", LEARNED, LEARNED, data(1, 2, 3, 2))
for bias in ((2, 3), (1, 2, 2, 3), (1, 1, 1, 3), (2, 2, 1)):
    unbounded("scaled_dot_product_attention", data(1, 2, 2, 3), data(1, 2, 3, 3), data(1, 2, 3, 3), data(*bias))
unbounded("scaled_dot_product_attention", data(1, 4, 2, 3), data(1, 1, 3, 3), data(1, 1, 3, 2))
unbounded("scaled_dot_product_attention", data(1, 1, 2, 3), data(1, 3, 3, 3), data(1, 3, 3, 2))
unbounded(
    "scaled_dot_product_attention", data(1, 2, 2, 3), data(1, 2, 3, 3), data(1, 2, 3, 3), data(2, 3, dtype=torch.bool)
)
unsupported("scaled_dot_product_attention", data(1, 2, 2, 3), data(1, 2, 3, 3), data(1, 2, 3, 3), dropout_p=0.5)

for dims in ([1], [1, 2], [0, 1, 2]):
    unbounded("aten.var.correction", data(2, 3, 4), dims, correction=1)
    unbounded("aten.var.correction", data(2, 3, 4), dims, correction=0, keepdim=True)
    unbounded("aten.var_mean.correction", data(2, 3, 4), dims, correction=0)
unsupported("aten.var.correction", data(1, 3), [0], correction=1)
for exponent in (2, 3, -1, 0.5, -0.5):
    unbounded("aten.pow.Tensor_Scalar", data(2, 3), exponent)
unbounded("glu", data(1, 4, 3), 1)
