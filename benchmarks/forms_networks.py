"""The networks of :mod:`benchmarks.forms_large`, with weights from a folder where it has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from tests.models.cifar_resnet20 import Block

Shape = tuple[int, ...]
RESNET20 = "cifar_resnet/resnet20-12fca82f.th"


class CifarResNet(nn.Module):
    """He et al., *Deep Residual Learning for Image Recognition*, section 4.2, of depth 6 n + 2."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16, 1) for _ in range(n)])
        self.layer2 = nn.Sequential(Block(16, 32, 2), *[Block(32, 32, 1) for _ in range(n - 1)])
        self.layer3 = nn.Sequential(Block(32, 64, 2), *[Block(64, 64, 1) for _ in range(n - 1)])
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        x = self.layer3(self.layer2(self.layer1(functional.relu(self.bn1(self.conv1(x))))))
        return self.linear(functional.avg_pool2d(x, x.shape[-1]).flatten(1))


def cifar_resnet(depth: int) -> Callable[[Path], tuple[nn.Module, Shape]]:
    """A CIFAR ResNet, random but for depth 20."""

    def build(weights: Path) -> tuple[nn.Module, Shape]:
        network = CifarResNet((depth - 2) // 6)
        if depth == 20:
            state: Mapping[str, torch.Tensor] = torch.load(weights / RESNET20, map_location="cpu", weights_only=True)[
                "state_dict"
            ]
            network.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
        return network, (3, 32, 32)

    return build


def imagenet(name: str) -> Callable[[Path], tuple[nn.Module, Shape]]:
    """A network of torchvision or timm for 224 pixels, with the weights of a file if it is there."""

    def build(weights: Path) -> tuple[nn.Module, Shape]:
        network = _made(name)
        path = weights / f"{name}.pth"
        if path.exists():
            state = torch.load(path, map_location="cpu", weights_only=True)
            network.load_state_dict(state if state.keys() == network.state_dict().keys() else _renamed(state, network))
        return network, (3, 224, 224)

    return build


def _renamed(state: Mapping[str, torch.Tensor], network: nn.Module) -> dict[str, torch.Tensor]:
    """Weights under the names of a network that has the same layers in the same order, as timm's and efficientnet_lite_pytorch's."""
    names, values = list(network.state_dict()), list(state.values())
    shapes = [value.shape for value in network.state_dict().values()]
    if shapes != [value.shape for value in values]:
        raise ValueError("the weights are those of another network")
    return dict(zip(names, values, strict=True))


def _made(name: str) -> nn.Module:
    if name == "efficientnet_lite0":
        import timm

        return timm.create_model(f"tf_{name}")  # type: ignore[no-any-return]
    import torchvision

    return torchvision.models.get_model(name)  # type: ignore[no-any-return]


NETWORKS: dict[str, Callable[[Path], tuple[nn.Module, Shape]]] = {
    **{f"resnet{depth}_cifar": cifar_resnet(depth) for depth in (20, 32, 44, 56)},
    **{name: imagenet(name) for name in ("mobilenet_v2", "efficientnet_lite0", "resnet50")},
}
