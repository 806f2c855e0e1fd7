"""ONNX's reference implementation, with the operators that it evaluates other than the standard says written anew.

The classes below follow the text of the standard's operator documentation in numpy. Each replaces the reference's own for the versions
for which that one is wrong, or has none: batch normalisation before opset 14 takes the statistics of the sample, transposed convolution
loses channels of groups and output shapes, LRN mistakes samples for channels, slices do not clamp their limits, softmax before opset 13
normalises one axis, and so on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array: TypeAlias = np.ndarray[Any, Any]
REFERENCE = f"the reference implementation of onnx {onnx.__version__}"


class BatchNormalization(OpRun):
    """``scale (x - mean) / sqrt(var + epsilon) + bias`` per channel, or per entry of a sample where ``spatial`` is 0."""

    def _run(self, x: Array, scale: Array, bias: Array, mean: Array, var: Array, **attributes: Any) -> tuple[Array]:
        if attributes.get("training_mode"):
            raise NotImplementedError("batch normalisation in training mode")
        epsilon, spatial = attributes.get("epsilon", 1e-5), attributes.get("spatial", 1) in (1, None)
        shape = (-1, *(1,) * (x.ndim - 2)) if spatial else x.shape[1:]
        scale, bias, mean, var = (a.reshape(shape) for a in (scale, bias, mean, var))
        return ((scale * (x - mean) / np.sqrt(var + epsilon) + bias).astype(x.dtype),)


class ConvTranspose(OpRun):
    """Every input entry adds its multiple of the kernel to the output, group by group; then the pads are cut off."""

    def _run(self, x: Array, weight: Array, bias: Array | None = None, **attributes: Any) -> tuple[Array]:
        group, spatial = attributes.get("group") or 1, x.ndim - 2
        stride, dilation = (attributes.get(name) or [1] * spatial for name in ("strides", "dilations"))
        extra = attributes.get("output_padding") or [0] * spatial
        sizes = [
            s * (n - 1) + d * (k - 1) + 1 + e
            for s, n, d, k, e in zip(stride, x.shape[2:], dilation, weight.shape[2:], extra, strict=True)
        ]
        begin, wanted = _transposed_pads(x, sizes, stride, attributes)
        room = [max(size, b + w) for size, b, w in zip(sizes, begin, wanted, strict=True)]
        y = np.zeros((x.shape[0], group * weight.shape[1], *room), x.dtype)
        rows = x.reshape(x.shape[0], group, -1, *x.shape[2:])
        taps = weight.reshape(group, -1, *weight.shape[1:])
        for tap in itertools.product(*map(range, weight.shape[2:])):
            at: tuple[Any, ...] = (..., *tap)
            part = np.einsum("ngi...,gio->ngo...", rows, taps[at])
            place = [
                slice(t * d, t * d + s * (n - 1) + 1, s)
                for t, d, s, n in zip(tap, dilation, stride, x.shape[2:], strict=True)
            ]
            y[(slice(None), slice(None), *place)] += part.reshape(x.shape[0], -1, *x.shape[2:])
        y = y[(slice(None), slice(None), *(slice(b, b + w) for b, w in zip(begin, wanted, strict=True)))]
        return (y if bias is None else y + bias.reshape(-1, *(1,) * spatial),)


def _transposed_pads(
    x: Array, sizes: Sequence[int], stride: Sequence[int], attributes: Mapping[str, Any]
) -> tuple[list[int], list[int]]:
    """How much is cut off in front, and how much is left."""
    spatial = len(sizes)
    mode, wanted = attributes.get("auto_pad", "NOTSET"), attributes.get("output_shape")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(x.shape[2:], stride, strict=True)]
    if wanted is None:
        pads = attributes.get("pads") or [0] * (2 * spatial)
        begin = list(pads[:spatial])
        return begin, [size - b - e for size, b, e in zip(sizes, begin, pads[spatial:], strict=True)]
    wanted = list(wanted)[-spatial:]
    total = [max(0, size - w) for size, w in zip(sizes, wanted, strict=True)]
    return [t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in total], wanted


class LRN(OpRun):
    """``x / (bias + alpha / size * sum of squares over the nearest channels) ** beta``."""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array]:
        size, alpha, beta, bias = (attributes[name] for name in ("size", "alpha", "beta", "bias"))
        before, behind = (size - 1) // 2, math.ceil((size - 1) / 2)
        sums = [np.sum(x[:, max(0, c - before) : c + behind + 1] ** 2, axis=1) for c in range(x.shape[1])]
        return ((x / (bias + alpha / size * np.stack(sums, axis=1)) ** beta).astype(x.dtype),)


class GlobalLpPool(OpRun):
    """The p-norm over everything behind the channels."""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array]:
        p = attributes.get("p") or 2
        sums = np.sum(np.abs(x) ** p, axis=tuple(range(2, x.ndim)), keepdims=True)
        return ((sums ** (1 / p)).astype(x.dtype),)


class GlobalMaxPool(OpRun):
    """The maximum over everything behind the channels."""

    def _run(self, x: Array, **_attributes: Any) -> tuple[Array]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class DequantizeLinear(OpRun):
    """``(x - zero point) * scale``, the last two per tensor or per entry of an axis."""

    def _run(self, x: Array, scale: Array, zero: Array | None = None, **attributes: Any) -> tuple[Array]:
        def spread(array: Array) -> Array:
            if array.size == 1:
                return array.reshape(())
            return np.moveaxis(array.reshape(-1, *(1,) * (x.ndim - 1)), 0, attributes.get("axis", 1))

        shifted = x.astype(np.float32) - (0 if zero is None else spread(zero.astype(np.float32)))
        return ((shifted * spread(scale)).astype(scale.dtype),)


class Slice(OpRun):
    """Ranges along axes, by the standard's rule for limits outside of an axis."""

    def _run(self, x: Array, *inputs: Array, **attributes: Any) -> tuple[Array]:
        if not inputs:
            inputs = tuple(
                np.asarray(attributes[n]) for n in ("starts", "ends", "axes") if attributes.get(n) is not None
            )
        starts, ends, axes, steps = (
            None if array is None else [int(i) for i in np.reshape(array, -1)] for array in (*inputs, *(None,) * 4)[:4]
        )
        assert starts is not None
        assert ends is not None
        for i, axis in enumerate(axes or range(len(starts))):
            step, size = steps[i] if steps else 1, x.shape[axis]
            low, high = (0, size) if step > 0 else (-1, size - 1)
            start, end = (limit + size if limit < 0 else limit for limit in (starts[i], ends[i]))
            entries = range(min(max(start, 0), high), min(max(end, low), high), step)
            x = np.take(x, list(entries), axis=axis)
        return (x,)


