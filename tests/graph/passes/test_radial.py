"""Functions of the size of rows, and softmax written out."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.radial import RADIAL
from lipaudit.graph.passes.table import recognise, simplify
from tests.graph.networks import OfOneInput

SHAPE = (1, 3, 5)
Function = Callable[[Tensor], Tensor]


def norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def squash(x: Tensor, eps: float = 0.0) -> Tensor:
    square = (x**2).sum(-1, keepdim=True)
    return square / (1 + square) * x / torch.sqrt(square + eps)


# functions and closed forms of the constant: the steepest slope of the length of a row
FORMS: dict[str, tuple[Function, float]] = {
    "squash": (squash, 3 * math.sqrt(3) / 8),
    "squash with an epsilon": (lambda x: squash(x, 1e-8), 3 * math.sqrt(3) / 8),
    "squash by norms": (lambda x: (n := norm(x)) ** 2 / (1 + n**2) * (x / (n + 1e-8)), 3 * math.sqrt(3) / 8),
    "squash by an exponential": (lambda x: (1 - 1 / torch.exp(norm(x))) * (x / norm(x)), 1.0),
    "1 / sqrt(mean)": (
        lambda x: 1 / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 0.01), 2 / (3 * math.sqrt(15) * 0.01),
    ),
    "rsqrt of a mean": (lambda x: torch.rsqrt(x.pow(2).mean(-1) + 0.01), 2 / (3 * math.sqrt(15) * 0.01)),
    "x / (1 + |x|)^2": (lambda x: x / (1 + norm(x)) ** 2, 1.0),
    "bell of the norm": (lambda x: torch.exp(-x.pow(2).sum(-1)), math.sqrt(2 / math.e)),
    "log(1 + |x|^2)": (lambda x: torch.log(1 + x.pow(2).sum(-1)), 1.0),
    "centred": (lambda x: (z := x - x.mean(-1, keepdim=True)) / (1 + z.pow(2).sum(-1, keepdim=True)), 1.0),
    "by the variance": (lambda x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 0.1), 10.0),
    "tanh of the norm": (lambda x: x * torch.tanh(norm(x)) / norm(x), 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_constants(name: str) -> None:
    function, constant = FORMS[name]
    network = lipaudit.audit(OfOneInput(function), input_shape={"x": SHAPE}).network
    assert network.rigor == "certified"
    assert constant * (1 - 1e-7) <= (network.upper_bound or 0) <= constant * (1 + 1e-6)
    generator, found = torch.Generator().manual_seed(1), 0.0
    for length in torch.logspace(-3, 2, 60, dtype=torch.float64):
        z = torch.randn(SHAPE, generator=generator, dtype=torch.float64)
        z = length * z / norm(z)
        jacobian = torch.autograd.functional.jacobian(function, z).reshape(-1, z.numel())
        found = max(found, float(torch.linalg.svdvals(jacobian)[0]))
    assert 0.5 * constant <= found <= constant * (1 + 1e-9)


@pytest.mark.parametrize("name", FORMS)
def test_recognised_and_equal_in_value(name: str) -> None:
    graph = capture(OfOneInput(FORMS[name][0]), {"x": torch.zeros(SHAPE)})
    found = recognise(graph)
    assert [n.op for n in found][1:] == [RADIAL]
    x = {"x": torch.randn(SHAPE, generator=torch.Generator().manual_seed(2))}
    for dtype in (None, torch.float64):
        (before,), (after,) = (list(interpret(g, x, dtype=dtype).values()) for g in (graph, found))
        torch.testing.assert_close(before, after)


OTHERS: dict[str, Function] = {
    "jumps at 0": lambda x: x / norm(x),
    "grows": lambda x: x * norm(x),
    "rows of another axis": lambda x: (
        x / (1 + torch.linalg.vector_norm(x, dim=1, keepdim=True)) * norm(x) / (1 + norm(x))
    ),
    "over the batch": lambda x: x / (1 + torch.linalg.vector_norm(x, dim=0, keepdim=True)),
    "of another tensor": lambda x: x.flip(1) / (1 + norm(x)),
    "square": lambda x: x.square().sum(-1),
    "a constant for each row": lambda x: x / (torch.ones(3, 1) + torch.arange(3.0)[:, None] + norm(x)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays(name: str) -> None:
    graph = simplify(capture(OfOneInput(OTHERS[name]), {"x": torch.zeros(SHAPE)}))
    assert graph.outputs[0] not in {n.name for n in graph if n.op == RADIAL}


SOFTMAX: dict[str, Function] = {
    "plain": lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True),
    "once": lambda x: (e := x.exp()) / e.sum(-1, keepdim=True),
    "without overflow": lambda x: (e := (x - x.amax(-1, keepdim=True)).exp()) / e.sum(-1, keepdim=True),
    "by max": lambda x: (e := (x - x.max(1, keepdim=True).values).exp()) / e.sum(1, keepdim=True),
    "unsqueezed": lambda x: (e := x.exp()) / e.sum(1).unsqueeze(1),
    "reciprocal": lambda x: (e := x.exp()) * e.sum(-1, keepdim=True).reciprocal(),
}


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax(name: str) -> None:
    module = OfOneInput(SOFTMAX[name])
    found = recognise(graph := capture(module, {"x": torch.zeros(SHAPE)}))
    assert [n.op for n in found][1:] == ["aten.softmax.int"]
    x = {"x": torch.randn(SHAPE, generator=torch.Generator().manual_seed(2))}
    (before,), (after,) = (list(interpret(g, x).values()) for g in (graph, found))
    torch.testing.assert_close(before, after)
    assert lipaudit.audit(module, input_shape={"x": SHAPE}).network.upper_bound == pytest.approx(0.5)


NO_SOFTMAX: dict[str, Function] = {
    "another axis": lambda x: (e := x.exp()) / e.sum(1).unsqueeze(-1).mean(1, keepdim=True),
    "an epsilon": lambda x: (e := x.exp()) / (e.sum(-1, keepdim=True) + 1),
    "another exponential": lambda x: x.exp() / (2 * x).exp().sum(-1, keepdim=True),
    "two axes": lambda x: (e := x.exp()) / e.sum((1, 2), keepdim=True),
    "a shift that varies": lambda x: (x - x.mean(1, keepdim=True)).exp() / x.exp().sum(-1, keepdim=True),
}


@pytest.mark.parametrize("name", NO_SOFTMAX)
def test_what_is_no_softmax(name: str) -> None:
    assert "aten.softmax.int" not in {
        n.op for n in recognise(capture(OfOneInput(NO_SOFTMAX[name]), {"x": torch.zeros(SHAPE)}))
    }
