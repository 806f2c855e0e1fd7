"""Divisions by sums of known value, and near misses that stay divisions by data."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.node import Ref
from lipaudit.graph.passes.table import recognise


class Mixture(nn.Module):
    def __init__(self, function: Callable[[nn.Module, torch.Tensor], torch.Tensor], keep: bool) -> None:
        super().__init__()
        self.keep = keep
        self.gate = nn.Parameter(torch.tensor([0.3, -2.0]).reshape(1, 2, 1, 1))
        self.weights = nn.Parameter(torch.rand(1, 2, 4, 4).softmax(-1))
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.function(self, x)
        if self.keep:
            return a / a.sum(dim=-1, keepdim=True)
        return a / a.sum(dim=-1).unsqueeze(-1)


def mixed(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    gate = torch.sigmoid(net.gate)  # type: ignore[operator, arg-type]
    return (1 - gate) * x.softmax(-1) + gate * net.weights  # type: ignore[operator]


KNOWN = [
    mixed,
    lambda net, x: 2 * x.softmax(-1),
    lambda net, x: x.softmax(-1) - 0.5 * net.weights,
    lambda net, x: x.softmax(-1) + net.gate.abs(),
]
UNKNOWN: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
    lambda net, x: x.softmax(-2),
    lambda net, x: x.exp() + 1,
    lambda net, x: x.softmax(-1) * net.weights,
    lambda net, x: x.softmax(-1) + x.sigmoid(),
    lambda net, x: x.softmax(-1).square(),
    lambda net, x: (3 * (50 * x).softmax(-1) + 1).to(torch.int64),
    lambda net, x: x.softmax(-1) - net.weights,
]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(("function", "known"), [(f, True) for f in KNOWN] + [(f, False) for f in UNKNOWN])
def test_divisors(function: Callable[[nn.Module, torch.Tensor], torch.Tensor], known: bool, keep: bool) -> None:
    torch.manual_seed(0)
    net, x = Mixture(function, keep).eval(), torch.randn(1, 2, 4, 4)
    graph = recognise(capture(net, {"x": x}))
    divisions = [n for n in graph if n.op.startswith("aten.div")]
    assert [isinstance(n["other"], Ref) for n in divisions] == [not known]
    found = interpret(graph, {"x": x}, dtype=torch.float64)[graph.outputs[0]]
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, net.double()(x.double()), atol=1e-9, rtol=1e-6)
