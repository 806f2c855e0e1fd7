"""Weights that a network computes from its parameters: float64, and a bound of the error that a referee with 50 digits confirms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations, parametrize

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.node import Constant, Graph

mpmath.mp.dps = 50
Exact = Callable[[Any], Any]  # on nested lists of mpf


class Computed(nn.Module):
    """x -> W x with W = function(weight), W of one row."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.function(self.weight))


def _weight(graph: Graph) -> Constant:
    (found,) = (n["weight"] for n in graph if n.op == "aten.linear.default")
    assert isinstance(found, Constant)
    return found


def _std(w: Any) -> Any:
    mean = mpmath.fsum(w) / len(w)
    return mpmath.sqrt(mpmath.fsum((v - mean) ** 2 for v in w) / (len(w) - 1))


def _mean(w: Any) -> Any:
    return mpmath.fsum(w) / len(w)


def _norm(w: Any) -> Any:
    return mpmath.sqrt(mpmath.fsum(v * v for v in w))


def _batch_norm(w: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(w.reshape(1, 1, -1), None, None, training=True, eps=1e-6).reshape_as(w)


def _batch_norm_exact(w: Any) -> Any:
    variance = mpmath.fsum((v - _mean(w)) ** 2 for v in w) / len(w)
    return [(v - _mean(w)) / mpmath.sqrt(variance + mpmath.mpf(1e-6)) for v in w]


FUNCTIONS: list[tuple[Callable[[torch.Tensor], torch.Tensor], Exact]] = [
    (lambda w: w * 0.1, lambda w: [v * mpmath.mpf(0.1) for v in w]),
    (lambda w: w / 3.0, lambda w: [v / 3 for v in w]),
    (lambda w: w - w.mean(), lambda w: [v - _mean(w) for v in w]),
    (lambda w: (w - w.mean()) / (w.std() + 1e-3), lambda w: [(v - _mean(w)) / (_std(w) + mpmath.mpf(1e-3)) for v in w]),
    (lambda w: (w - w.mean()) * torch.rsqrt(w.var(1, keepdim=True)), lambda w: [(v - _mean(w)) / _std(w) for v in w]),
    (_batch_norm, _batch_norm_exact),
    (lambda w: functional.normalize(w, dim=1), lambda w: [v / _norm(w) for v in w]),
    (lambda w: w / w.pow(2).sum(1, keepdim=True).sqrt(), lambda w: [v / _norm(w) for v in w]),
    (lambda w: w / (w @ w.T), lambda w: [v / mpmath.fsum(u * u for u in w) for v in w]),
    (lambda w: torch.exp(w), lambda w: [mpmath.exp(v) for v in w]),
    (lambda w: torch.tanh(3 * w), lambda w: [mpmath.tanh(3 * v) for v in w]),
    (lambda w: torch.sigmoid(5 * w), lambda w: [1 / (1 + mpmath.exp(-5 * v)) for v in w]),
    (lambda w: functional.softplus(w), lambda w: [mpmath.log(1 + mpmath.exp(v)) for v in w]),
    (lambda w: w.abs().pow(1.5), lambda w: [abs(v) ** mpmath.mpf(1.5) for v in w]),
    (lambda w: torch.sin(w), lambda w: [mpmath.sin(v) for v in w]),
    (lambda w: (1 - w.square()).clamp(min=0.2), lambda w: [max(1 - v * v, mpmath.mpf(0.2)) for v in w]),
    (lambda w: torch.cat([w[:, 1:], 3 * w[:, :1]], 1).flip(1), lambda w: [3 * w[0], *reversed(w[1:])]),
    (lambda w: w / w.abs().amax(), lambda w: [v / max(abs(u) for u in w) for v in w]),
    (lambda w: 1 / (2 - w), lambda w: [1 / (2 - v) for v in w]),
    (lambda w: w.double().square().float(), lambda w: [v * v for v in w]),
]


@pytest.mark.parametrize(("function", "exact"), FUNCTIONS)
def test_a_computed_weight_is_as_close_as_it_says(function: Callable[..., torch.Tensor], exact: Exact) -> None:
    for seed in range(3):
        weight = torch.randn(1, 7, generator=torch.Generator().manual_seed(seed)) / 3
        net = Computed(function, weight)
        found = _weight(capture(net, {"x": torch.zeros(1, 7)}))
        true = exact([mpmath.mpf(v) for v in weight[0].tolist()])
        assert found.value.dtype == torch.float64
        assert found.dtype == torch.float32
        assert 0 < found.error < 1e-11
        for ours, theirs in zip(found.value[0].tolist(), true, strict=True):
            assert abs(mpmath.mpf(ours) - theirs) <= found.error * abs(theirs)
        sigma = _norm(true)
        for tolerance in (1e-1, 1e-9):
            row = lipaudit.audit(net, input_shape={"x": (1, 7)}, tol=tolerance).layers[0]
            assert row.rigor == "certified"
            assert row.lower_bound <= sigma <= row.upper_bound


def test_stored_numbers_that_are_only_moved_stay_as_they_are() -> None:
    net = Computed(lambda w: w.reshape(7, 1).T.flip(0).contiguous(), torch.randn(1, 7))
    found = _weight(capture(net, {"x": torch.zeros(1, 7)}))
    assert (found.error, found.computed_in, found.value.dtype) == (0.0, None, torch.float32)


def test_a_rounding_that_the_network_means_is_kept() -> None:
    weight, small = torch.randn(1, 7), torch.float8_e4m3fn
    stored = _weight(capture(Computed(lambda w: w.to(small).float(), weight), {"x": torch.zeros(1, 7)}))
    assert torch.equal(stored.value.float(), weight.to(small).float())
    assert stored.error == 0
    jumps = _weight(capture(Computed(lambda w: (w * 3).to(small).float(), weight), {"x": torch.zeros(1, 7)}))
    assert jumps.error == math.inf
    precision = _weight(capture(Computed(lambda w: (w * 3).half().float(), weight), {"x": torch.zeros(1, 7)}))
    assert torch.equal(precision.value, weight.double() * 3)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: parametrizations.orthogonal(nn.Linear(6, 6, bias=False)),
        lambda: parametrizations.orthogonal(nn.Linear(6, 4, bias=False), orthogonal_map="cayley"),
        lambda: Computed(lambda w: torch.linalg.matrix_exp(w @ w.T)[:1] * w, torch.randn(1, 6)),
        lambda: Computed(lambda w: torch.round(w * 7.3), torch.randn(1, 6)),
        lambda: Computed(lambda w: torch.where(w * 1.1 > 0.3, w, -w), torch.randn(1, 6)),
        lambda: Computed(lambda w: w - w * 1.0000001, torch.tensor([[1.0, 1e-30]])),
    ],
)
def test_what_has_no_margin_is_numerical(layer: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    net = layer()
    size = next(p for p in net.parameters() if p.dim() == 2).shape[1]
    network = lipaudit.audit(net, input_shape={"x" if isinstance(net, Computed) else "input": (1, size)}).network
    assert network.status == "finite"
    assert network.rigor == "numerical" or (isinstance(net, Computed) and size == 2)


@pytest.mark.parametrize(
    "wrap", [parametrizations.weight_norm, lambda m: parametrizations.spectral_norm(m).eval(), nn.utils.weight_norm]
)
@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated:FutureWarning")
def test_parametrised_layers_are_certified_before_and_behind_scales(wrap: Callable[[nn.Module], nn.Module]) -> None:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    net = nn.Sequential(wrap(nn.Conv2d(3, 4, 3, padding=1)), norm, nn.ReLU(), wrap(nn.Conv2d(4, 4, 1)))
    report = lipaudit.audit(net.eval(), input_shape=(3, 6, 6))
    assert {row.rigor for row in report.layers} == {"certified"}
    x = {"x": torch.randn(1, 3, 6, 6)}
    graph = capture(net, {"x": x["x"]})
    ours = interpret(graph, {graph.inputs[0]: x["x"]})[graph.outputs[0]]
    torch.testing.assert_close(ours, net(x["x"]).detach())


def _report(forward: Callable[[nn.Module, torch.Tensor], torch.Tensor]) -> lipaudit.AuditReport:
    net = nn.Module()
    net.p = nn.Parameter(torch.linspace(0.1, 0.9, 4))
    net.q = nn.Parameter(torch.full((), 0.3))
    net.forward = lambda x: forward(net, x)  # type: ignore[method-assign]
    return lipaudit.audit(net, input_shape={"x": (1, 4)})


@pytest.mark.parametrize(
    ("forward", "rigor"),
    [
        (lambda m, x: x + m.p.exp(), "certified"),
        (lambda m, x: functional.linear(x, torch.eye(4), m.p.exp()), "certified"),
        (lambda m, x: x * m.p.exp(), "certified"),
        (lambda m, x: functional.prelu(x, m.q.exp().reshape(1)), "numerical"),
        (lambda m, x: x * torch.sigmoid(m.q.exp() * x), "numerical"),
        (lambda m, x: x * torch.sigmoid(m.q * x), "certified"),
        (lambda m, x: functional.layer_norm(x, (4,), m.p.exp()), "certified"),
    ],
)
def test_other_operations_are_certified_only_where_the_number_does_not_matter(
    forward: Callable[[nn.Module, torch.Tensor], torch.Tensor], rigor: str
) -> None:
    network = _report(forward).network
    if network.status == "finite":
        assert network.rigor == rigor
    else:
        assert rigor == "numerical"


def test_rounding_within_a_layer_does_not_pass_a_certificate() -> None:
    """One row: its norm is exactly |g|, whatever torch rounds."""
    for seed in range(20):
        torch.manual_seed(seed)
        net = parametrizations.weight_norm(nn.Linear(8, 1, bias=False))
        g = abs(float(net.parametrizations.weight.original0.detach()))
        found = lipaudit.audit(net, input_shape={"input": (1, 8)}, tol=1e-9).network
        assert found.rigor == "certified"
        assert g <= found.upper_bound <= g * (1 + 1e-8)


def test_a_parametrisation_of_ones_own() -> None:
    class Symmetric(nn.Module):
        def forward(self, w: torch.Tensor) -> torch.Tensor:
            return (w + w.T) / 3

    layer = nn.Linear(5, 5, bias=False)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    stored = layer.parametrizations.weight.original.detach().double()
    sigma = float(torch.linalg.matrix_norm((stored + stored.T) / 3, 2))
    found = lipaudit.audit(layer, input_shape={"input": (1, 5)}, tol=1e-8).network
    assert found.rigor == "certified"
    assert sigma * (1 - 1e-12) <= found.upper_bound <= sigma * (1 + 2e-8)
