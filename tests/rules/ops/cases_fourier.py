"""Fourier transforms of real and complex tensors, and what else is done to complex tensors."""

from __future__ import annotations

import torch

from lipaudit.graph.node import Constant, Node, Ref, TensorInfo
from lipaudit.graph.passes.fourier_filters import FOURIER_FILTER, FourierFilter
from tests.nodes import Data, data
from tests.rules.ops.cases import case, unbounded, unsupported


def pair(*shape: int) -> Data:
    return data(*shape, dtype=torch.complex128)


REAL, COMPLEX, SMALL = data(1, 3, 4), pair(1, 3, 4), data(2, 2, 3)
NORMS = (None, "backward", "ortho", "forward")
VALUES = torch.complex(torch.linspace(-1, 2, 4), torch.linspace(2, -0.5, 4)).to(torch.complex128)

for norm in NORMS:
    for name in ("fft", "ifft"):
        for x in (REAL, COMPLEX):
            case(f"fft_{name}", x, norm=norm)
            case(f"fft_{name}2", x, norm=norm)
            case(f"fft_{name}n", x, norm=norm)
    for name in ("rfft", "ihfft"):
        case(f"fft_{name}", REAL, norm=norm)
        case(f"fft_{name}2", REAL, norm=norm)
        case(f"fft_{name}n", REAL, norm=norm)
    for name in ("irfft", "hfft"):
        case(f"fft_{name}", COMPLEX, norm=norm)
        case(f"fft_{name}2", COMPLEX, norm=norm)
        case(f"fft_{name}n", pair(1, 3, 3), norm=norm)

for x in (data(2, 3, 4), pair(2, 3, 4)):
    for size in (2, 7):
        case("fft_fft", x, size, 1)
        case("fft_ifft", x, size, 1, "ortho")
    case("fft_fft2", x, [2, 5], [0, 2])
    case("fft_fftn", x, [4, -1], norm="forward")
    case("fft_fftn", x, None, [2, 0, 1])
    case("fft_ifftn", x, [2], [1])
    for name in ("irfft", "hfft"):
        for size in (1, 2, 3, 4, 5, 7, 8, 12):
            case(f"fft_{name}", x, size, 2, "ortho")
        case(f"fft_{name}2", x, [3, 5], [2, 1])
        case(f"fft_{name}n", x, [2, 5])
        case(f"fft_{name}n", x, [5, -1], [0, 2], "forward")
for size in (1, 2, 3, 5):
    case("fft_irfft", pair(1, 1), size)
    case("fft_irfft", pair(1, 2), size)
for name in ("rfft", "ihfft"):
    for size in (1, 2, 3):
        case(f"fft_{name}", REAL, size, 2)
    for size in (5, 8):
        case(f"fft_{name}", REAL, size, 2, exact=False)
        case(f"fft_{name}", data(1, 1), size, exact=False)
    case(f"fft_{name}2", REAL, [5, 3], [1, 2], "ortho")
    case(f"fft_{name}2", REAL, [5, 7], [1, 2], "ortho", exact=False)
    case(f"fft_{name}n", REAL, [2, -1])
    case(f"fft_{name}n", SMALL, None, [2, 0])
    case(f"fft_{name}n", SMALL, [2, 3], [2, 0], exact=False)
    case(f"fft_{name}n", SMALL, [3, 2], [0, 2], "forward")

for normalization in (0, 1, 2):
    for forward in (True, False):
        case("_fft_c2c", COMPLEX, [1, 2], normalization, forward)
    for onesided in (True, False):
        case("_fft_r2c", REAL, [1, 2], normalization, onesided)
        case("_fft_r2c", REAL, [2], normalization, onesided)
    for size in (6, 7):
        case("_fft_c2r", COMPLEX, [1, 2], normalization, size)

for x in (REAL, COMPLEX):
    case("fft_fftshift", x)
    case("fft_ifftshift", x, [1, 2])
    for name in (
        "real",
        "_conj",
        "conj",
        "_conj_physical",
        "conj_physical",
        "resolve_conj",
        "resolve_neg",
        "_neg_view",
    ):
        if x is COMPLEX or name not in ("_conj", "_conj_physical"):
            case(name, x)
