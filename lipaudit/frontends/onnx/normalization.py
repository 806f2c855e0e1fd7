"""ONNX normalisations: stored statistics, layers, groups, channels, neighbours."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.operators import Apply, NodeView, converter, first_operand, frozen

_BATCH_NORMS = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


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
    module.weight, module.bias = frozen(node.tensor(1)), frozen(node.tensor(2))
    module.running_mean, module.running_var = node.tensor(3), node.tensor(4)
    return module


def layer_norm(node: NodeView, axis: int, scale: torch.Tensor, bias: torch.Tensor | None, epsilon: float) -> nn.Module:
    """Layer norm over all axes from ``axis`` on, then scale and bias, which have their shape or broadcast to it."""
    shape = node.shape()[axis:]
    module = nn.LayerNorm(shape, eps=epsilon, bias=bias is not None)
    module.weight = frozen(scale.expand(shape).contiguous())
    if bias is not None:
        module.bias = frozen(bias.expand(shape).contiguous())
    return module


def rms_norm(node: NodeView, axis: int, scale: torch.Tensor, epsilon: float) -> nn.Module:
    """x / sqrt(mean(x^2) + epsilon) over all axes from ``axis`` on, then the scale."""
    shape = node.shape()[axis:]
    weight = scale.expand(shape).contiguous()
    return Apply(lambda x, w: functional.rms_norm(x, shape, w, epsilon), [None, weight])


@converter("LayerNormalization")
def layer_normalization(node: NodeView) -> nn.Module:
    """Over all axes from ``axis`` on; the scale has their shape."""
    bias = node.tensor(2) if node.has(2) else None
    return layer_norm(node, node.axis("axis", -1), node.tensor(1), bias, float(node.attr("epsilon", 1e-5)))


@converter("RMSNormalization", "SimplifiedLayerNormalization")
def rms_normalization(node: NodeView) -> nn.Module:
    """The second name is onnxruntime's, in the standard's domain."""
    return rms_norm(node, node.axis("axis", -1), node.tensor(1), float(node.attr("epsilon", 1e-5)))


@converter("GroupNormalization", "InstanceNormalization")
def group_normalization(node: NodeView) -> nn.Module:
    """Per group of channels (instance normalisation: per channel); opset 18 scales groups, opset 21 channels.

    Exporters write a scale of 1 and a shift of 0 where the network has none.
    """
    channels = node.shape()[1]
    groups = int(node.attr("num_groups", channels))
    scale, bias = node.tensor(1), node.tensor(2)
    if scale.numel() == groups != channels:
        scale, bias = scale.repeat_interleave(channels // groups), bias.repeat_interleave(channels // groups)
    affine = bool((scale != 1).any() or (bias != 0).any())
    module = nn.GroupNorm(groups, channels, eps=float(node.attr("epsilon", 1e-5)), affine=affine)
    if affine:
        module.weight, module.bias = frozen(scale), frozen(bias)
    return module


@converter("LRN")
def local_response(node: NodeView) -> nn.Module:
    """x / (bias + alpha/size sum of squares over neighbouring channels)^beta."""
    size = int(node.attr("size"))
    alpha, beta, bias = (float(node.attr(k, d)) for k, d in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    if size % 2 == 0:
        node.fail("windows with an even number of channels are defined differently by its implementations")
    return nn.LocalResponseNorm(size, alpha=alpha, beta=beta, k=bias)


@converter("LpNormalization")
def lp_normalization(node: NodeView) -> nn.Module:
    """x / ||x||_p along an axis."""
    axis, p = node.axis("axis", -1), int(node.attr("p", 2))
    return first_operand(node, lambda x: x / torch.linalg.vector_norm(x, ord=p, dim=axis, keepdim=True))
