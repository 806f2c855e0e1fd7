"""What reads only the shape of the input is a constant, and operations on constants are no operations of the network."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.table import simplify
from tests.graph.networks import Function

X = {"x": torch.zeros(1, 2, 4, 4, dtype=torch.float64)}


def _grid(x: torch.Tensor) -> torch.Tensor:
    rows, columns = (torch.arange(x.shape[axis]).type_as(x) + 0.5 for axis in (2, 3))
    return x + torch.stack(torch.meshgrid(rows, columns, indexing="ij")).sum(0)


def _written(x: torch.Tensor) -> torch.Tensor:
    canvas = torch.zeros_like(x)
    canvas[:, 1:] = 1.0
    canvas[:, :1] = 4 * x[:, :1]
    return canvas


def _zeroed(x: torch.Tensor) -> torch.Tensor:
    y = 3 * x
    y[:, 0] = 0
    return y


def _copied(x: torch.Tensor) -> torch.Tensor:
    y = 3 * x
    y[:, 0].copy_(torch.arange(4.0))
    return y


FOLDED: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "grids of a detector": (_grid, 1.0),
    "an empty canvas": (_written, 4.0),
    "a channel set to zero": (_zeroed, 3.0),
    "a channel overwritten by a constant": (_copied, 3.0),
    "expanded to another's shape": (lambda x: x + torch.ones(4, dtype=x.dtype).expand_as(x).cumsum(-1).sign(), 1.0),
    "filled anew": (lambda x: x + torch.empty_like(x).fill_(2.0).floor(), 1.0),
    "a tensor in the dtype of another": (lambda x: x + torch.arange(4).to(x).round(), 1.0),
    "new_full": (lambda x: x * x.new_full((4,), 2.0).floor(), 2.0),
    "a viewed constant": (lambda x: x + torch.arange(32.0).view_as(x).floor(), 1.0),
}


@pytest.mark.parametrize("name", FOLDED)
def test_what_reads_no_value_is_folded(name: str) -> None:
    forward, constant = FOLDED[name]
    report = lipaudit.audit(Function(lambda _, x: forward(x)).eval(), input_shape={"input": (1, 2, 4, 4)})
    assert report.network.status == "finite"
    assert report.network.upper_bound is not None
    assert constant <= report.network.upper_bound <= constant * 1.001


def test_a_filled_tensor_is_no_operation() -> None:
    graph = simplify(capture(Function(lambda _, x: x + torch.zeros_like(x).fill_(3.0)), X))
    assert [node.op for node in graph] == ["input"]


@pytest.mark.parametrize("read", [torch.sign, lambda x: torch.arange(4.0).double() + x.sign()])
def test_what_reads_a_value_stays(read: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert len(capture(Function(lambda _, x: x + read(x)), X)) > 2
