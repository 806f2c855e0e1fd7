"""Figures are those of the methods, each operator is measured once, and the bracket they are judged by holds the true norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import lipaudit.rules  # noqa: F401  registers every rule
from lipaudit.errors import MethodError
from lipaudit.graph.capture.export import capture
from lipaudit.graph.linear import Dense
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.table import fold, recognise
from lipaudit.network.domain import GLOBAL
from lipaudit.network.magnitudes import Extents
from lipaudit.network.method_comparison import (
    Layer,
    Measurement,
    MethodResult,
    Outcome,
    TimedNorms,
    TrueNorms,
    compare_methods,
    gaps,
    is_violation,
    linear_layers,
)
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.power_iteration import apply
from lipaudit.spectral.oracle import PublishedNorms
from lipaudit.spectral.published.registry import Method, Options, figure, find_method, measure, measure_matrix

Run = tuple[list[Layer], list[MethodResult]]


def graph(module: nn.Module, *shape: int) -> Graph:
    return fold(recognise(capture(module.eval(), {"x": torch.zeros(1, *shape)})))


def run(module: nn.Module, shape: tuple[int, ...], methods: list[Method], **options: float) -> Run:
    recognised = recognise(capture(module.eval(), {"x": torch.zeros(1, *shape)}))
    pairs = [(method, Options()) for method in methods]
    return compare_methods(fold(recognised), lambda: Extents(recognised, GLOBAL), pairs, **options)


def method(name: str, function: Callable[[Convolution, Options], Bracket]) -> Method:
    return Method(name, name, "a reference", "a summary", "a claim", function)


class Counting:
    """A method (twice the largest entry) that remembers the shapes that it measured."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, convolution: Convolution, _options: Options) -> Bracket:
        self.shapes.append(tuple(convolution.kernel.shape))
        return figure(2 * convolution.kernel.abs().max(), Rigor.ESTIMATE)


def conv(kernel: torch.Tensor, size: int, padding: int = 0, **changes: object) -> Convolution:
    sides = ((padding, padding), (padding, padding))
    return replace(Convolution(kernel, (size, size), (1, 1), sides, (1, 1)), **changes)  # type: ignore[arg-type]


def true_norm(convolution: Convolution) -> float:
    """sigma_1 of the operator written out column by column."""
    shape = (convolution.channels[0], *convolution.input_size)
    units = torch.eye(math.prod(shape), dtype=torch.float64).reshape(-1, *shape)
    return float(np.linalg.norm(apply(convolution, units).flatten(1).numpy(), 2))


def test_figures_are_those_of_the_methods() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    methods = [find_method(name) for name in ("sedghi2019", "ryu2019")]
    layers, results = run(net, (2, 4, 4), methods)
    assert [type(layer.linear) for layer in layers] == [Convolution, Dense]
    for m in methods:
        expected = [measure(m, layers[0].linear), measure_matrix(m, layers[1].linear.weight)]
        found = [layer.figures[m.name] for layer in layers]
        assert [f.bracket for f in found] == expected
        assert [f.outcome for f in found] == [Outcome.MEASURED] * 2
        (result,) = (r for r in results if r.method is m)
        assert result.propagation.network.log_upper == pytest.approx(sum(b.log_upper for b in expected), abs=1e-12)
        assert result.propagation.network.rigor is Rigor.ESTIMATE
        assert result.seconds == pytest.approx(sum(f.seconds for f in found))
        assert not result.skipped


def test_every_distinct_operator_is_measured_once() -> None:
    shared = nn.Conv2d(2, 2, 3, padding=1)
    twin = nn.Conv2d(2, 2, 3, padding=1)
    twin.load_state_dict(shared.state_dict())
    strided = nn.Conv2d(2, 2, 3, stride=2, padding=1)
    strided.load_state_dict(shared.state_dict())
    counting = Counting()
    net = nn.Sequential(shared, nn.ReLU(), shared, nn.ReLU(), twin, nn.ReLU(), strided)
    layers, (result,) = run(net, (2, 4, 4), [method("counting", counting)])
    assert len(layers) == 4
    assert len(counting.shapes) == 2  # the strided one is another operator
    assert result.propagation.network.log_upper == pytest.approx(
        4 * math.log(2 * float(shared.weight.detach().abs().max()))
    )


