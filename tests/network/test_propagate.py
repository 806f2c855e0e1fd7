"""Propagation: composition, sums, concatenation, several outputs, statuses, and the shares of layers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.node import Graph, Node, Ref, TensorInfo
from lipaudit.network.propagate import propagate
from lipaudit.rules.effect import Combination, Effect, Status
from lipaudit.spectral.bracket import Bracket, Rigor

INFO = TensorInfo((1, 2), torch.float32)


def graph(edges: Mapping[str, tuple[str, ...]], outputs: tuple[str, ...]) -> Graph:
    nodes = [Node("x", "input", {}, (INFO,))]
    for name, sources in edges.items():
        arguments = {f"a{i}": Ref(source, INFO) for i, source in enumerate(sources)}
        nodes.append(Node(name, "op", arguments, (INFO,)))
    return Graph(tuple(nodes), ("x",), outputs)


def bound(g: Graph, effects: Mapping[str, Effect]) -> float:
    found = propagate(g, effects)
    assert found.network.status is Status.FINITE
    return math.exp(found.network.log_upper)


def test_residual_block_multiplies_by_one_plus_its_branch() -> None:
    g = graph({"five": ("x",), "branch": ("five",), "sum": ("five", "branch")}, ("sum",))
    effects = {"five": Effect.stretch(5.0), "branch": Effect.stretch(3.0), "sum": Effect.stretch(1.0, 1.0)}
    assert bound(g, effects) == pytest.approx(20, rel=1e-12)


def test_concatenation_and_several_outputs_add_squares() -> None:
    g = graph({"a": ("x",), "b": ("x",), "cat": ("a", "b")}, ("cat",))
    effects = {
        "a": Effect.stretch(3.0),
        "b": Effect.stretch(4.0),
        "cat": Effect.stretch(1.0, 1.0, combination=Combination.ROOT_SUM_SQUARES),
    }
    assert bound(g, effects) == pytest.approx(5, rel=1e-12)
    both = graph({"a": ("x",), "b": ("x",)}, ("a", "b"))
    found = propagate(both, effects)
    assert math.exp(found.network.log_upper) == pytest.approx(5, rel=1e-12)
    assert math.exp(found.outputs["b"].log_upper) == pytest.approx(4, rel=1e-12)


def test_constants_far_beyond_floats() -> None:
    names = [f"n{i}" for i in range(1000)]
    g = graph(dict(zip(names, [("x",), *[(n,) for n in names[:-1]]], strict=True)), (names[-1],))
    found = propagate(g, dict.fromkeys(names, Effect.stretch(1e6)))
    assert found.network.log_upper / math.log(10) == pytest.approx(6000, rel=1e-12)
    assert found.network.log_upper >= 6000 * math.log(10)


def test_unsupported_weighs_more_than_unbounded_and_only_where_it_is_read() -> None:
    edges = {"a": ("x",), "b": ("x",), "sum": ("a", "b"), "shape": ("x", "a")}
    effects = {
        "a": Effect.unsupported("no rule"),
        "b": Effect.unbounded("grows"),
        "sum": Effect.stretch(1.0, 1.0),
        "shape": Effect.stretch(2.0, 0.0),
    }
    found = propagate(graph(edges, ("sum",)), effects)
    assert found.network.status is Status.UNSUPPORTED
    assert found.values["b"].status is Status.UNBOUNDED
    assert bound(graph(edges, ("shape",)), effects) == pytest.approx(2, rel=1e-12)


def test_elasticities_of_a_chain_are_one_and_of_a_residual_branch_less() -> None:
    g = graph({"stem": ("x",), "branch": ("stem",), "sum": ("stem", "branch")}, ("sum",))
    effects = {"stem": Effect.stretch(2.0), "branch": Effect.stretch(3.0), "sum": Effect.stretch(1.0, 1.0)}
    found = propagate(g, effects)
    assert found.elasticities["stem"] == pytest.approx(1)
    assert found.elasticities["branch"] == pytest.approx(0.75)
    nudged = effects | {"branch": Effect.stretch(3.0 * 1.0001)}
    slope = (propagate(g, nudged).network.log_upper - found.network.log_upper) / math.log(1.0001)
    assert slope == pytest.approx(0.75, rel=1e-3)


class Random(nn.Module):
    """Residual, concatenated, shared and pooled parts in one small network."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.shared = nn.Conv2d(4, 4, 3, 1, 1)
        self.left = nn.Conv2d(4, 3, 3, 2, 1)
        self.right = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 3, 1))
        self.head = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.stem(x)
        x = x + torch.tanh(self.shared(torch.nn.functional.silu(self.shared(x))))
        x = torch.cat([self.left(x), self.right(x)], 1)
        return self.head(x.mean((2, 3))), x.amax((2, 3))


@pytest.mark.parametrize("seed", range(5))
def test_bound_holds_between_sampled_inputs_and_for_jacobians(seed: int) -> None:
    torch.manual_seed(seed)
    net = Random().double().eval()
    net.stem[1].running_mean.normal_()
    net.stem[1].running_var.uniform_(0.2, 2.0)
    report = lipaudit.audit(net, input_shape=(2, 6, 6))
    limit = report.network.upper_bound
    for scale in (1e-3, 1.0, 100.0):
        x, y = (torch.randn(1, 2, 6, 6, dtype=torch.float64) * scale for _ in range(2))
        with torch.no_grad():
            moved = math.hypot(*(float((a - b).norm()) for a, b in zip(net(x), net(y), strict=True)))
        assert moved <= limit * float((x - y).norm())
        jacobian = torch.autograd.functional.jacobian(lambda t: torch.cat([o.flatten() for o in net(t)]), x)
        assert float(torch.linalg.matrix_norm(jacobian.flatten(1), 2)) <= limit
    assert all(row.share is not None and math.isfinite(row.share) for row in report.layers)


def test_an_estimate_of_zero_does_not_hide_what_it_multiplies() -> None:
    g = graph({"jump": ("x",), "zero": ("jump",)}, ("zero",))
    for rigor, status in ((Rigor.ESTIMATE, Status.UNBOUNDED), (Rigor.CERTIFIED, Status.FINITE)):
        zero = Effect.stretch(Bracket(-math.inf, -math.inf, rigor))
        assert propagate(g, {"jump": Effect.unbounded("it jumps"), "zero": zero}).network.status is status
