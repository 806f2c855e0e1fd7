"""Conformance cases of compositions of element-wise operations as the graph recognises them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.elementwise import ELEMENTWISE, Elementwise
from lipaudit.graph.passes.table import recognise
from tests.nodes import data
from tests.rules.ops.cases import case, unbounded


def _recognised(function: Callable[[torch.Tensor], torch.Tensor]) -> Elementwise:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    graph = recognise(capture(Net(), {"x": torch.zeros(1, 4, dtype=torch.float64)}))
    (payload,) = [node.payload for node in graph if node.op == ELEMENTWISE]
    assert isinstance(payload, Elementwise)
    return payload


PER_CHANNEL = torch.tensor([0.5, 1.0, 2.0, 4.0], dtype=torch.float64)
_functions: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[float, ...]]] = {
    "softsign": (lambda x: x / (1 + x.abs()), (0.0,)),
    "x / sqrt(1 + x^2)": (lambda x: x / torch.sqrt(1 + x * x), (0.0,)),
    "where": (lambda x: torch.where(x > 1, x, 3 * x - 2), (0.0,)),
    "sinh of atan": (lambda x: torch.sinh(torch.atan(x)), (0.9, 0.0)),
    "per channel": (lambda x: x / (1 + PER_CHANNEL * x.abs()), (0.0,)),
}
for function, at in _functions.values():
    case(ELEMENTWISE, self=data(1, 4), function=function, payload=_recognised(function), at=at)
unbounded(ELEMENTWISE, self=data(1, 4), function=lambda x: x * (x > 1), payload=_recognised(lambda x: x * (x > 1)))
