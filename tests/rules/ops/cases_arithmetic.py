"""Conformance cases of arithmetic with broadcasting, reductions, norms and products."""

import math

import torch

from tests.nodes import data
from tests.rules.ops.cases import case, unbounded, unsupported

F64 = torch.float64
C = torch.randn(2, 3, generator=torch.Generator().manual_seed(4), dtype=F64)
ROW = torch.tensor([0.5, -3.0, 2.0], dtype=F64)

for name in ("add", "sub", "rsub"):
    case(f"aten.{name}.Tensor", data(2, 3), data(2, 3))
    case(f"aten.{name}.Tensor", data(2, 3), data(1, 3), alpha=-2.5)
    case(f"aten.{name}.Tensor", data(2, 1), data(1, 3), alpha=0.5)
    case(f"aten.{name}.Tensor", data(1, 3), C, alpha=3)
    case(f"aten.{name}.Tensor", C, data(1, 3), alpha=3)
    case(f"aten.{name}.Tensor", data(2, 3), torch.tensor(2.0, dtype=F64))
    case(f"aten.{name}.Scalar", data(2, 3), 2.0, 3.0)
case("aten.lerp.Scalar", data(2, 3), data(1, 3), 0.3)
case("aten.lerp.Scalar", data(2, 3), data(2, 3), -1.5)

for name, safe in (("mul", C), ("div", C)):
    case(f"aten.{name}.Tensor", data(2, 3), safe)
    case(f"aten.{name}.Tensor", data(1, 3), safe)
    case(f"aten.{name}.Tensor", data(2, 1), ROW)
    case(f"aten.{name}.Tensor", data(2, 1), torch.full((2, 3), -0.3, dtype=F64))
    case(f"aten.{name}.Tensor", data(), safe)
    case(f"aten.{name}.Tensor", data(1, 3), torch.tensor(-0.7, dtype=F64))
    case(f"aten.{name}.Tensor", data(1, 1, 3), torch.tensor([[2.0], [0.5]], dtype=F64))
    case(f"aten.{name}.Tensor", data(2, 3), -3.7)
    case(f"aten.{name}.Scalar", data(2, 3), -3.7)
    case(f"aten.{name}.Tensor", data(2, 3), torch.tensor([1e-200, 1e-150, 3e-190], dtype=F64))
    unbounded(f"aten.{name}.Tensor", data(2, 3), data(2, 3))
case("aten.mul.Tensor", ROW, data(2, 3))
case("aten.mul.Tensor", data(2, 3), 0.0)
case("aten.mul.Tensor", data(2, 3), torch.tensor(True))
unsupported("aten.mul.Tensor", data(2, 3), torch.tensor([1.0, math.inf, 0.0]))
unsupported("aten.mul.Tensor", data(2, 3), torch.tensor([1.0, math.nan, 0.0]))
case("aten.mul.Tensor", data(2, 3), torch.tensor([1.0, 1j, 2.0]))
unsupported("aten.div.Tensor", data(2, 3), torch.tensor([1.0, 0.0, 2.0]))
unsupported("aten.div.Scalar", data(2, 3), 0.0)
unbounded("aten.div.Tensor", ROW, data(2, 3), witness=(1e-6, 2e-6))
for mode in ("floor", "trunc"):
    unbounded("aten.div.Tensor_mode", data(2, 3), C, rounding_mode=mode)
    unbounded("aten.div.Scalar_mode", data(2, 3), 2.0, rounding_mode=mode, witness=(2 - 1e-9, 2 + 1e-9))
case("aten.div.Tensor_mode", data(2, 3), C, rounding_mode=None)
case("aten.div.Scalar_mode", data(2, 3), 2.0, rounding_mode=None)
case("addcmul", data(1, 3), data(2, 1), C, value=-2.0)
case("addcmul", data(2, 3), C, data(1, 3), value=0.5)
case("addcmul", data(2, 3), ROW, C)
case("addcmul", C, ROW, data(2, 3))
unbounded("addcmul", data(2, 3), data(2, 3), data(2, 3))
case("addcdiv", data(1, 3), data(2, 1), C, value=-2.0)
unbounded("addcdiv", data(2, 3), C, data(2, 3))
unsupported("addcdiv", data(2, 3), data(2, 3), torch.zeros(3, dtype=F64))

B = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(5), dtype=F64)
case("bmm", data(2, 2, 3), B)
case("bmm", B, data(2, 4, 2))
unbounded("bmm", data(2, 2, 3), data(2, 3, 4))
unbounded("einsum", "bij,bjk->bik", [data(1, 2, 3), data(1, 3, 2)])
case("einsum", "bij,jk->bik", [data(1, 2, 3), B[0]])
case("einsum", "bij,bjk->bki", [data(2, 2, 3), B])
case("einsum", "ij,bjk->bik", [B[0].T.contiguous(), data(1, 3, 2)])
unbounded("baddbmm", data(2, 2, 4), data(2, 2, 3), data(2, 3, 4))
unsupported("baddbmm", data(2, 2, 4), data(2, 2, 3), B)
unbounded("dot", data(3), data(3))
unsupported("dot", data(3), ROW)
unbounded("outer", data(3), data(2))
unbounded("scaled_dot_product_attention", data(1, 2, 3, 4), data(1, 2, 3, 4), data(1, 2, 3, 4))

for name in ("mean", "sum"):
    case(name, data(1, 2, 5))
    overload = "aten.mean.dim" if name == "mean" else "aten.sum.dim_IntList"
    case(overload, data(1, 2, 5), [2])
    case(overload, data(1, 2, 5), [1, 2], True)
    case(overload, data(1, 2, 5), None)
    case(overload, data(1, 2, 5), [])
unbounded("sum", data(1, 3), dtype=torch.int64)
for name in ("amax", "amin"):
    case(name, data(1, 2, 5), [2])
    case(name, data(1, 2, 5))
for name in ("aminmax", "max", "min", "median"):
    case(name, data(1, 2, 5))
for name in ("aten.max.dim", "aten.min.dim", "aten.median.dim", "sort"):
    case(name, data(1, 3, 4), 1)
case("aten.sort.stable", data(1, 3, 4), stable=True, dim=1)
case("topk", data(1, 5, 2), 3, 1)
case("kthvalue", data(1, 5), 2, 1)

for order in (1, 1.5, 2, 3, math.inf):
    case("linalg_vector_norm", data(1, 2, 5), order, [2])
    case("linalg_vector_norm", data(1, 5), order)
    case("aten.norm.ScalarOpt_dim", data(1, 2, 5), order, [2])
    case("aten.norm.Scalar", data(1, 5), order)
case("aten.norm.ScalarOpt_dim", data(1, 2, 5), None, [2])
unsupported("linalg_vector_norm", data(1, 5), 0)
unsupported("aten.norm.Scalar", data(1, 5), -1)
case("std", data(1, 2, 5))
case("std", data(1, 2, 5), False)
case("aten.std.dim", data(1, 2, 5), [2])
case("aten.std.dim", data(1, 2, 5), [1, 2], False)
case("aten.std.correction", data(1, 2, 5), [2])
case("aten.std.correction", data(1, 2, 5), [2], correction=0.5)
case("aten.std.correction", data(1, 5, 1), [2], correction=0)
unsupported("aten.std.correction", data(1, 5, 1), [2], correction=1)
for length in (1, 2, 7):
    case("cumsum", data(1, 2, length), 2)
unbounded("cumsum", data(1, 3), 1, dtype=torch.int64)