def test_a_bracket_holds_the_true_norm_and_is_tighter_from_below() -> None:
    generator = torch.Generator().manual_seed(1)
    for changes in (
        {},
        {"stride": (2, 2)},
        {"padding_mode": "circular"},
        {"padding_mode": "reflect"},
        {"dilation": (2, 2)},
    ):
        kernel = torch.randn(3, 2, 3, 3, dtype=torch.float64, generator=generator) * 1e3
        operator = conv(kernel, 6, 1, **changes)
        bracket = TrueNorms(1e-3).norm(operator).bracket
        truth = true_norm(operator)
        assert bracket.lower <= truth * (1 + 1e-12)
        assert truth <= bracket.upper * (1 + 1e-12)
        assert bracket.lower >= 0.999 * truth
    transposed = Convolution(
        torch.randn(2, 3, 3, 3), (4, 4), (2, 2), ((1, 1), (1, 1)), (1, 1), 1, "zeros", True, (1, 1)
    )
    bracket = TrueNorms(1e-3).norm(transposed).bracket
    truth = true_norm(transposed.adjoint())
    assert 0.999 * truth <= bracket.lower <= truth * (1 + 1e-12)
    assert truth <= bracket.upper * (1 + 1e-12)


def test_a_zero_kernel_is_no_violation() -> None:
    net = nn.Conv2d(1, 1, 3, bias=False)
    nn.init.zeros_(net.weight)
    ((layer,), (result,)) = run(net, (1, 4, 4), [find_method("sedghi2019")])
    assert layer.truth.bracket is not None
    assert layer.truth.bracket.upper == 0
    assert not is_violation(layer.figures["sedghi2019"], layer.truth)
    assert result.propagation.network.log_upper == -math.inf


@pytest.mark.parametrize(("factor", "below"), [(0.9, True), (1 - 1e-6, True), (1.0, False), (1.1, False)])
def test_only_a_figure_below_the_lower_end_is_a_violation(factor: float, below: bool) -> None:
    truth = Measurement(Outcome.MEASURED, Bracket(math.log(2.0), math.log(2.2)))
    found = Measurement(Outcome.MEASURED, Bracket(-math.inf, math.log(2.0 * factor), Rigor.ESTIMATE))
    assert is_violation(found, truth) is below
    assert not is_violation(Measurement(Outcome.SKIPPED), truth)
    assert not is_violation(found, Measurement(Outcome.UNDEFINED))


def test_a_method_without_a_figure_leaves_the_network_without_one() -> None:
    def only_small(convolution: Convolution, _options: Options) -> Bracket:
        if convolution.kernel_size != (1, 1):
            raise MethodError("defined for 1 x 1 kernels only")
        return figure(1.5, Rigor.NUMERICAL)

    net = nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU(), nn.Conv2d(1, 1, 3))
    layers, (result,) = run(net, (1, 4, 4), [method("small", only_small)])
    assert [layer.figures["small"].outcome for layer in layers] == [Outcome.MEASURED, Outcome.UNDEFINED]
    assert layers[1].figures["small"].reason == "defined for 1 x 1 kernels only"
    assert result.propagation.network.status is Status.UNSUPPORTED
    assert gaps(result, graph(net, 1, 4, 4)) == ["2: defined for 1 x 1 kernels only"]


def test_a_figure_that_needs_too_much_memory_is_none() -> None:
    def greedy(_convolution: Convolution, _options: Options) -> Bracket:
        raise torch.OutOfMemoryError("CUDA out of memory")

    norms = TimedNorms(PublishedNorms(method("greedy", greedy), Options()))
    found = norms.measured(conv(torch.ones(1, 1, 1, 1), 2))
    assert (found.outcome, found.bracket) == (Outcome.UNDEFINED, None)
    assert "memory" in found.reason
    with pytest.raises(MethodError, match="memory"):
        norms.norm(conv(torch.ones(1, 1, 1, 1), 2))


def test_nothing_is_measured_after_the_time_limit() -> None:
    counting = Counting()
    norms = TimedNorms(PublishedNorms(method("counting", counting), Options()), limit=10.0)
    norms.measured(torch.ones(2, 2))
    norms.seconds = 10.0
    assert norms.measured(torch.ones(3, 3)) == Measurement(Outcome.SKIPPED, reason="the time limit of 10 s was used up")
    assert norms.measured(torch.ones(2, 2)).outcome is Outcome.MEASURED  # known already
    assert norms.skipped
    assert counting.shapes == [(2, 2, 1, 1)]
    with pytest.raises(MethodError, match="time limit"):
        norms.norm(torch.ones(3, 3))


def test_progress_names_method_and_layer_and_ends_at_the_total() -> None:
    calls: list[tuple[int, int, str]] = []
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    run(net, (2,), [method("m", Counting())], progress=lambda *call: calls.append(call))  # type: ignore[arg-type]
    assert calls == [(0, 4, "true norm 0"), (1, 4, "true norm 2"), (2, 4, "m 0"), (3, 4, "m 2"), (4, 4, "")]


def test_all_linear_layers_are_found_with_scales_folded() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.ConvTranspose2d(2, 1, 2), nn.MaxPool2d(2))
    net[1].weight.data.fill_(3.0)
    found = linear_layers(graph(net, 1, 6, 6))
    assert [node.module for node, _ in found] == ["0", "3"]
    kernel = found[0][1].kernel
    assert torch.allclose(kernel, 3 / math.sqrt(1 + 1e-5) * net[0].weight.to(torch.float64))
