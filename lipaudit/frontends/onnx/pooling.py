"""ONNX poolings over windows and over whole images."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.geometry import Sizes, spatial_pads, torch_pads
from lipaudit.frontends.onnx.operators import Apply, NodeView, converter, first_operand

_MAX = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
_AVERAGE: dict[int, Callable[..., nn.Module]] = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
_GLOBAL: dict[tuple[str, int], Callable[[int], nn.Module]] = {
    ("GlobalAveragePool", 1): nn.AdaptiveAvgPool1d,
    ("GlobalAveragePool", 2): nn.AdaptiveAvgPool2d,
    ("GlobalAveragePool", 3): nn.AdaptiveAvgPool3d,
    ("GlobalMaxPool", 1): nn.AdaptiveMaxPool1d,
    ("GlobalMaxPool", 2): nn.AdaptiveMaxPool2d,
    ("GlobalMaxPool", 3): nn.AdaptiveMaxPool3d,
}


@converter("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: NodeView) -> nn.Module:
    """Mean or maximum over all spatial axes."""
    rank = len(node.shape()) - 2
    if (node.op, rank) not in _GLOBAL:
        node.fail(f"{rank} spatial axes, 1 to 3 are supported")
    return _GLOBAL[node.op, rank](1)


@converter("GlobalLpPool")
def global_norm_pool(node: NodeView) -> nn.Module:
    """p-norm over all spatial axes."""
    axes, order = tuple(range(2, len(node.shape()))), int(node.attr("p", 2))
    return first_operand(node, lambda x: torch.linalg.vector_norm(x, ord=order, dim=axes, keepdim=True))


@converter("LpPool")
def norm_pool(node: NodeView) -> nn.Module:
    """p-norm over windows."""
    rank, kernel, strides, dilations = _window(node)
    if node.attr("ceil_mode", 0) or any(d != 1 for d in dilations):
        node.fail("pooling by p-norms with dilation or ceil_mode is not supported")
    begin, end = spatial_pads(node, kernel, strides, dilations)
    order, windows = int(node.attr("p", 2)), tuple(range(2 + rank, 2 + 2 * rank))

    def pool(x: torch.Tensor) -> torch.Tensor:
        x = functional.pad(x, torch_pads(begin, end)) if any((*begin, *end)) else x
        for axis, (size, step) in enumerate(zip(kernel, strides, strict=True)):
            x = x.unfold(2 + axis, size, step)
        norms: torch.Tensor = torch.linalg.vector_norm(x, ord=order, dim=windows)
        return norms

    return first_operand(node, pool)


def _window(node: NodeView) -> tuple[int, Sizes, Sizes, Sizes]:
    kernel = tuple(int(k) for k in node.attr("kernel_shape"))
    rank = len(kernel)
    if rank not in _MAX:
        node.fail(f"{rank} spatial axes, 1 to 3 are supported")
    strides = tuple(int(s) for s in node.attr("strides", [1] * rank))
    dilations = tuple(int(d) for d in node.attr("dilations", [1] * rank))
    return rank, kernel, strides, dilations


def _fits_torch(kernel: Sizes, begin: Sizes, end: Sizes) -> bool:
    return begin == end and all(2 * b <= k for b, k in zip(begin, kernel, strict=True))


@converter("MaxPool")
def max_pool(node: NodeView) -> nn.Module:
    """Maximum over windows; padding that torch does not take becomes minus infinity in front."""
    rank, kernel, strides, dilations = _window(node)
    begin, end = spatial_pads(node, kernel, strides, dilations)
    ceil_mode = bool(node.attr("ceil_mode", 0))
    fits = _fits_torch(kernel, begin, end)
    pool = _MAX[rank](kernel, strides, begin if fits else 0, dilations, ceil_mode=ceil_mode)
    if fits:
        return pool
    pad = Apply(lambda x: functional.pad(x, torch_pads(begin, end), value=-math.inf), [None])
    return nn.Sequential(OrderedDict(pad=pad, pool=pool))


@converter("AveragePool")
def average_pool(node: NodeView) -> nn.Module:
    """Mean over windows.

    With uneven padding the input is padded with zeros and, where padding does not count, each window's mean over k entries
    is multiplied by k / (entries inside the input).
    """
    rank, kernel, strides, dilations = _window(node)
    if any(d != 1 for d in dilations):
        node.fail("average pooling with dilation is not supported")
    begin, end = spatial_pads(node, kernel, strides, dilations)
    ceil_mode, count_pad = bool(node.attr("ceil_mode", 0)), bool(node.attr("count_include_pad", 0))
    if _fits_torch(kernel, begin, end):
        return _AVERAGE[rank](kernel, strides, begin, ceil_mode=ceil_mode, count_include_pad=count_pad)
    if ceil_mode:
        node.fail("uneven padding together with ceil_mode is not supported")
    pads = torch_pads(begin, end)
    modules: dict[str, nn.Module] = {
        "pad": Apply(lambda x: functional.pad(x, pads), [None]),
        "pool": _AVERAGE[rank](kernel, strides),
    }
    if not count_pad:
        value = node.value(0).example
        assert value is not None
        share = modules["pool"](functional.pad(torch.ones((1, 1, *node.shape()[2:]), dtype=torch.float64), pads))
        modules["scale"] = Apply(torch.mul, [None, (1.0 / share).to(value.dtype)])
    return nn.Sequential(OrderedDict(modules))
