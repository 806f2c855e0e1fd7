"""ONNX convolutions and transposed convolutions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.geometry import spatial_pads, torch_pads
from lipaudit.frontends.onnx.operators import Apply, NodeView, converter, frozen

_CONVOLUTIONS: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_TRANSPOSED: dict[int, Callable[..., nn.Module]] = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


@converter("Conv")
def convolution(node: NodeView) -> nn.Module:
    """Constant kernel (c_out, c_in / groups, k...); uneven padding becomes a module of its own in front."""
    weight = node.tensor(1)
    rank = weight.ndim - 2
    if rank not in _CONVOLUTIONS:
        node.fail(f"{rank} spatial axes, 1 to 3 are supported")
    kernel = tuple(weight.shape[2:])
    strides = tuple(node.attr("strides", [1] * rank))
    dilations = tuple(node.attr("dilations", [1] * rank))
    begin, end = spatial_pads(node, kernel, strides, dilations)
    groups = int(node.attr("group", 1))
    module = _CONVOLUTIONS[rank](
        weight.shape[1] * groups,
        weight.shape[0],
        kernel,
        stride=strides,
        padding=begin if begin == end else 0,
        dilation=dilations,
        groups=groups,
        bias=node.has(2),
        device="meta",
    )
    module.weight = frozen(weight)
    if node.has(2):
        module.bias = frozen(node.tensor(2))
    if begin == end:
        return module
    pad = Apply(lambda x: functional.pad(x, torch_pads(begin, end)), [None])
    return nn.Sequential(OrderedDict(pad=pad, conv=module))


@converter("ConvTranspose")
def transposed_convolution(node: NodeView) -> nn.Module:
    """Constant kernel (c_in, c_out / groups, k...); uneven padding crops the full result."""
    weight = node.tensor(1)
    rank = weight.ndim - 2
    if rank not in _TRANSPOSED:
        node.fail(f"{rank} spatial axes, 1 to 3 are supported")
    kernel = tuple(weight.shape[2:])
    strides = tuple(node.attr("strides", [1] * rank))
    dilations = tuple(node.attr("dilations", [1] * rank))
    extra = tuple(node.attr("output_padding", [0] * rank))
    begin, end, extra = _transposed_pads(node, kernel, strides, dilations, extra)
    even = begin == end
    groups = int(node.attr("group", 1))
    module = _TRANSPOSED[rank](
        weight.shape[0],
        weight.shape[1] * groups,
        kernel,
        stride=strides,
        padding=begin if even else 0,
        output_padding=extra,
        groups=groups,
        bias=node.has(2),
        dilation=dilations,
        device="meta",
    )
    module.weight = frozen(weight)
    if node.has(2):
        module.bias = frozen(node.tensor(2))
    if even:
        return module
    crop = Apply(lambda x: functional.pad(x, torch_pads([-b for b in begin], [-e for e in end])), [None])
    return nn.Sequential(OrderedDict(conv=module, crop=crop))


def _transposed_pads(
    node: NodeView,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    extra: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Pads as given, or so that the output has the stated size (``output_shape``, SAME_UPPER and SAME_LOWER).

    Third the rows at the end that no kernel reaches: as stated, more where the stated size exceeds what the kernels cover.
    """
    rank = len(kernel)
    auto = node.attr("auto_pad", "NOTSET")
    target = node.attr("output_shape")
    sizes = node.shape()[2:]
    if target is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        target = [n * s for n, s in zip(sizes, strides, strict=True)]
    if target is None:
        if auto == "VALID":
            return (0,) * rank, (0,) * rank, extra
        pads = list(node.attr("pads", [0] * (2 * rank)))
        return tuple(pads[:rank]), tuple(pads[rank:]), extra
    begin, end, more = [], [], list(extra)
    for axis, n in enumerate(sizes):
        full = strides[axis] * (n - 1) + extra[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        total = full - int(target[-rank:][axis])
        if total < 0:
            more[axis], total = more[axis] - total, 0
            if more[axis] >= max(strides[axis], dilations[axis]):
                node.fail(f"output_shape {list(target)} exceeds the full size of the transposed convolution")
        small, large = total // 2, total - total // 2
        begin.append(small if auto == "SAME_UPPER" else large)
        end.append(large if auto == "SAME_UPPER" else small)
    return tuple(begin), tuple(end), tuple(more)