case("imag", COMPLEX)
case("view_as_real", COMPLEX)
case("view_as_complex", data(3, 4, 2))
case("complex", REAL, REAL)
case("complex", data(3, 1), data(1, 4))
case("complex", torch.ones(3, 4).double(), data(4))

case("abs", COMPLEX)
case("neg", COMPLEX)
case("aten.add.Tensor", COMPLEX, COMPLEX, alpha=-2)
case("aten.add.Tensor", COMPLEX, REAL)
case("aten.add.Tensor", COMPLEX, VALUES)
case("aten.sub.Tensor", REAL, VALUES)
case("aten.add.Scalar", COMPLEX, 2j)
unsupported("aten.add.Tensor", COMPLEX, COMPLEX, alpha=2j)
for op in ("aten.mul.Tensor", "aten.div.Tensor"):
    for x in (COMPLEX, REAL):
        case(op, x, VALUES)
        case(op, x, VALUES[:3, None])
        case(op, x, VALUES.reshape(4, 1, 1, 1))
        case(op, x, 0.3 - 0.4j)
    case(op, COMPLEX, torch.linspace(1, 2, 4).double())
    case(op, pair(3, 1), VALUES)
    unbounded(op, COMPLEX, COMPLEX)
    unbounded(op, REAL, COMPLEX)
    unsupported(op, COMPLEX, VALUES * torch.inf)
case("aten.mul.Tensor", VALUES, COMPLEX)
case("aten.mul.Scalar", COMPLEX, 3 + 4j)
case("aten.div.Scalar", REAL, 3 + 4j)
case("aten.mul.Tensor", COMPLEX, 1e-200 + 1e-200j, scales=(1e200,))
unsupported("aten.div.Tensor", COMPLEX, VALUES * 0)
unbounded("aten.div.Tensor", VALUES, COMPLEX)

case("aten.permute.default", COMPLEX, [2, 0, 1])
case("aten.view.default", COMPLEX, [4, 3])
case("aten.slice.Tensor", COMPLEX, 2, 1, 3)
case("aten.split.Tensor", COMPLEX, 2, 1)
case("aten.constant_pad_nd.default", COMPLEX, [1, 2])
case("aten.to.dtype", COMPLEX, torch.complex64, exact=False, scales=())
case("aten.to.dtype", REAL, torch.complex128)
unbounded("aten.to.dtype", COMPLEX, torch.int64)
for op in ("sigmoid", "tanh", "exp", "sin", "reciprocal", "sqrt", "log", "silu"):
    unsupported(op, COMPLEX)
case("aten.linear.default", COMPLEX, VALUES[None])
case("aten.matmul.default", COMPLEX, VALUES[:, None])
unsupported("aten.matmul.default", COMPLEX, pair(1, 4, 3))
unsupported("aten.bmm.default", COMPLEX, pair(1, 4, 3))
HALF, WHOLE = TensorInfo((1, 3, 3), torch.complex128), TensorInfo((1, 3, 4), torch.float64)
FILTER = (
    Node("forward", "aten.fft_rfft.default", {"self": Ref("x", WHOLE), "n": None, "dim": -1, "norm": None}, (HALF,)),
    Node("scaled", "aten.mul.Tensor", {"self": Ref("forward", HALF), "other": Constant(VALUES[:3])}, (HALF,)),
    Node("back", "aten.fft_irfft.default", {"self": Ref("scaled", HALF), "n": 4, "dim": -1, "norm": None}, (WHOLE,)),
)
filtered = FourierFilter((2,), (VALUES[:3].reshape(-1, 1, 1),), True, "x", FILTER)
case(FOURIER_FILTER, self=REAL, payload=filtered, function=filtered.evaluate, exact=False)
unsupported("aten.mean.dim", COMPLEX, [1])
unsupported("aten.cat.default", [COMPLEX, COMPLEX], 1)
unsupported("aten.linalg_vector_norm.default", COMPLEX)
unsupported("aten.pow.Tensor_Scalar", COMPLEX, 2)
case("aten.bmm.default", COMPLEX, torch.ones(1, 4, 2, dtype=torch.complex128))
