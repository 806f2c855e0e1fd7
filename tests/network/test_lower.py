"""The empirical lower bound: true on linear networks, below every certified bound, and without traces in the module."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.network.lower import jacobian_lower_bound


def test_linear_network_reaches_its_spectral_norm() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)).double()
    norm = float(torch.linalg.matrix_norm((net[1].weight @ net[0].weight).detach(), 2))
    found = jacobian_lower_bound(net, {"x": torch.zeros(1, 5, dtype=torch.float64)})
    assert norm * 0.95 <= found <= norm * (1 + 1e-9)


def test_several_inputs_and_outputs_count_as_one_vector() -> None:
    class Pair(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"sum": 3 * (a + b), "other": 4 * (a + b)}

    found = jacobian_lower_bound(Pair(), {"a": torch.zeros(1, 3), "b": torch.zeros(1, 3)})
    assert found == pytest.approx(5 * 2**0.5, rel=1e-3)


def test_steps_of_finite_length_leave_a_flat_region() -> None:
    class Dead(nn.Module):
        """Constant around the start, of slope 10 further out."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0.1 * x + 10 * torch.relu(x.abs() - 3.0)

    found = jacobian_lower_bound(Dead(), {"x": torch.full((1, 1), 2.9)})
    assert found == pytest.approx(10.1, rel=1e-3)


def test_module_is_left_as_it_was_and_result_is_repeatable() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5)).train()
    net[0].bias.requires_grad_(False)
    first = jacobian_lower_bound(net, {"x": torch.zeros(1, 1, 6, 6)}, seed=3)
    assert first == jacobian_lower_bound(net, {"x": torch.zeros(1, 1, 6, 6)}, seed=3)
    assert net.training
    assert net[3].training
    assert net[0].weight.requires_grad
    assert not net[0].bias.requires_grad
    assert net[0].weight.grad is None


def test_lower_bound_stays_below_the_certified_bound() -> None:
    torch.manual_seed(1)
    attention_free = nn.Sequential(nn.Conv2d(2, 6, 3, 2, 1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24, 5))
    report = lipaudit.audit(attention_free, input_shape=(2, 8, 8), lower_bound=True)
    assert 0 < report.network.lower_bound <= report.network.upper_bound
