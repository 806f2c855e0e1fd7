"""The diameter of the set of outputs: attained where it is known, never below the distance of two outputs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import lipaudit


class Two(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tanh(3 * x), x.softmax(-1)


class Gated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * x).softmax(-1).flatten(1)


LINEAR = nn.Linear(4, 3)
CASES = {
    "probabilities": (nn.Sequential(LINEAR, nn.Softmax(-1)), (1, 4), math.sqrt(2)),
    "rows of probabilities, flattened": (Gated(), (1, 5, 4), math.sqrt(10)),
    "one probability": (nn.Softmax(-1), (1, 5, 1), None),
    "gates": (nn.Sequential(LINEAR, nn.Sigmoid()), (1, 4), math.sqrt(3)),
    "clamped": (nn.Sequential(LINEAR, nn.ReLU6()), (1, 4), 6 * math.sqrt(3)),
    "a normalisation and a layer": (nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)), (1, 4), None),
    "two outputs": (Two(), (1, 4), math.sqrt(2 + 16)),
}


@pytest.mark.parametrize("name", CASES)
def test_no_two_outputs_are_further_apart(name: str) -> None:
    net, shape, known = CASES[name]
    found = lipaudit.audit(
        net.eval(), {"x" if isinstance(net, Two | Gated) else "input": shape}
    ).network.output_diameter
    assert found is not None
    if known is not None:
        assert known <= found <= known * (1 + 1e-9)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        outputs = []
        for size in (1.0, 100.0, 1e4):
            for _ in range(30):
                y = net(size * torch.randn(shape, generator=generator))
                outputs.append(torch.cat([part.flatten() for part in (y if isinstance(y, tuple) else (y,))]).double())
    stacked = torch.stack(outputs)
    assert float(torch.cdist(stacked, stacked).max()) <= found * (1 + 1e-6)


def test_unbounded_outputs_have_none_and_a_structure_has_none() -> None:
    assert lipaudit.audit(nn.Linear(4, 3), (1, 4)).network.output_diameter is None
    net = nn.Sequential(LINEAR, nn.Softmax(-1)).eval()
    assert lipaudit.audit(net, {"input": (1, 4)}, structure=True).network.output_diameter is None
    assert lipaudit.audit(net, {"input": (1, 4)}, method="gouk2021").network.output_diameter is None
