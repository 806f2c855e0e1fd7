"""Architectures of the state dicts beside the checkout: the three MTCNN nets and the small verification ResNet."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class PNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.pool1 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_2(x), self.conv4_1(x).softmax(1)


class RNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.dense5_2 = nn.Linear(128, 2), nn.Linear(128, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.pool(self.prelu1(self.conv1(x)))
        x = self.pool(self.prelu2(self.conv2(x)))
        x = self.prelu3(self.conv3(x)).permute(0, 3, 2, 1).contiguous()
        x = self.prelu4(self.dense4(x.view(x.shape[0], -1)))
        return self.dense5_2(x), self.dense5_1(x).softmax(1)


class ONet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.wide, self.narrow = nn.MaxPool2d(3, 2, ceil_mode=True), nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2, self.dense6_3 = nn.Linear(256, 2), nn.Linear(256, 4), nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.wide(self.prelu1(self.conv1(x)))
        x = self.wide(self.prelu2(self.conv2(x)))
        x = self.narrow(self.prelu3(self.conv3(x)))
        x = self.prelu4(self.conv4(x)).permute(0, 3, 2, 1).contiguous()
        x = self.prelu5(self.dense5(x.view(x.shape[0], -1)))
        return self.dense6_2(x), self.dense6_3(x), self.dense6_1(x).softmax(1)


class _Block(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(c_in, c_out, 3, stride, 1), nn.Conv2d(c_out, c_out, 3, 1, 1)
        self.shortcut = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride)) if stride > 1 else nn.Sequential()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.conv2(functional.relu(self.conv1(x))) + self.shortcut(x))


class ResNet2b(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1)
        self.layer1 = nn.Sequential(_Block(8, 16, 2), _Block(16, 16, 1))
        self.linear1, self.linear2 = nn.Linear(1024, 100), nn.Linear(100, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer1(functional.relu(self.conv1(x)))
        return self.linear2(functional.relu(self.linear1(x.flatten(1))))
