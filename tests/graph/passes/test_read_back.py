"""A part that is changed in place is read where it was written; another part is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.table import recognise


class Net(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function, self.bias = function, nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x * 1.0, self.bias)


def a_slice(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    z = x[:, 1:4]
    z += b
    return z


def slices_of_slices(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    z = x.reshape(1, 2, 3)[:, :, 1:][:, :-1]
    z += b[0]
    return z


def an_entry(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    z = x[:, -2]
    z += b[0]
    return z


def a_real_part(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    z = torch.fft.ifft(torch.fft.fft(x)).real[:, 1:-2]
    z += b
    return z


def another_part(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    z = x[:, 1:4]
    z += b
    return x[:, :3]


def another_step(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    z = x[:, ::2]
    z *= b
    return x[:, 1::2] + z


@pytest.mark.parametrize("function", [a_slice, slices_of_slices, an_entry, a_real_part, another_part, another_step])
def test_the_graph_computes_what_the_network_does(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    net, x = Net(function), torch.randn(1, 6)
    graph = recognise(capture(net, {"x": torch.zeros(1, 6)}))
    assert torch.allclose(interpret(graph, {"x": x})[graph.outputs[0]], net(x), atol=1e-6)


@pytest.mark.parametrize("function", [a_slice, slices_of_slices, an_entry, a_real_part])
def test_a_part_that_is_changed_in_place_counts_once(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    figure = lipaudit.audit(Net(function), input_shape={"x": (1, 6)}, effort="none").network
    assert figure.upper_bound == pytest.approx(1.0, abs=1e-6)
