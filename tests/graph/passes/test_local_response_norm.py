"""Local response normalisation has a bound over all inputs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.local_response_norm import RESPONSE_NORM
from lipaudit.graph.passes.table import recognise

NORMS = [
    (nn.LocalResponseNorm(5, alpha=2.0, beta=0.75, k=2.0), (1, 6, 2, 2)),
    (nn.LocalResponseNorm(3, alpha=0.5, beta=1.5, k=0.5), (1, 6, 2)),
    (nn.LocalResponseNorm(4, alpha=10.0, beta=0.5, k=1.0), (1, 5, 2, 1)),
    (nn.LocalResponseNorm(9, alpha=3.0, beta=1.0, k=1.0), (1, 4, 2)),
]


@pytest.mark.parametrize(("module", "shape"), NORMS)
def test_no_jacobian_exceeds_the_bound(module: nn.Module, shape: tuple[int, ...]) -> None:
    network = lipaudit.audit(module, input_shape=shape).network
    assert (network.status, network.rigor) == ("finite", "certified")
    assert network.upper_bound is not None
    generator, found = torch.Generator().manual_seed(0), 0.0
    for exponent in torch.linspace(-2, 2, 60, dtype=torch.float64):
        x = 10**exponent * torch.randn(shape, generator=generator, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(module, x).reshape(x.numel(), -1)
        found = max(found, float(torch.linalg.svdvals(jacobian)[0]))
    assert network.upper_bound / 4 <= found <= network.upper_bound


@pytest.mark.parametrize(("module", "shape"), NORMS)
def test_recognised_and_equal_in_value(module: nn.Module, shape: tuple[int, ...]) -> None:
    graph = capture(module, {"x": torch.zeros(shape)})
    found = recognise(graph)
    assert [n.op for n in found][1:] == [RESPONSE_NORM]
    x = {"x": torch.randn(shape, generator=torch.Generator().manual_seed(1))}
    for dtype in (None, torch.float64):
        (before,), (after,) = (list(interpret(g, x, dtype=dtype).values()) for g in (graph, found))
        torch.testing.assert_close(before, after)


def test_windows_without_the_channel_itself_are_no_response_norm() -> None:
    class Shifted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            padded = nn.functional.pad((x * x).unsqueeze(1), (0, 0, 3, -1))
            return x / (nn.functional.avg_pool2d(padded, (3, 1), 1).squeeze(1) * 0.5 + 1.0) ** 0.75

    graph = recognise(capture(Shifted(), {"x": torch.zeros(1, 6, 4)}))
    assert RESPONSE_NORM not in {n.op for n in graph}
