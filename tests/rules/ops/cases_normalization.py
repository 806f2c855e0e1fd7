"""Conformance cases of normalisation layers."""

from collections.abc import Callable

import torch

from lipaudit.graph.passes.normalization import NORMALIZATION, Normalization
from tests.nodes import data
from tests.rules.ops.cases import case, unbounded, unsupported

G = torch.Generator().manual_seed(6)
F64 = torch.float64
WEIGHT = torch.randn(4, generator=G, dtype=F64)
BIAS = torch.randn(4, generator=G, dtype=F64)
MEAN = torch.randn(4, generator=G, dtype=F64)
VAR = torch.rand(4, generator=G, dtype=F64) + 0.1
X = data(1, 4, 3)

for weight, bias in ((WEIGHT, BIAS), (None, None)):
    case("batch_norm", X, weight, bias, MEAN, VAR, False, 0.1, 1e-3, False)
    case("native_batch_norm", X, weight, bias, MEAN, VAR, False, 0.1, 1e-3)
    case("_native_batch_norm_legit", X, weight, bias, MEAN, VAR, False, 0.1, 1e-3)
    case("_native_batch_norm_legit_no_training", X, weight, bias, MEAN, VAR, 0.1, 1e-3)


def _cudnn(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.batch_norm(x, MEAN, VAR, WEIGHT, BIAS, eps=1e-3)


def _fused(weight: torch.Tensor | None, epsilon: float) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    def norm(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        size = (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        return x * size * (1 if weight is None else weight), size

    return norm


case("_batch_norm_no_update", X, WEIGHT, BIAS, MEAN, VAR, 0.1, 1e-3)
case("cudnn_batch_norm", X, WEIGHT, BIAS, MEAN, VAR, False, 0.1, 1e-3, function=_cudnn)
unsupported("batch_norm", X, WEIGHT, BIAS, MEAN, VAR, True, 0.1, 1e-3, False)
unsupported("batch_norm", X, WEIGHT, BIAS, MEAN, -VAR, False, 0.1, 1e-9, False)
unsupported("batch_norm", X, data(4), BIAS, MEAN, VAR, False, 0.1, 1e-3, False)
unsupported("instance_norm", X, None, None, None, None, False, 0.1, 1e-3, False, function=lambda x: x)

for epsilon in (1e-5, 0.3):
    for weight, bias in ((WEIGHT, BIAS), (None, None)):
        exact = weight is None
        case("layer_norm", data(1, 3, 4), [4], weight, bias, epsilon, exact=exact)
        case("native_layer_norm", data(1, 3, 4), [4], weight, bias, epsilon)
        case("group_norm", X, 2, weight, bias, epsilon, exact=exact)
        case("native_group_norm", X, weight, bias, 1, 4, 3, 2, epsilon)
        case("instance_norm", X, weight, bias, None, None, True, 0.1, epsilon, False, exact=exact)
        case("rms_norm", data(1, 3, 4), [4], weight, epsilon, exact=True)
        case("_fused_rms_norm", data(1, 3, 4), [4], weight, epsilon, formula=_fused(weight, epsilon))
case("layer_norm", data(1, 2, 2, 3), [2, 3], None, None, 1e-5, exact=True)
case("layer_norm", data(1, 3, 1), [1])
case("rms_norm", data(1, 2, 3), [3], exact=True)
case("instance_norm", X, WEIGHT, BIAS, MEAN, VAR, False, 0.1, 1e-3, False, exact=True)
case("instance_norm", data(1, 4, 1, 2), WEIGHT, BIAS, MEAN, VAR, True, 0.1, 1e-3, False)
unbounded("layer_norm", data(1, 3, 4), [4], None, None, 0.0, witness=None)
unbounded("rms_norm", data(1, 3, 4), [4], None, 0.0)
unsupported("layer_norm", data(1, 3, 4), [4], data(4), None, 1e-5)
unsupported("rms_norm", data(1, 3, 4), [4], torch.full((4,), torch.nan, dtype=F64), 1e-5)


def _normalised(x: torch.Tensor, axes: tuple[int, ...], centred: bool, epsilon: float, form: str) -> torch.Tensor:
    """Written out without the payload: every form as the quotient that it is."""
    rows = x.movedim(axes, tuple(range(-len(axes), 0)))
    flat = rows.reshape(*rows.shape[: x.dim() - len(axes)], -1)
    z = flat - flat.mean(-1, keepdim=True) if centred else flat
    squares = (z * z).sum(-1, keepdim=True)
    if form == "root":
        size = (squares / z.shape[-1] + epsilon) ** 0.5
    else:  # away from 0, where the root has no derivative
        length = torch.where(squares > 0, squares, 1.0) ** 0.5 * (squares > 0)
        size = length.clamp(min=epsilon) if form == "clamped" else length + epsilon
    return (z / size).reshape(rows.shape).movedim(tuple(range(-len(axes), 0)), axes)


def _normalization(shape: tuple[int, ...], axes: tuple[int, ...], centred: bool, epsilon: float, form: str) -> None:
    payload = Normalization(axes, centred, epsilon, form)  # type: ignore[arg-type]

    def formula(x: torch.Tensor) -> torch.Tensor:
        return _normalised(x, axes, centred, epsilon, form)

    scales = (1.0, epsilon, 1e3)
    case(NORMALIZATION, input=data(*shape), payload=payload, function=payload.evaluate, formula=formula, scales=scales)


for centred in (True, False):
    for epsilon in (1e-5, 0.3):
        for form in ("root", "clamped", "shifted"):
            _normalization((1, 3, 4), (2,), centred, epsilon, form)
    _normalization((1, 3, 2, 2), (1, 3), centred, 1e-3, "root")
    _normalization((1, 3, 2, 2), (1,), centred, 1e-3, "clamped")
_normalization((1, 3, 1), (2,), True, 1e-3, "root")
_normalization((1, 3, 1), (2,), False, 1e-3, "root")
for form in ("root", "clamped"):
    payload = Normalization((2,), False, 0.0, form)  # type: ignore[arg-type]
    unbounded(NORMALIZATION, input=data(1, 3, 4), payload=payload, function=payload.evaluate)
