"""Residual networks for small images: ResNet-18 as it is used on CIFAR-10, and a smaller one of the same kind for 16 x 16 digits.

He, Zhang, Ren and Sun, *Deep Residual Learning for Image Recognition*, CVPR 2016: basic blocks of two 3 x 3 convolutions with batch norms,
and a 1 x 1 convolution beside a block that changes the shape. For small images the stem is one 3 x 3 convolution without a pooling
behind it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn


class Block(nn.Module):
    """relu(F(x) + shortcut(x)), F two convolutions with batch norms."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(c_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, c_in, h, w) to (batch, c_out, h / stride, w / stride)."""
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResidualNetwork(nn.Module):
    """A stem, stages of ``blocks`` blocks each, the mean over the pixels and a dense layer ``head``."""

    def __init__(
        self, channels: int, widths: Sequence[int], strides: Sequence[int], blocks: int, classes: int = 10
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(widths[0])
        stages, width = [], widths[0]
        for c_out, stride in zip(widths, strides, strict=True):
            stages += [Block(width, c_out, stride), *(Block(c_out, c_out, 1) for _ in range(blocks - 1))]
            width = c_out
        self.blocks = nn.Sequential(*stages)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (batch, channels, h, w) to logits (batch, classes)."""
        x = self.blocks(torch.relu(self.norm(self.stem(x))))
        logits: torch.Tensor = self.head(x.mean((2, 3)))
        return logits


def digits_network() -> ResidualNetwork:
    """Three blocks for images of 1 x 16 x 16: 9 convolutions."""
    return ResidualNetwork(1, (16, 24, 32), (1, 2, 1), blocks=1)


def cifar_resnet18() -> ResidualNetwork:
    """ResNet-18 for images of 3 x 32 x 32: 20 convolutions."""
    return ResidualNetwork(3, (64, 128, 256, 512), (1, 2, 2, 2), blocks=2)


def without_batch_norms(model: nn.Module) -> nn.Module:
    """A copy in which every batch norm is the identity, so that an audit shows each convolution by itself."""
    bare = copy.deepcopy(model)
    for path, module in list(bare.named_modules()):
        if isinstance(module, nn.BatchNorm2d):
            parent, _, name = path.rpartition(".")
            setattr(bare.get_submodule(parent), name, nn.Identity())
    return bare
