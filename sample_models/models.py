"""The sample networks, in plain torch: factories without arguments that return an untrained network.

Every network reads a ``(batch, 1, 16, 16)`` image with pixels in [0, 1]. The classifiers return ``(batch, 10)`` logits,
:func:`digits_unet` returns ``(batch, 1, 16, 16)`` logits of "this pixel belongs to the digit".
"""

from __future__ import annotations

from collections import OrderedDict
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10
IMAGE_SIZE = 16


def _conv_norm(c_in: int, c_out: int, size: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A bias-free convolution with "same" zero padding, and the batch norm behind it."""
    convolution = nn.Conv2d(c_in, c_out, size, stride, padding=size // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(c_out)]


class ResidualBlock(nn.Module):
    """relu(F(x) + shortcut(x)) with F(x) = norm(conv(relu(norm(conv(x))))); 1x1 shortcut where the shape changes."""

    def __init__(self, c_in: int, c_out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv_norm(c_in, c_out, stride=stride)
        self.conv2, self.bn2 = _conv_norm(c_out, c_out)
        same = c_in == c_out and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_conv_norm(c_in, c_out, size=1, stride=stride))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, c_in, h, w) to (batch, c_out, h / stride, w / stride)."""
        residual = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(residual + self.shortcut(x))


class InvertedResidual(nn.Module):
    """Expand by a 1x1 convolution, filter each channel, project back without an activation (MobileNetV2's block)."""

    def __init__(self, c_in: int, c_out: int, stride: int = 1, expansion: int = 3) -> None:
        super().__init__()
        hidden = c_in * expansion
        self.expand = nn.Sequential(*_conv_norm(c_in, hidden, size=1), nn.ReLU6())
        self.depthwise = nn.Sequential(*_conv_norm(hidden, hidden, stride=stride, groups=hidden), nn.ReLU6())
        self.project = nn.Sequential(*_conv_norm(hidden, c_out, size=1))
        self.residual = c_in == c_out and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        """(batch, c_in, h, w) to (batch, c_out, h / stride, w / stride)."""
        y = cast(Tensor, self.project(self.depthwise(self.expand(x))))
        return x + y if self.residual else y


class SqueezeExcite(nn.Module):
    """Multiply every channel by a gate in (0, 1) computed from the means of all channels."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, hidden, 1)
        self.expand = nn.Conv2d(hidden, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, h, w) to the same shape."""
        gate = torch.sigmoid(self.expand(functional.relu(self.reduce(self.pool(x)))))
        return x * gate


class SelfAttention(nn.Module):
    """Multi-head attention, softmax(Q K^T / sqrt(d)) V in every head."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) to the same shape."""
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, self.head_width).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)  # (batch, heads, tokens, head_width) each
        mixed = functional.scaled_dot_product_attention(q, k, v, scale=self.head_width**-0.5)
        return cast(Tensor, self.out(mixed.transpose(1, 2).reshape(batch, tokens, width)))


class TransformerBlock(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)): the pre-norm order."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), SelfAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) to the same shape."""
        x = x + self.attention(self.norm1(x))
        return x + cast(Tensor, self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    """Patches, learned positions, transformer blocks, mean over the tokens, one dense layer."""

    def __init__(self, patch: int = 4, width: int = 48, heads: int = 3, depth: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (IMAGE_SIZE // patch) ** 2, width))
        self.blocks = nn.Sequential(*(TransformerBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 1, 16, 16) to (batch, 10)."""
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return cast(Tensor, self.head(self.norm(self.blocks(tokens)).mean(1)))


class UNet(nn.Module):
    """Two levels down by max pooling; up by a transposed convolution, then by bilinear resizing; skips concatenated."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.encode1 = nn.Sequential(*_conv_norm(1, width), nn.ReLU())
        self.encode2 = nn.Sequential(*_conv_norm(width, 2 * width), nn.ReLU())
        self.bottom = nn.Sequential(*_conv_norm(2 * width, 2 * width), nn.ReLU())
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2)
        self.decode2 = nn.Sequential(*_conv_norm(4 * width, width), nn.ReLU())
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.decode1 = nn.Sequential(*_conv_norm(2 * width, width), nn.ReLU())
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 1, 16, 16) to the same shape."""
        fine = self.encode1(x)
        middle = self.encode2(self.pool(fine))
        coarse = self.bottom(self.pool(middle))
        middle = self.decode2(torch.cat([self.up2(coarse), middle], dim=1))
        return cast(Tensor, self.head(self.decode1(torch.cat([self.up1(middle), fine], dim=1))))


class MaxMin(nn.Module):
    """The larger and the smaller entry of every pair, one from each half: it permutes entries, and keeps every length."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, features) to the same shape."""
        first, second = x.chunk(2, dim=1)
        return torch.cat([torch.maximum(first, second), torch.minimum(first, second)], dim=1)


def _classifier(channels: int, **stages: nn.Module) -> nn.Sequential:
    """Named stages, global average pooling and one dense layer."""
    end = {"pool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten(), "head": nn.Linear(channels, CLASSES)}
    return nn.Sequential(OrderedDict(stages | end))


def digits_resnet() -> nn.Module:
    """A residual net with batch norm, strides and a 3x3/2 max pooling.

    >>> tuple(digits_resnet()(torch.zeros(2, 1, 16, 16)).shape)
    (2, 10)
    """
    return _classifier(
        32,
        stem=nn.Sequential(*_conv_norm(1, 16), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)),
        block1=ResidualBlock(16, 16),
        block2=ResidualBlock(16, 32, stride=2),
        block3=ResidualBlock(32, 32),
    )


def digits_mobile() -> nn.Module:
    """Depthwise-separable inverted residuals with ReLU6."""
    return _classifier(
        32,
        stem=nn.Sequential(*_conv_norm(1, 16, stride=2), nn.ReLU6()),
        block1=InvertedResidual(16, 16),
        block2=InvertedResidual(16, 32, stride=2),
        block3=InvertedResidual(32, 32),
    )


def digits_se() -> nn.Module:
    """A plain convolutional net in which two of the stages end in a squeeze-excite gate."""
    return _classifier(
        32,
        stage1=nn.Sequential(*_conv_norm(1, 16), nn.ReLU(), SqueezeExcite(16, 4)),
        stage2=nn.Sequential(*_conv_norm(16, 32, stride=2), nn.ReLU(), SqueezeExcite(32, 8)),
        stage3=nn.Sequential(*_conv_norm(32, 32, stride=2), nn.ReLU()),
    )


def digits_vit() -> nn.Module:
    """A small pre-norm vision transformer: 16 tokens of width 48, 3 heads, 3 blocks."""
    return VisionTransformer()


def digits_unet() -> nn.Module:
    """A U-shaped net that finds the pixels of a digit in noise."""
    return UNet()


def digits_one_lipschitz() -> nn.Module:
    """A network that is 1-Lipschitz once its matrices are orthogonal, which their training keeps them (:mod:`sample_models.train`)."""
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            dense1=nn.Linear(IMAGE_SIZE**2, 160),
            maxmin1=MaxMin(),
            dense2=nn.Linear(160, 96),
            maxmin2=MaxMin(),
            head=nn.Linear(96, CLASSES),
        )
    )
