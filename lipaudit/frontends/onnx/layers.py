"""ONNX operators with weights: convolutions, dense layers, normalisation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.geometry import spatial_pads, torch_pads
from lipaudit.frontends.onnx.operators import Apply, NodeView, all_operands, converter, first_operand

_CONVOLUTIONS: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_TRANSPOSED: dict[int, Callable[..., nn.Module]] = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
_BATCH_NORMS = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def _frozen(tensor: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


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
    module.weight = _frozen(weight)
    if node.has(2):
        module.bias = _frozen(node.tensor(2))
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
    begin, end = _transposed_pads(node, kernel, strides, dilations, extra)
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
    module.weight = _frozen(weight)
    if node.has(2):
        module.bias = _frozen(node.tensor(2))
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
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pads as given, or so that the output has the stated size (``output_shape``, SAME_UPPER and SAME_LOWER)."""
    rank = len(kernel)
    auto = node.attr("auto_pad", "NOTSET")
    target = node.attr("output_shape")
    sizes = node.shape()[2:]
    if target is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        target = [n * s for n, s in zip(sizes, strides, strict=True)]
    if target is None:
        if auto == "VALID":
            return (0,) * rank, (0,) * rank
        pads = list(node.attr("pads", [0] * (2 * rank)))
        return tuple(pads[:rank]), tuple(pads[rank:])
    begin, end = [], []
    for axis, n in enumerate(sizes):
        full = strides[axis] * (n - 1) + extra[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        total = full - int(target[-rank:][axis])
        if total < 0:
            node.fail(f"output_shape {list(target)} exceeds the full size of the transposed convolution")
        small, large = total // 2, total - total // 2
        begin.append(small if auto == "SAME_UPPER" else large)
        end.append(large if auto == "SAME_UPPER" else small)
    return tuple(begin), tuple(end)


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    module = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    module.weight = _frozen(weight)
    if bias is not None:
        module.bias = _frozen(bias)
    return module


@converter("MatMul")
def matmul(node: NodeView) -> nn.Module:
    """A product with a constant matrix on the right is a dense layer without bias."""
    if node.is_constant(1) and len(node.shape(1)) == 2:
        return _linear(node.tensor(1).t().contiguous(), None)
    return all_operands(node, torch.matmul)


@converter("Gemm")
def gemm(node: NodeView) -> nn.Module:
    """alpha A B + beta C, each of A and B transposed on request; a dense layer where alpha = beta = 1."""
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    trans_a, trans_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    plain = alpha == 1.0 and (beta == 1.0 or not node.has(2)) and not trans_a
    if plain and node.is_constant(1) and (not node.has(2) or node.is_constant(2)):
        weight = node.tensor(1) if trans_b else node.tensor(1).t().contiguous()
        width = weight.shape[0]
        if not node.has(2):
            return _linear(weight, None)
        bias = node.tensor(2)
        if bias.numel() == 1 or bias.numel() == bias.shape[-1] == width:
            return _linear(weight, bias.reshape(-1).expand(width).contiguous())

    def product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
        result = torch.matmul(a.t() if trans_a else a, b.t() if trans_b else b)
        result = result if alpha == 1.0 else alpha * result
        return result if c is None else result + (c if beta == 1.0 else beta * c)

    return all_operands(node, product)


@converter("BatchNormalization")
def batch_normalization(node: NodeView) -> nn.Module:
    """(x - mean) / sqrt(var + epsilon) scale + bias per channel, with constant statistics."""
    if node.attr("training_mode", 0) or node.attr("is_test", 1) == 0:
        node.fail(
            "it is in training mode, so that its output depends on the batch; export the model in evaluation mode"
        )
    if node.opset < 9 and not node.attr("spatial", 1):
        node.fail("statistics per activation (spatial=0) are not supported")
    rank = len(node.shape()) - 2
    if rank not in _BATCH_NORMS:
        node.fail(f"{rank} spatial axes, up to 3 are supported")
    module = _BATCH_NORMS[rank](node.shape(1)[0], eps=float(node.attr("epsilon", 1e-5)))
    module.weight, module.bias = _frozen(node.tensor(1)), _frozen(node.tensor(2))
    module.running_mean, module.running_var = node.tensor(3), node.tensor(4)
    return module


@converter("LayerNormalization", "RMSNormalization")
def layer_normalization(node: NodeView) -> nn.Module:
    """Over all axes from ``axis`` on; the scale has their shape."""
    axis = node.axis("axis", -1)
    shape = node.shape()[axis:]
    epsilon = float(node.attr("epsilon", 1e-5))
    scale = node.tensor(1).expand(shape).contiguous()
    if node.op == "RMSNormalization":
        return Apply(lambda x, w: functional.rms_norm(x, shape, w, epsilon), [None, scale])
    module = nn.LayerNorm(shape, eps=epsilon, bias=node.has(2))
    module.weight = _frozen(scale)
    if node.has(2):
        module.bias = _frozen(node.tensor(2).expand(shape).contiguous())
    return module


@converter("GroupNormalization", "InstanceNormalization")
def group_normalization(node: NodeView) -> nn.Module:
    """Per group of channels (instance normalisation: per channel); opset 18 scales groups, opset 21 channels."""
    channels = node.shape()[1]
    groups = int(node.attr("num_groups", channels))
    scale, bias = node.tensor(1), node.tensor(2)
    if scale.numel() == groups != channels:
        scale, bias = scale.repeat_interleave(channels // groups), bias.repeat_interleave(channels // groups)
    module = nn.GroupNorm(groups, channels, eps=float(node.attr("epsilon", 1e-5)))
    module.weight, module.bias = _frozen(scale), _frozen(bias)
    return module


@converter("LRN")
def local_response(node: NodeView) -> nn.Module:
    """x / (bias + alpha/size sum of squares over neighbouring channels)^beta."""
    size = int(node.attr("size"))
    alpha, beta, bias = (float(node.attr(k, d)) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    return nn.LocalResponseNorm(size, alpha=alpha, beta=beta, k=bias)


@converter("LpNormalization")
def lp_normalization(node: NodeView) -> nn.Module:
    """x / ||x||_p along an axis."""
    axis, p = node.axis("axis", -1), int(node.attr("p", 2))
    return first_operand(node, lambda x: x / torch.linalg.vector_norm(x, ord=p, dim=axis, keepdim=True))


@converter("Einsum")
def einsum(node: NodeView) -> nn.Module:
    """Sums of products by subscripts."""
    equation = node.attr("equation")
    return all_operands(node, lambda *tensors: torch.einsum(equation, *tensors))
