"""The convolution layers of a torchvision network with the input sizes that they see."""

from __future__ import annotations

from typing import Any

import torch
import torchvision
from torch import nn

from lipaudit.spectral.geometry import Convolution


def convolutions(name: str, size: int, device: str = "cpu", seed: int = 0) -> dict[str, Convolution]:
    """Every convolution of the network with random weights, by module path, kernels in float32 on the device."""
    torch.manual_seed(seed)
    network = torchvision.models.get_model(name, weights=None).eval()
    found: dict[str, Convolution] = {}

    def record(path: str) -> Any:
        def hook(module: nn.Conv2d, inputs: tuple[torch.Tensor, ...]) -> None:
            found[path] = Convolution.like_torch(
                module.weight.detach().to(device),
                tuple(inputs[0].shape[2:]),
                module.stride,
                module.padding,
                module.dilation,
                module.groups,
                module.padding_mode,
            )

        return hook

    for path, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_pre_hook(record(path))
    with torch.no_grad():
        network(torch.zeros(1, 3, size, size))
    return found
