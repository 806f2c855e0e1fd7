"""Conformance cases of norms and means of powers as the graph recognises them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.power_means import POWER_MEAN, PowerMean
from lipaudit.graph.passes.table import recognise
from tests.nodes import data
from tests.rules.ops.cases import case


def _recognised(function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]) -> PowerMean:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    graph = recognise(capture(Net(), {"x": torch.zeros(shape, dtype=torch.float64)}))
    (payload,) = [node.payload for node in graph if node.op == POWER_MEAN]
    assert isinstance(payload, PowerMean)
    return payload


for _function, _shape in (
    (lambda x: torch.sqrt((x**2).sum(1) + 1e-9), (1, 3, 4)),
    (lambda x: torch.sqrt(x[:, 0] ** 2 + x[:, 1] ** 2), (1, 2, 4)),
    (lambda x: torch.sqrt(torch.nn.functional.avg_pool1d(x.square(), 2) * 2), (1, 3, 4)),
    (lambda x: torch.nn.functional.lp_pool1d(x, 4, 2), (1, 3, 4)),
):
    case(POWER_MEAN, tensors=(data(*_shape),), function=_function, payload=_recognised(_function, _shape))
