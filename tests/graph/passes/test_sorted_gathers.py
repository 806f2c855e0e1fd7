"""Gathers by the places of a sort are sorts; gathers by other places have no rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.table import recognise
from tests.graph.networks import OfOneInput

Map = Callable[[torch.Tensor], torch.Tensor]

SORTS: dict[str, Map] = {
    "argsort": lambda x: x.gather(1, x.argsort(1)),
    "descending": lambda x: x.gather(2, x.argsort(2, descending=True)),
    "stable": lambda x: x.gather(-1, torch.argsort(x, dim=2, stable=True)),
    "of the negated": lambda x: x.gather(1, (-x).argsort(1)),
    "take along an axis": lambda x: torch.take_along_dim(x, x.argsort(-2), 1),
    "groups": lambda x: x.view(1, 2, 3, 4).gather(2, x.view(1, 2, 3, 4).argsort(2)).view(x.shape),
    "places of a sort": lambda x: x.gather(1, x.sort(1)[1]),
    "places of the largest": lambda x: x.gather(1, x.topk(2, 1)[1]),
    "place of the maximum": lambda x: x.gather(1, x.max(1, keepdim=True)[1]),
    "place of the median": lambda x: x.gather(2, x.median(2, keepdim=True)[1]),
}
OTHERS: dict[str, Map] = {
    "of another tensor": lambda x: x.gather(1, x.sin().argsort(1)),
    "of the size": lambda x: x.gather(1, x.abs().argsort(1)),
    "along another axis": lambda x: x.gather(1, x.argsort(2)),
    "of another scale": lambda x: (x * torch.arange(1.0, 5.0)).gather(2, x.argsort(2)),
    "negated places of the largest": lambda x: x.gather(1, (-x).topk(2, 1)[1]),
}


@pytest.mark.parametrize("name", [*SORTS, *OTHERS])
def test_values_and_constants(name: str) -> None:
    function = {**SORTS, **OTHERS}[name]
    x = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(0))
    graph = recognise(capture(OfOneInput(function), {"x": torch.zeros(1, 6, 4)}))
    for point in (x, x.round()):
        assert torch.equal(interpret(graph, {graph.inputs[0]: point})[graph.outputs[0]], function(point))
    figure = lipaudit.audit(OfOneInput(function), input_shape={"x": (1, 6, 4)}, effort="none").network
    if name in SORTS:
        assert figure.upper_bound == 1
    else:
        assert figure.status != "finite"
