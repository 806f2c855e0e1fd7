"""Layers of deel-torchlip and orthogonium as a user builds them."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import lipaudit


def bound_of(module: nn.Module, shape: tuple[int, ...]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.train()
        module(torch.randn(4, *shape[1:]))
        module.eval()(torch.randn(4, *shape[1:]))
        return lipaudit.audit(module, input_shape={"input": shape}).network.upper_bound


def test_a_network_of_deel_torchlip_before_and_after_its_export() -> None:
    torchlip = pytest.importorskip("deel.torchlip")
    torch.manual_seed(0)
    net = torchlip.Sequential(
        torchlip.SpectralConv2d(3, 8, 3, padding=1), torchlip.GroupSort2(), torchlip.modules.ScaledAvgPool2d(2),
        nn.Flatten(), torchlip.SpectralLinear(128, 16), torchlip.FullSort(), torchlip.FrobeniusLinear(16, 1),
    )  # fmt: skip
    before = bound_of(net, (1, 3, 8, 8))
    assert before <= 1.001
    assert bound_of(net.vanilla_export(), (1, 3, 8, 8)) == pytest.approx(before, rel=1e-3)


ORTHOGONIUM: dict[str, tuple[Callable[[object], nn.Module], tuple[int, ...], float]] = {
    "dense": (lambda layers: layers.OrthoLinear(16, 10), (1, 16), 1.0),
    "convolution": (lambda layers: layers.AdaptiveOrthoConv2d(4, 8, 3, padding=1), (1, 4, 8, 8), 1.0),
    "Householder": (lambda layers: nn.Sequential(layers.HouseHolder(4)), (1, 4, 8, 8), 2**-0.5),
    "Householder of order 2": (lambda layers: nn.Sequential(layers.HouseHolder_Order_2(4)), (1, 4, 8, 8), 2**-0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", ORTHOGONIUM)
def test_layers_of_orthogonium(name: str) -> None:
    package = pytest.importorskip("orthogonium.layers")
    make, shape, constant = ORTHOGONIUM[name]
    torch.manual_seed(0)
    assert bound_of(make(package), shape) <= constant * 1.0001
