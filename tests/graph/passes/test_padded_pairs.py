"""MaxMin of an odd number of channels: the same values, and the constant 1 where every channel is read once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.max_min_pairs import ORDERED_PAIRS
from lipaudit.graph.passes.table import recognise
from tests.graph.networks import OfOneInput

Function = Callable[[torch.Tensor], torch.Tensor]
SHAPE = (1, 5, 3, 2)


def ordered(x: torch.Tensor) -> torch.Tensor:
    y = x.view(1, x.shape[1] // 2, 2, *x.shape[2:])
    return torch.cat([y.amax(2, keepdim=True), y.amin(2, keepdim=True)], 2).view(x.shape)


def halves(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, 1)
    return torch.cat([torch.maximum(a, b), torch.minimum(a, b)], 1)


def replicated(x: torch.Tensor) -> torch.Tensor:
    return functional.pad(x, (0, 0, 0, 0, 0, 1), mode="replicate")


ONCE: dict[str, Function] = {
    "pairs": lambda x: ordered(replicated(x))[:, :-1],
    "a joined copy": lambda x: ordered(torch.cat([x, x[:, -1:]], 1))[:, :-1],
    "a joined copy of a view": lambda x: ordered(torch.cat([(y := x.view(1, 5, 2, 3)), y[:, 4:5]], 1))[:, :-1],
    "halves of channels in another order": lambda x: halves(x.index_select(1, torch.tensor([0, 1, 2, 3, 4, 2])))[:, :5],
}
OTHERS: dict[str, Function] = {
    "the copy stays": lambda x: ordered(replicated(x)),
    "a joined copy of the first": lambda x: ordered(torch.cat([x, x[:, :1]], 1))[:, :-1],
    "half a pair is cut": lambda x: ordered(replicated(x))[:, :-2],
    "a copy beside another channel": lambda x: halves(replicated(x))[:, :5],
    "along pixels": lambda x: ordered(functional.pad(x, (0, 0, 0, 0, 0, 1), mode="replicate"))[:, :, 1:],
}


@pytest.mark.parametrize("name", [*ONCE, *OTHERS])
def test_the_graph_computes_what_the_network_does(name: str) -> None:
    net = OfOneInput({**ONCE, **OTHERS}[name])
    graph = recognise(capture(net, {"x": torch.zeros(SHAPE)}))
    x = torch.randn(SHAPE)
    assert torch.equal(interpret(graph, {"x": x})[graph.outputs[0]], net(x))
    figure = lipaudit.audit(net, input_shape={"x": SHAPE}, effort="none").network
    steepest = 0.0
    for point in torch.randn(20, *SHAPE, dtype=torch.float64):
        jacobian = torch.autograd.functional.jacobian(net, point).reshape(-1, point.numel())
        steepest = max(steepest, float(torch.linalg.matrix_norm(jacobian, 2)))
    assert steepest <= figure.upper_bound * (1 + 1e-12)
    assert name not in ONCE or figure.upper_bound == pytest.approx(1.0)


def test_the_pairs_that_are_left_are_in_order() -> None:
    graph = recognise(capture(OfOneInput(ONCE["pairs"]), {"x": torch.zeros(SHAPE)}))
    (node,) = (node for node in graph if node.op == ORDERED_PAIRS)
    assert node.payload.pairs == ((0, 1), (2, 3))
    assert node.refs[0].name == graph.inputs[0]
