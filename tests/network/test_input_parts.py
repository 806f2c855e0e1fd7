"""Constants in disjoint parts of the input: several inputs and selections of one, against the exact norm of linear networks."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.node import Graph, Node, Ref, TensorInfo
from lipaudit.network.input_parts import disjoint_parts
from lipaudit.network.propagate import propagate
from lipaudit.rules.effect import Effect

ROW = TensorInfo((1, 4), torch.float32)
Forward = Callable[[torch.Tensor], torch.Tensor]


class Net(nn.Module):
    """A function of one input as a network, with a little matrix of its own."""

    def __init__(self, function: Forward) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def exact(function: Forward, shape: tuple[int, ...]) -> float:
    """The norm of a linear function, from its matrix."""
    x = torch.zeros(shape, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(function, x)
    return float(torch.linalg.matrix_norm(jacobian.reshape(-1, x.numel()), 2))


# each adds selections of its input with weights, so that the root of the sum of their squares is the exact norm
EXACT: dict[str, Forward] = {
    "select": lambda x: 3 * x[:, 0] + 4 * x[:, 1],
    "slices": lambda x: 3 * x[:, :2] + 4 * x[:, 2:],
    "strided slices": lambda x: 3 * x[:, ::2] - 4 * x[:, 1::2],
    "split": lambda x: torch.add(*x.split([2, 2], 1)),
    "chunks of a transposed input": lambda x: torch.sub(*x.transpose(1, 2).chunk(2, 2), alpha=2),
    "unbind": lambda x: sum((i + 1) * part for i, part in enumerate(x.unbind(1))),  # type: ignore[misc]
    "a slice of a slice": lambda x: 3 * x[:, :3][:, :1] + 4 * x[:, 3:],
    "one part twice": lambda x: x[:, 0] + x[:, 1] + x[:, 1],
    "picked by index": lambda x: x[:, torch.tensor([0, 2])] + 2 * x[:, torch.tensor([3, 1])],
    "a view": lambda x: 3 * x.reshape(1, 12)[:, :5] + 4 * x.reshape(1, 12)[:, 7:],
}


@pytest.mark.parametrize("name", EXACT)
def test_the_sum_of_disjoint_selections_has_its_exact_norm(name: str) -> None:
    shape = (1, 4, 3)
    found = lipaudit.audit(Net(EXACT[name]), input_shape={"x": shape}).network
    assert found.upper_bound == pytest.approx(exact(EXACT[name], shape), rel=1e-6)


# selections with entries in common are one part
OVERLAPPING: dict[str, Forward] = {
    "slices": lambda x: x[:, :3] + x[:, 1:],
    "a slice and everything": lambda x: x + x[:, :1],
    "rows and columns": lambda x: x[:, 0].sum(1) + x[:, :, 0].sum(1),
    "three in a row": lambda x: x[:, :2] + x[:, 1:3] + x[:, 2:],
    "the same twice": lambda x: x[:, :2] + x[:, :2],
    "repeated by index": lambda x: x[:, torch.tensor([0, 0])] + x[:, torch.tensor([0, 1])],
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_overlapping_selections_are_bounded_from_above(name: str) -> None:
    shape = (1, 4, 3)
    found = lipaudit.audit(Net(OVERLAPPING[name]), input_shape={"x": shape}).network
    assert found.upper_bound is not None
    assert found.upper_bound >= exact(OVERLAPPING[name], shape) * (1 - 1e-12)


def test_several_inputs_are_parts_and_layers_behind_their_sum_gain_from_it() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(3))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            a, b, c = self.layers
            z: torch.Tensor = c(torch.relu(a(x) + b(y)))
            return z + x

    torch.manual_seed(0)
    net = Sum()
    a, b, c = (float(torch.linalg.matrix_norm(layer.weight.detach(), 2)) for layer in net.layers)
    found = lipaudit.audit(net, input_shape={"x": (1, 4), "y": (1, 4)}, tol=1e-6)
    assert found.network.upper_bound == pytest.approx(math.hypot(c * a + 1, c * b), rel=1e-5)
    shares = [row.share for row in found.layers if row.op == "linear"]
    assert len(shares) == 3


def graph() -> Graph:
    """sum(a(x), b(y)) behind c, and a(x) as a second output."""
    nodes = [Node(name, "input", {}, (ROW,)) for name in ("x", "y")]
    for name, sources in {"a": "x", "b": "y", "sum": "ab", "c": ["sum"]}.items():
        nodes.append(Node(name, "op", {f"a{i}": Ref(s, ROW) for i, s in enumerate(sources)}, (ROW,)))
    return Graph(tuple(nodes), ("x", "y"), ("c", "a"))


@pytest.mark.parametrize("name", ["a", "b", "sum", "c"])
def test_elasticities_are_the_derivatives_of_the_figure(name: str) -> None:
    effects = {
        "a": Effect.stretch(3.0),
        "b": Effect.stretch(5.0),
        "sum": Effect.stretch(1.0, 1.0),
        "c": Effect.stretch(2.0),
    }
    found = propagate(graph(), effects)
    assert math.exp(found.network.log_upper) == pytest.approx(math.sqrt(4 * (9 + 25) + 9), rel=1e-12)
    step = 1e-5
    factors = [math.exp(f.log_upper + step) for f in effects[name].factors]
    moved = propagate(graph(), effects | {name: Effect.stretch(*factors)})
    slope = (moved.network.log_upper - found.network.log_upper) / step
    assert found.elasticities[name] == pytest.approx(slope, rel=1e-3)


def test_one_input_that_is_read_as_a_whole_has_no_parts() -> None:
    whole = Graph((Node("x", "input", {}, (ROW,)), Node("a", "op", {"s": Ref("x", ROW)}, (ROW,))), ("x",), ("a",))
    assert disjoint_parts(whole) == ()
    assert len(disjoint_parts(graph())) == 2
