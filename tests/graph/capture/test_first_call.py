"""A network that keeps in its first call what it reads in the next ones is captured as it is then."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from lipaudit.errors import CaptureError
from lipaudit.graph.capture.export import capture
from lipaudit.graph.capture.first_call import called_once


class Normed(nn.Module):
    """A matrix divided by its norm, which the first call in evaluation mode finds; channels are appended in place."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("norm", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.zeros(len(x), 6)
        wide[:, :4] = x
        if self.norm == 0:
            self.norm += torch.linalg.matrix_norm(self.weight.detach(), 2)
        return functional.linear(wide, self.weight) / self.norm


class Counting(nn.Module):
    """Another function at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls if self.calls > 0 else x


class Rewriting(nn.Module):
    """It reads a number and overwrites it by way of a view."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(1, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = 2.0 if self.state[0, 0] > 0 else 3.0
        self.state.reshape(-1)[0] += 1
        return factor * x


def test_it_is_captured_and_left_as_it_was() -> None:
    torch.manual_seed(0)
    net = Normed().eval()
    figure = lipaudit.audit(net, input_shape={"x": (1, 4)}, effort="none").network
    part = net.weight.detach().double()[:, :4]
    constant = float(torch.linalg.matrix_norm(part, 2) / torch.linalg.matrix_norm(net.weight.detach().double(), 2))
    assert constant <= figure.upper_bound <= 1.001
    assert figure.rigor == "numerical"  # the norm is no stored number
    assert float(net.norm) == 0


def test_what_was_computed_is_told_from_what_is_stored() -> None:
    net = Normed().eval()
    with called_once(net, {"x": torch.zeros(1, 4)}, None) as computed:
        assert computed.changed
        assert "norm" in computed
        assert "weight" not in computed


@pytest.mark.parametrize("net", [Counting(), Rewriting()])
def test_another_function_at_every_call_is_refused(net: nn.Module) -> None:
    with pytest.raises(CaptureError):
        capture(net.eval(), {"x": torch.zeros(1, 4)})
