"""Random numbers that a network draws while it computes its weights: refused, or held at one draw."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from lipaudit.errors import CaptureError, UsageError
from lipaudit.graph.capture.export import capture


class PowerIteration(nn.Module):
    """A weight divided by what a power iteration with a fresh start finds for its norm."""

    def __init__(self, steps: int = 2) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)))
        self.steps = steps

    def normalised(self) -> torch.Tensor:
        u = torch.randn(5)
        for _ in range(self.steps):
            v = functional.normalize(self.weight.T @ u, dim=0)
            u = functional.normalize(self.weight @ v, dim=0)
        return self.weight / (u @ self.weight @ v)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.normalised())


def test_by_default_the_network_has_no_bound_and_the_option_is_named() -> None:
    network = lipaudit.audit(PowerIteration(), input_shape={"x": (1, 4)}).network
    assert network.status == "unsupported"
    assert "random numbers" in network.reasons[0]
    assert "freeze" in network.reasons[0]


@pytest.mark.parametrize("seed", [0, 3])
def test_one_draw_is_audited_and_the_report_says_so(seed: int) -> None:
    net = PowerIteration()
    state = torch.random.get_rng_state()
    report = lipaudit.audit(net, input_shape={"x": (1, 4)}, freeze_random=seed, tol=1e-6)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(seed)
    norm = float(torch.linalg.matrix_norm(net.normalised().detach(), 2))
    torch.random.set_rng_state(state)
    assert report.settings.freeze_random == seed
    assert any(f"seed {seed}" in note for note in report.notes)
    assert report.network.rigor == "certified"
    assert report.network.upper_bound == pytest.approx(norm, rel=1e-5)
    again = lipaudit.audit(PowerIteration(), input_shape={"x": (1, 4)}, freeze_random=seed, tol=1e-6)
    assert again.network == report.network


def test_the_draw_is_that_of_the_module_with_this_seed() -> None:
    net = PowerIteration()
    graph = capture(net, {"x": torch.zeros(1, 4)}, freeze=7)
    (node,) = (n for n in graph if n.op == "aten.linear.default")
    torch.manual_seed(7)
    torch.testing.assert_close(node["weight"].value.float(), net.normalised().detach())  # type: ignore[union-attr]


def test_numbers_of_python_are_held_as_well() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (1 + random.random())

    bound = lipaudit.audit(Scaled(), input_shape={"x": (1, 4)}, freeze_random=5).network.upper_bound
    assert bound == pytest.approx(1 + random.Random(5).random(), rel=1e-6)


def test_draws_of_the_input_s_shape_stay_refused() -> None:
    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.rand_like(x)

    assert lipaudit.audit(Noisy(), input_shape={"x": (1, 4)}, freeze_random=5).network.status == "unsupported"


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, True])
def test_a_seed_is_a_whole_number(seed: object) -> None:
    with pytest.raises(UsageError, match="freeze_random"):
        lipaudit.audit(nn.ReLU(), input_shape={"input": (1, 3)}, freeze_random=seed)  # type: ignore[arg-type]


def test_without_a_seed_capture_refuses() -> None:
    with pytest.raises(CaptureError, match="freeze_random=SEED"):
        capture(PowerIteration(), {"x": torch.zeros(1, 4)})
