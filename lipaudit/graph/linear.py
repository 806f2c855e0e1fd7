"""Recognition of the linear operations that can absorb a channelwise scale: convolutions, dense layers, scales.

Biases and constant additions do not change a difference of two outputs and are ignored throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

from lipaudit.graph.node import Argument, Constant, Node, Ref
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.rounding import as_float64, check_finite, composed, is_finite

# what recognised operations are called in a simplified graph
CONVOLUTION, DENSE, SCALE = "lipaudit.convolution", "lipaudit.dense", "lipaudit.scale"
WEIGHTED = frozenset({CONVOLUTION, DENSE, SCALE})
CONVOLUTIONS = {
    "aten.conv1d.default": 1,
    "aten.conv2d.default": 2,
    "aten.conv3d.default": 3,
    "aten.conv1d.padding": 1,
    "aten.conv2d.padding": 2,
    "aten.conv3d.padding": 3,
    "aten.conv_transpose1d.default": 1,
    "aten.conv_transpose2d.input": 2,
    "aten.conv_transpose3d.input": 3,
    "aten.convolution.default": 0,
    "aten._convolution.default": 0,  # what a trace of TorchScript records; its further arguments choose kernels of libraries
    "aten._convolution.deprecated": 0,
}


# Precisions in which weights are left as they are stored.
_STORED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Products of smaller size are not folded: rounding margins are relative and end where float64 loses digits.
_SMALLEST = 2.0**-960


@dataclass(frozen=True, eq=False)
class Dense:
    """x -> W x on the last axis, every other axis is a batch. ``weight`` is (out, in), as stored or in float64.

    ``error`` bounds how far an entry may be from the one that the stored numbers define, relative to the entry.
    """

    weight: torch.Tensor
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class Scale:
    """x -> s x along one axis. ``factor`` is (channels,), or a single entry for a uniform scale; ``error`` as in :class:`Dense`."""

    factor: torch.Tensor
    axis: int
    error: float = 0.0


Linear: TypeAlias = Convolution | Dense | Scale


def _ints(value: Argument, d: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, tuple) else (value,)
    return tuple(int(v) for v in (values * d if len(values) == 1 else values))  # type: ignore[arg-type]


def _weight(constant: Constant) -> torch.Tensor:
    if constant.value.is_meta:  # a weight without values
        return constant.value.to(torch.float64)
    return as_float64(constant.value, ", ".join(constant.names) or "a constant")


def _stored(constant: Constant) -> torch.Tensor:
    """The numbers of :func:`_weight` in the precision in which the network stores them: a copy would double its memory."""
    if constant.value.is_meta or constant.value.dtype not in _STORED:
        return _weight(constant)
    check_finite(constant.value, ", ".join(constant.names) or "a constant")
    return constant.value.detach()


def as_convolution(node: Node) -> Convolution | None:
    """The convolution that a node computes, None if its weight depends on the input or it is another operation."""
    if node.op not in CONVOLUTIONS:
        return None
    source, weight = node["input"], node["weight"]
    if not isinstance(source, Ref) or not isinstance(weight, Constant):
        return None
    if source.info.dtype.is_complex or weight.value.is_complex():
        return None
    kernel = _stored(weight)
    d = kernel.dim() - 2
    transposed = "transpose" in node.op or bool(node.get("transposed"))
    size = source.info.shape[-d:]
    dilation = _ints(node["dilation"], d)
    padding = node.get("padding")
    if isinstance(padding, str):
        totals = [(k - 1) * e if padding == "same" else 0 for k, e in zip(kernel.shape[2:], dilation, strict=True)]
        sides = tuple((t // 2, t - t // 2) for t in totals)
    else:
        sides = tuple((p, p) for p in _ints(padding, d))
    return Convolution(
        kernel,
        size,
        _ints(node["stride"], d),
        sides,
        dilation,
        int(node["groups"]),  # type: ignore[arg-type]
        "zeros",
        transposed,
        _ints(node.get("output_padding") or 0, d) if transposed else (0,) * d,
        error=weight.error,
    )


def is_dense(node: Node) -> bool:
    """Whether a node is a product with one constant matrix on the last axis: ``linear``, ``addmm``, ``mm`` or ``matmul``."""
    return _dense_operands(node) is not None


def as_dense(node: Node) -> Dense | None:
    """The matrix of ``linear``, ``addmm``, ``mm`` or ``matmul`` with a constant weight acting on the last axis."""
    operands = _dense_operands(node)
    if operands is None:
        return None
    weight, flipped = operands
    matrix = _stored(weight)
    dense = Dense(matrix.T if flipped else matrix, weight.error)
    alpha = node.get("alpha", 1)
    if alpha == 1:
        return dense
    return _scale_matrix(dense, Scale(torch.tensor([float(alpha)], dtype=torch.float64), 0))  # type: ignore[arg-type]


def _dense_operands(node: Node) -> tuple[Constant, bool] | None:
    """The constant matrix that multiplies the last axis, and whether it is (in, out)."""
    match node.op:
        case "aten.linear.default":
            source, weight, flipped = node["input"], node["weight"], False
        case "aten.addmm.default":
            source, weight, flipped = node["mat1"], node["mat2"], True
            if not isinstance(node["self"], Constant):
                return None
        case "aten.mm.default":
            source, weight, flipped = node["self"], node["mat2"], True
        case "aten.matmul.default":
            source, weight, flipped = node["self"], node["other"], True
        case _:
            return None
    if not isinstance(source, Ref) or not isinstance(weight, Constant) or weight.value.dim() != 2:
        return None
    return weight, flipped


def as_scale(node: Node, shape: tuple[int, ...]) -> Scale | None:
    """Batch norm in eval mode, or a product with (quotient by) a constant that varies along at most one axis.

    ``shape`` is that of the data-dependent operand; None where the constant enlarges it or varies along more axes.
    """
    if node.op in BATCH_NORMS:
        variance, mean, weight = node["running_var"], node["running_mean"], node["weight"]
        if node.get("training") is True or not isinstance(variance, Constant) or not isinstance(mean, Constant):
            return None
        if isinstance(weight, Ref) or not isinstance(node["input"], Ref):
            return None
        factor = 1 / torch.sqrt(_weight(variance) + float(node["eps"]))  # type: ignore[arg-type]
        scaled = _product(factor, _weight(weight)) if isinstance(weight, Constant) else factor
        error = variance.error + (weight.error if isinstance(weight, Constant) else 0.0)
        if bool((_weight(variance) < 0).any()) and error:
            return None  # the sum with epsilon cancels
        error = composed(error, roundings=4)  # a sum, a root, a quotient and a product
        return None if scaled is None or not bool(torch.isfinite(scaled).all()) else Scale(scaled, 1, error)
    if node.op not in PRODUCTS:
        return None
    left, right = node["self"], node["other"]
    divides = node.op.startswith("aten.div")
    if isinstance(left, Ref) and not isinstance(right, Ref):
        constant = right
    elif isinstance(right, Ref) and not isinstance(left, Ref) and not divides:
        constant = left
    else:
        return None
    if node.get("rounding_mode") is not None or isinstance(constant, complex):
        return None
    if isinstance(constant, Constant) and constant.value.is_complex():
        return None  # no real kernel absorbs it
    value = _weight(constant) if isinstance(constant, Constant) else torch.tensor(float(constant), dtype=torch.float64)  # type: ignore[arg-type]
    value = 1 / value if divides else value
    if not bool(torch.isfinite(value).all()) or bool(((value.abs() < _SMALLEST) & (value != 0)).any()):
        return None  # the rule of the operation knows what to say of a division by zero, and needs no margin
    pairs = zip(reversed(value.shape), reversed(shape), strict=False)
    if value.dim() > len(shape) or any(n not in (1, size) for n, size in pairs):
        return None
    value = value.reshape((1,) * (len(shape) - value.dim()) + tuple(value.shape))
    wide = [axis for axis, n in enumerate(value.shape) if n > 1]
    if len(wide) > 1:
        return None
    error = constant.error if isinstance(constant, Constant) else 0.0
    return Scale(value.flatten(), wide[0] if wide else min(1, len(shape) - 1), composed(error) if divides else error)


BATCH_NORMS = {
    "aten.batch_norm.default",
    "aten._native_batch_norm_legit_no_training.default",
    "aten._batch_norm_no_update.default",
    "aten.native_batch_norm.default",
    "aten.cudnn_batch_norm.default",
}
PRODUCTS = {"aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar"}


def scale_rows(linear: Linear, scale: Scale, axis: int) -> Linear | None:
    """The operation followed by the scale; ``axis`` is the channel axis of its output, counted from the front."""
    if not _matches(scale, axis):
        return None
    if isinstance(linear, Scale):
        if linear.axis != scale.axis and min(linear.factor.numel(), scale.factor.numel()) > 1:
            return None
        wider = linear if linear.factor.numel() > 1 else scale
        factor = _product(linear.factor, scale.factor)
        return None if factor is None else Scale(factor, wider.axis, composed(linear.error, scale.error))
    if isinstance(linear, Dense):
        return _scale_matrix(linear, scale, output=True)
    return _scale_channels(linear, scale, output=True)


def scale_columns(linear: Linear, scale: Scale, axis: int) -> Linear | None:
    """The operation preceded by the scale; ``axis`` is the channel axis of its input."""
    if isinstance(linear, Scale) or not _matches(scale, axis):
        return None
    if isinstance(linear, Dense):
        return _scale_matrix(linear, scale, output=False)
    return _scale_channels(linear, scale, output=False)


def _matches(scale: Scale, axis: int) -> bool:
    return scale.factor.numel() == 1 or scale.axis == axis


def _scale_matrix(dense: Dense, by: Scale, output: bool = True) -> Dense | None:
    weight = _product(dense.weight, by.factor[:, None] if output else by.factor[None, :])
    return None if weight is None else Dense(weight, composed(dense.error, by.error))


def _scale_channels(convolution: Convolution, by: Scale, output: bool) -> Convolution | None:
    factor = by.factor
    scale = along_channels(factor, convolution.weight.shape, convolution.groups, convolution.transposed, output)
    if _product(convolution.kernel, scale) is None:
        return None
    return replace(
        convolution,
        scales=(*convolution.scales, scale.to(torch.float64)),
        error=composed(convolution.error, by.error),
        # what the operator was off by before is scaled with it
        moved=convolution.moved and convolution.moved * float(factor.abs().max()) * (1 + 2**-20),
    )


def along_channels(
    factor: torch.Tensor, shape: Sequence[int], groups: int, transposed: bool, output: bool
) -> torch.Tensor:
    """A factor per channel, or one for all, in the form in which it multiplies a weight as torch stores it.

    ``shape`` is the weight's: (c_out, c_in / groups, *taps), transposed (c_in, c_out / groups, *taps), or a matrix (c_out, c_in);
    ``output`` says of which channels the factor is.
    """
    rows, columns, *taps = shape
    trailing = (1,) * len(taps)
    if factor.numel() == 1:
        return factor.reshape(1, 1, *trailing)
    if output != transposed:
        return factor.reshape(-1, 1, *trailing)
    scale = factor.reshape(groups, 1, -1).expand(groups, 1 if groups == 1 else rows // groups, columns)
    return scale.reshape(-1, columns, *trailing)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
    """a * b entry by entry in float64, None where an entry overflows or comes near underflow, which no margin covers."""
    if a.is_meta or b.is_meta:
        return a.to("meta") * b.to("meta")
    result = a.to(torch.float64) * b
    size = result.abs()
    if result.numel() and float(size.min()) < _SMALLEST and bool(((size < _SMALLEST) & (a != 0) & (b != 0)).any()):
        return None
    return result if is_finite(result) else None


def channel_axis(linear: Linear, dims: int) -> int:
    """The axis of a tensor with ``dims`` axes that holds the channels of the operation."""
    if isinstance(linear, Scale):
        return linear.axis
    return dims - 1 if isinstance(linear, Dense) else dims - 1 - len(linear.kernel_size)
