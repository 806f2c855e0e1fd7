"""Programs made functional without tracing them twice: where that is safe, and that it refuses where it is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from lipaudit.graph.capture.export import capture
from lipaudit.graph.capture.functional import _rename_in_place
from lipaudit.graph.evaluate import interpret


class Lambda(nn.Module):
    def __init__(self, function: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.conv, x)


def overwrite_a_slice(conv: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = conv(x)
    y[:, :1].mul_(0.0)
    return y


def read_before_and_after(conv: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = conv(x)
    z = functional.relu(y, inplace=True)
    return y + z


def through_dropout(conv: nn.Module, x: torch.Tensor) -> torch.Tensor:
    y = conv(x)
    z = functional.relu(functional.dropout(y, 0.5, training=False), inplace=True)
    return y + z


SAFE: list[Callable[[nn.Module, torch.Tensor], torch.Tensor]] = [
    lambda conv, x: functional.relu(conv(x), inplace=True),
    lambda conv, x: functional.silu(conv(x).add_(x), inplace=True),
    lambda conv, x: functional.hardtanh(conv(x) + x, 0.0, 1.0, inplace=True) * 2,
    lambda conv, x: conv(x).mul_(3.0).sub_(x),
]
UNSAFE = [
    overwrite_a_slice,
    read_before_and_after,
    through_dropout,
    lambda conv, x: functional.relu(x.clone().reshape(1, 2, -1), inplace=True),
    lambda conv, x: torch.stack([y.relu_() for y in conv(x).unbind(1)]),
    lambda conv, x: conv(x).zero_() + x,
]


@pytest.mark.parametrize(("function", "safe"), [(f, True) for f in SAFE] + [(f, False) for f in UNSAFE])
def test_the_functional_graph_computes_the_same(function: Callable[..., torch.Tensor], safe: bool) -> None:
    torch.manual_seed(0)
    module, x = Lambda(function).eval(), torch.randn(1, 2, 5, 5)
    with torch.no_grad():
        program = torch.export.export(module, (x,), strict=False)
    changed = _rename_in_place(program.graph)
    assert changed or not safe
    if function in (overwrite_a_slice, through_dropout):
        assert not changed
    graph = capture(module, {"x": x})
    assert not any(node.op.split(".")[1].endswith("_") for node in graph if node.op.startswith("aten."))
    with torch.no_grad():
        expected = module(x.clone())
    found = interpret(graph, {"x": x})[graph.outputs[0]]
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, expected)
