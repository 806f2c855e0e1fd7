"""Conformance cases of functions of the size of rows as the graph recognises them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.radial import RADIAL, Radial
from lipaudit.graph.passes.table import recognise
from tests.nodes import data
from tests.rules.ops.cases import case


def _recognised(function: Callable[[torch.Tensor], torch.Tensor]) -> Radial:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    graph = recognise(capture(Net(), {"x": torch.zeros(2, 4, dtype=torch.float64)}))
    (payload,) = [node.payload for node in graph if node.op == RADIAL]
    assert isinstance(payload, Radial)
    return payload


for _function in (
    lambda x: x / (1 + x.square().sum(1, keepdim=True)),
    lambda x: torch.exp(-x.square().sum(1)),
    lambda x: 1 / torch.sqrt(x.square().mean(1, keepdim=True) + 0.5),
):
    case(RADIAL, self=data(2, 4), function=_function, payload=_recognised(_function))
