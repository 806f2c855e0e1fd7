import pytest
import torch
from torch import nn

from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.table import recognise


class Join(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def _recognised(function):
    x = torch.randn(1, 5, 6, generator=torch.Generator().manual_seed(0))
    graph = recognise(capture(Join(function).eval(), {"x": x}))
    found = interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]]
    assert torch.equal(found, function(x))
    return [node.op for node in graph if node.op != "input"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat([x[:, 2:], x[:, :2]], dim=1),
        lambda x: torch.cat([x[:, -3:], x[:, :-3]], dim=-2),
        lambda x: torch.cat([x[..., 1:], x[..., :1]], dim=2),
    ],
)
def test_the_end_before_the_beginning_is_a_shift(function):
    assert _recognised(function) == ["aten.roll.default"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cat([x[:, 2:], x[:, :3]], dim=1),  # one row twice
        lambda x: torch.cat([x[:, 3:], x[:, :2]], dim=1),  # one row missing
        lambda x: torch.cat([x[:, 1:], x[:, :4]], dim=1)[:, :5],  # rows twice
        lambda x: torch.cat([x[:, :3], x[:, 3:]], dim=1) * 2,  # the identity: no harm, but no shift either
        lambda x: torch.cat([x[:, 2:], x[:, :2].neg()], dim=1),
        lambda x: torch.cat([(2 * x)[:, 2:], x[:, :2]], dim=1),  # of two tensors
        lambda x: torch.cat([x[:, :, :5], x[:, :, 1:]], dim=1),  # cut along another axis
        lambda x: torch.cat([x[:, 1:], x[:, :1], x[:, :1]], dim=1),
    ],
)
def test_other_joins_stay(function):
    assert "aten.roll.default" not in _recognised(function)
