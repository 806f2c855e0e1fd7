"""Joins of pieces of one tensor count how often an entry is picked, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.table import recognise
from tests.graph.networks import OfOneInput

cat, stack = torch.cat, torch.stack

# The join and its constant.
JOINS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "the tensor itself": (lambda x: cat([x[:, :2], x[:, 2:]], 1), 1),
    "the tensor and its last entry": (lambda x: cat([x, x[:, -1:]], 1), math.sqrt(2)),
    "the tensor and two pieces": (lambda x: cat([x[:, :2], x, x[:, 1:3]], 1), math.sqrt(3)),
    "the tensor twice": (lambda x: cat([x, x], 1), math.sqrt(2)),
    "parts of a split": (lambda x: cat(x.split([1, 2, 3], 1), 1), 1),
    "parts in another order": (lambda x: cat([x.chunk(3, 1)[i] for i in (2, 0, 1)], 1), 1),
    "some parts": (lambda x: cat([x.chunk(3, 1)[i] for i in (2, 0)], 1), 1),
    "a part twice": (lambda x: cat([x.chunk(3, 1)[i] for i in (2, 0, 2)], 1), math.sqrt(2)),
    "parts that overlap": (lambda x: cat([x[:, :4], x[:, 2:]], 1), math.sqrt(2)),
    "even and odd": (lambda x: cat([x[:, ::2], x[:, 1::2]], 1), 1),
    "even and odd along another axis": (lambda x: cat([x[:, :, ::2], x[:, :, 1::2]], 1), 1),
    "stacked": (lambda x: stack([x[:, ::2], x[:, 1::2]], 1), 1),
    "stacked last": (lambda x: stack([x[:, ::2], x[:, 1::2]], -1), 1),
    "stacked before": (lambda x: stack([x[:, :, ::2], x[:, :, 1::2]], 0), 1),
    "single entries stacked": (lambda x: stack([x[:, 4], x[:, 0], x[:, 1]], 1), 1),
    "single entries stacked elsewhere": (lambda x: stack(x.unbind(2), 0), 1),
    "single entries joined": (lambda x: cat([x[:, 0], x[:, 3], x[:, 3]], 1), math.sqrt(2)),
    "pieces of pieces": (lambda x: cat([x[:, 1:][:, ::2], x[:, :5][:, ::2]], 1), 1),
    "along two axes": (lambda x: cat([x[:, :3, 1:], x[:, 3:, 1:]], 1), 1),
    "along two axes that both differ": (
        lambda x: cat([x[:, i::2, j::2] for j in (0, 1) for i in (1, 0)], 2), 1,
    ),
    "along two axes, stacked": (lambda x: stack([x[:, i::2, j::2] for j in (0, 1) for i in (1, 0)], 0), 1),
    "along two axes, some twice": (lambda x: cat([x[:, :3, :2], x[:, 3:, 2:], x[:, 2:5, 1:3]], 1), math.sqrt(2)),
    "single entries along two axes": (lambda x: stack([x[:, i, j] for i in (0, 4, 1) for j in (3, 0)], 1), 1),
    "one entry twice": (lambda x: stack([x[:, 1], x[:, 1]], 1), math.sqrt(2)),
    "narrow from the end": (lambda x: cat([x.narrow(1, -2, 2), x.narrow(1, 0, 4)], 1), 1),
    "narrow and slice": (lambda x: cat([x.narrow(1, 1, 2), x[:, 3:]], 1), 1),
    "whole slices": (lambda x: cat([x[:, :][:, :2], x[:, :, :][:, 2:]], 1), 1),
    "beside another tensor": (lambda x: cat([x[:, :2], x[:, 2:], x.sin()], 1), math.sqrt(2)),
    "stacked beside another tensor": (lambda x: stack([x[:, :3], x[:, 3:], x[:, :3].sin()], 1), math.sqrt(2)),
    "beside constants": (lambda x: cat([torch.ones(1, 1, 4), x[:, 3:], x[:, :3]], 1), 1),
    "stacked beside constants": (lambda x: stack([x[:, 0], x[:, 1], torch.ones(1, 4)], 0), 1),
    "of several tensors": (lambda x: cat([x[:, :3], x[:, 3:], (2 * x)[:, :3], (2 * x)[:, 3:]], 1), math.sqrt(5)),
    "across axes": (lambda x: cat([x[:, :3], x[:, 3:], x[:, :, :2].reshape(1, 3, 4)], 1), math.sqrt(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINS)
def test_the_constant_is_the_root_of_the_largest_count(name: str) -> None:
    function, constant = JOINS[name]
    network = OfOneInput(function)
    x = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(0))
    graph = recognise(capture(network, {"x": x}))
    assert torch.equal(interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]], function(x))
    bound = lipaudit.audit(network, input_shape={"x": (1, 6, 4)}).network.upper_bound
    zero = torch.zeros(1, 6, 4)
    jacobian = torch.autograd.functional.jacobian(function, zero).reshape(-1, 24).double()
    assert float(torch.linalg.matrix_norm(jacobian, 2)) <= bound * (1 + 1e-6)
    assert bound == pytest.approx(constant, rel=1e-9)


def test_other_joins_stay() -> None:
    for function in (
        lambda x: cat([x[:, :3], x[:, 3:].neg()], 1),
        lambda x: cat([x, x], 1),
        lambda x: cat([x[:, :3], x[:, :, :4].neg()], 1),
        lambda x: cat([x[:, :3].double(), x[:, 3:]], 1),
    ):
        network = OfOneInput(function)
        graph = recognise(capture(network, {"x": torch.zeros(1, 6, 4)}))
        assert not any(node.op == "aten.index_select.default" for node in graph)
