"""Conformance cases of element-wise functions, softmax and operations without a finite constant."""

import torch

from tests.nodes import data
from tests.rules.ops.cases import case, unbounded, unsupported

X = data(1, 7)
C = torch.randn(7, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
MASK = torch.tensor([True, False, True, False, True, False, True])

for name in ("relu", "tanh", "log_sigmoid", "abs", "neg", "positive", "sin", "cos", "atan", "asinh"):
    case(name, X, at=(-40.0, 1e-6, 2.0, torch.pi / 2))
case("relu6", X, at=(3.0, 7.0, -1.0))
case("nan_to_num", X)
case("sigmoid", X, at=(0.0, 30.0, -30.0))
# torch's own derivative is 1/6 rounded to float32
case("hardsigmoid", X, at=(0.0, 4.0, 2.999), formula=lambda x: (x + 3).clamp(0, 6) / 6)
case("hardswish", X, at=(2.9999, -2.9999, 4.0))
case("silu", X, at=(2.39935728, -2.4, 30.0))
case("gelu", X, at=(1.41421356, -1.41421356, 8.0))
case("gelu", X, approximate="tanh", at=(1.418504, -1.418504, 8.0))
case("mish", X, at=(1.49057118, -2.0, 30.0))
case("selu", X, at=(-1e-9, 1.0, -5.0))
case("erf", X, at=(0.0, 1.0))
case("erfc", X, at=(0.0, 1.0))
for alpha, scale, input_scale in ((1.0, 1.0, 1.0), (2.5, 0.5, 1.0), (0.3, -2.0, 2.0), (-3.0, 1.5, 0.25)):
    case("elu", X, alpha, scale, input_scale, at=(-1e-9, 1.0, -5.0))
unbounded("elu", X, 1.0, 1.0, -1.0, witness=(-20.0, -21.0))
for alpha in (1.0, 0.2, 7.0):
    case("celu", X, alpha, at=(-1e-9, 1.0))
unbounded("celu", X, -1.0, witness=(-20.0, -21.0))
case("softplus", X, at=(19.0, -3.0, 25.0))
case("softplus", X, 3.0, 30.0, at=(9.0, -3.0, 11.0))
unbounded("softplus", X, 1.0, 2.0, witness=(2.0, 2.0 + 1e-9))
unsupported("softplus", X, -1.0, 20.0)
for slope in (0.01, 1.7, -2.0):
    case("leaky_relu", X, slope, at=(1.0, -1.0))
case("rrelu", X, at=(1.0, -1.0))
case("rrelu", X, 1.5, 3.0, at=(1.0, -1.0))
unsupported("rrelu", X, 0.1, 0.3, True)
case("prelu", X, C * 3, at=(1.0, -1.0))
case("prelu", X, torch.tensor([0.25], dtype=torch.float64), at=(1.0, -1.0))
case("_prelu_kernel", X, C[None] * 3, at=(1.0, -1.0))
unbounded("prelu", X, data(7))
case("clamp", X, -0.5, 0.5, at=(0.1, 1.0))
case("clamp", X, None, 0.5, at=(0.1, 1.0))
case("clamp", X, 1.0, -1.0, at=(0.1, 1.0))
case("clamp_min", X, 0.2, at=(0.1, 1.0))
case("clamp_max", X, 0.2, at=(0.1, 1.0))
case("hardtanh", X, -2.0, 3.0, at=(0.1, 4.0))
case("softshrink", X, 0.3, at=(1.0, 0.1))
case("hardshrink", X, 0.0, at=(1.0,))
unbounded("hardshrink", X, 0.5, witness=(0.5, 0.5 + 1e-9))
case("threshold", X, 0.5, 0.5, at=(1.0, 0.0))
unbounded("threshold", X, 0.5, 0.0, witness=(0.5, 0.5 + 1e-9))

for shape, dim in (((1, 5), 1), ((1, 3, 4), -1), ((1, 3, 4), 1), ((1, 1, 3), 1)):
    case("aten.softmax.int", data(*shape), dim)
    case("_softmax", data(*shape), dim, False)
    case("aten.log_softmax.int", data(*shape), dim)
    case("_log_softmax", data(*shape), dim, False)
case("aten.softmax.int", data(1, 4), 1, torch.float64)
case("logsumexp", data(1, 5), [1])
case("logsumexp", data(1, 3, 2), [1, 2], True)

JUMPS = {"sign": 0.0, "sgn": 0.0, "round": 0.5, "floor": 1.0, "ceil": 1.0, "trunc": 1.0, "fix": 1.0, "frac": 1.0}
for name, edge in JUMPS.items():
    unbounded(name, X, witness=(edge - 1e-9, edge + 1e-9))
unbounded("aten.round.decimals", X, decimals=1, witness=(0.05 - 1e-9, 0.05 + 1e-9))
for name in ("eq", "ne", "not_equal", "lt", "less", "le", "less_equal", "gt", "greater", "ge", "greater_equal"):
    outside = -1e-9 if name in ("lt", "less", "ge", "greater_equal") else 1e-9
    unbounded(f"aten.{name}.Scalar", X, 0.5, witness=(0.5, 0.5 + outside))
    unbounded(f"aten.{name}.Tensor", X, torch.full((7,), 0.5, dtype=torch.float64))
for name in ("logical_not", "isnan", "isinf", "isfinite"):
    unbounded(name, X)
for name in ("logical_and", "logical_or", "logical_xor"):
    unbounded(name, X, MASK)
for name in ("remainder", "fmod"):
    unbounded(f"aten.{name}.Scalar", X, 2.0, witness=(2 - 1e-9, 2 + 1e-9))
    unbounded(f"aten.{name}.Tensor", X, C)
unbounded("floor_divide", X, C)
unbounded("aten.floor_divide.Scalar", X, 2.0, witness=(2 - 1e-9, 2 + 1e-9))
for name in ("argmax", "argmin"):
    unbounded(name, X, 1)
unbounded("argsort", X, 1)
unbounded("aten.argsort.stable", X, stable=True)

STEEP = {
    "square": (1e6, 1e6 + 1),
    "exp": (20.0, 21.0),
    "exp2": (20.0, 21.0),
    "expm1": (20.0, 21.0),
    "log": (1e-9, 2e-9),
    "log2": (1e-9, 2e-9),
    "log10": (1e-9, 2e-9),
    "log1p": (1e-9 - 1, 2e-9 - 1),
    "sqrt": (1e-12, 4e-12),
    "rsqrt": (1e-6, 2e-6),
    "reciprocal": (1e-6, 2e-6),
    "sinh": (20.0, 21.0),
    "cosh": (20.0, 21.0),
    "tan": (torch.pi / 2 - 1e-6, torch.pi / 2 - 2e-6),
}
for name, witness in STEEP.items():
    unbounded(name, X, witness=witness)
case("aten.pow.Tensor_Scalar", X, 1)
case("aten.pow.Tensor_Scalar", X, 0.0)
unbounded("aten.pow.Tensor_Scalar", X, 2, witness=(1e6, 1e6 + 1))
unbounded("aten.pow.Tensor_Scalar", X, 0.5, witness=(1e-12, 4e-12))
unbounded("aten.pow.Tensor_Tensor", X, data(1, 7))
unbounded("aten.pow.Scalar", 2.0, X, witness=(20.0, 21.0))
for name in ("var", "var_mean"):
    unbounded(name, X)
    unbounded(f"aten.{name}.dim", X, [1])
    unbounded(f"aten.{name}.correction", X, [1], correction=0)
unbounded("prod", X, witness=(20.0, 21.0))
unbounded("aten.prod.dim_int", X, 1, witness=(20.0, 21.0))
unbounded("cumprod", X, 1, witness=(20.0, 21.0))
unbounded("glu", data(1, 6), 1)