class Softmax(OpRun):
    """Over all axes from ``axis`` (default 1) on, taken as one: the meaning up to opset 12."""

    def _run(self, x: Array, axis: int | None = None) -> tuple[Array]:
        flat = _flat(x, axis, self.onnx_node)
        powers = np.exp(flat - flat.max(axis=1, keepdims=True))
        return ((powers / powers.sum(axis=1, keepdims=True)).reshape(x.shape).astype(x.dtype),)


class LogSoftmax(OpRun):
    """The logarithm of :class:`Softmax`."""

    def _run(self, x: Array, axis: int | None = None) -> tuple[Array]:
        flat = _flat(x, axis, self.onnx_node)
        shifted = flat - flat.max(axis=1, keepdims=True)
        result = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return (result.reshape(x.shape).astype(x.dtype),)


def _flat(x: Array, axis: int | None, node: onnx.NodeProto) -> Array:
    # the default is that of the newest version (-1) unless the node has the attribute
    axis = axis if axis is not None and any(a.name == "axis" for a in node.attribute) else 1
    return x.reshape(math.prod(x.shape[: axis % x.ndim]), -1)


class Upsample(OpRun):
    """Entry ``i`` of an axis reads the input at ``i / scale``: the entry below, or both neighbours in proportion."""

    def _run(self, x: Array, scales: Array | None = None, **attributes: Any) -> tuple[Array]:
        factors = attributes["scales"] if scales is None else scales
        for axis, factor in enumerate(float(f) for f in factors):
            size = x.shape[axis]
            places = np.arange(math.floor(size * factor)) / factor
            below = np.minimum(np.floor(places).astype(np.int64), size - 1)
            low = np.take(x, below, axis=axis)
            if attributes.get("mode") == "linear":
                share = np.reshape(np.minimum(places, size - 1) - below, (-1, *(1,) * (x.ndim - axis - 1)))
                low = low + share * (np.take(x, np.minimum(below + 1, size - 1), axis=axis) - low)
            x = low.astype(x.dtype)
        return (x,)


class Resize(Upsample):
    """As opset 10 has it."""


# the versions of the standard's operator set for which a class replaces the reference's
_VERSIONS: dict[type[OpRun], range] = {
    BatchNormalization: range(7, 14),
    ConvTranspose: range(1, 1000),
    LRN: range(1, 1000),
    GlobalLpPool: range(2, 1000),
    GlobalMaxPool: range(1, 1000),
    DequantizeLinear: range(10, 19),
    Slice: range(1, 1000),
    Softmax: range(1, 13),
    LogSoftmax: range(1, 13),
    Upsample: range(7, 10),
    Resize: range(10, 11),
}


def reference_evaluator(proto: onnx.ModelProto | onnx.NodeProto, opsets: Mapping[str, int]) -> ReferenceEvaluator:
    """The reference implementation for a model or a single node of these operator sets, mended."""
    opset = opsets.get("", opsets.get("ai.onnx", 0))
    mended = [operator for operator, versions in _VERSIONS.items() if opset in versions]
    return ReferenceEvaluator(proto, opsets=dict(opsets) if isinstance(proto, onnx.NodeProto) else None, new_ops=mended)
