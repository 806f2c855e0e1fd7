"""The table of network bounds: what is computed, which one counts, and what an audit prints."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from lipaudit.errors import RegistryError
from lipaudit.graph.node import Graph, Node, Ref, TensorInfo
from lipaudit.network.bound import NetworkBound, NotApplicable, Problem, Result
from lipaudit.network.bounds import NETWORK_BOUNDS, least, network_bounds
from lipaudit.network.domain import GLOBAL, Domain, ball
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import Value, propagate
from lipaudit.rules.effect import Effect, Status
from lipaudit.spectral.bracket import Rigor
from lipaudit.spectral.oracle import CertifiedNorms
from tests.network.sampling import audited

F64 = torch.float64
INFO = TensorInfo((1, 2), torch.float32)
UNBOUNDED = Value(Status.UNBOUNDED)


def value(constant: float, rigor: Rigor = Rigor.CERTIFIED) -> Value:
    return Value(Status.FINITE, math.log(constant), rigor)


def bound(name: str, *outputs: Value, network: Value | None = None) -> NetworkBound:
    return NetworkBound(name, network or outputs[0], {f"out{i}": v for i, v in enumerate(outputs)}, f"by {name}")


def two_outputs() -> Problem:
    nodes = [Node("x", "input", {}, (INFO,)), *(Node(n, "op", {"a": Ref("x", INFO)}, (INFO,)) for n in ("a", "b"))]
    graph = Graph(tuple(nodes), ("x",), ("a", "b"))
    effects = {"a": Effect.stretch(3.0), "b": Effect.stretch(4.0)}
    return Problem(graph, GLOBAL, propagate(graph, effects), Extents(graph, GLOBAL), CertifiedNorms())


def test_the_product_rule_is_the_propagation() -> None:
    problem = two_outputs()
    (product,) = network_bounds(problem)
    assert isinstance(product, NetworkBound)
    assert (product.name, product.network) == ("product", problem.propagation.network)
    assert product.outputs == problem.propagation.outputs
    assert least([product], problem.graph.outputs) == product


def test_the_least_bound_counts_and_names_its_method() -> None:
    results: list[Result] = [bound("product", value(9)), NotApplicable("local", "no ball"), bound("forms", value(4))]
    best = least(results, ["out0"])
    assert (best.name, best.network, best.note) == ("forms", value(4), "by forms")
    assert least(results[::-1], ["out0"]).network == value(4)
    same = [bound("product", value(4)), bound("forms", value(4))]
    assert least(same, ["out0"]).name == "product"


@pytest.mark.parametrize("other", [UNBOUNDED, Value(Status.UNSUPPORTED), value(1, Rigor.ESTIMATE)])
def test_a_bound_counts_before_a_smaller_estimate_or_none(other: Value) -> None:
    numerical = bound("forms", value(9, Rigor.NUMERICAL))
    for results in ([bound("product", other), numerical], [numerical, bound("product", other)]):
        assert least(results, ["out0"]).network == value(9, Rigor.NUMERICAL)


def test_without_a_bound_the_first_estimate_or_the_first_status_counts() -> None:
    low, high = bound("low", value(1, Rigor.ESTIMATE)), bound("high", value(2, Rigor.ESTIMATE))
    assert least([high, low], ["out0"]).name == "high"
    assert least([bound("product", UNBOUNDED), low], ["out0"]).name == "low"
    assert least([bound("product", UNBOUNDED)], ["out0"]).network == UNBOUNDED


def test_every_output_takes_its_own_least_and_their_sum_bounds_the_network() -> None:
    first = bound("product", value(3), value(40), network=value(50))
    second = bound("forms", value(30), value(4), network=value(45))
    best = least([first, second], ["out0", "out1"])
    assert best.outputs == {"out0": value(3), "out1": value(4)}
    assert best.name == "product + forms"
    assert math.exp(best.network.log_upper) == pytest.approx(5, rel=1e-12)
    assert best.network.log_upper >= math.log(5)
    # an output that is returned twice counts twice
    assert math.exp(least([second], ["out1", "out1"]).network.log_upper) == pytest.approx(4 * math.sqrt(2), rel=1e-12)


def test_a_bound_with_another_name_or_without_an_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = two_outputs()
    monkeypatch.setitem(NETWORK_BOUNDS, "new", lambda _: NotApplicable("old", "never"))
    with pytest.raises(RegistryError, match="new returned a result named old"):
        network_bounds(problem)
    monkeypatch.setitem(NETWORK_BOUNDS, "new", lambda _: NetworkBound("new", value(1), {"a": value(1)}))
    with pytest.raises(RegistryError, match="one entry per output"):
        network_bounds(problem)


@pytest.mark.parametrize("domain", ["global", "ball"])
def test_an_audit_prints_the_least_bound(monkeypatch: pytest.MonkeyPatch, domain: str) -> None:
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False))
    around: Mapping[str, object] = {} if domain == "global" else {"around": torch.zeros(1, 3), "radius": 1.0}

    domains = []

    def half(problem: Problem) -> NetworkBound:
        domains.append(problem.domain.name)
        network = problem.propagation.network
        half = Value(network.status, network.log_upper - math.log(2), Rigor.NUMERICAL)
        return NetworkBound("half", half, dict.fromkeys(problem.graph.outputs, half))

    monkeypatch.delitem(NETWORK_BOUNDS, "jacobian at the centre")
    before = lipaudit.audit(net, (1, 3), domain=domain, **around)
    monkeypatch.setitem(NETWORK_BOUNDS, "half", half)
    after = lipaudit.audit(net, (1, 3), domain=domain, **around)
    assert before.network.upper_bound is not None
    assert after.network.upper_bound == pytest.approx(before.network.upper_bound / 2, rel=1e-12)
    assert (before.network.rigor, after.network.rigor) == ("certified", "numerical")
    assert after.layers == before.layers
    assert domains == (["global"] if domain == "global" else ["global", domain])
    for there, here in zip(before.network.other_domains, after.network.other_domains, strict=True):
        assert there.upper_bound is not None
        assert here.upper_bound == pytest.approx(there.upper_bound / 2, rel=1e-12)


# What every bound of the table must pass. Jacobians are exact here, up to rounding, and none may exceed its bound.


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 6), nn.Linear(6, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + self.second(functional.relu(self.first(x)))
        return self.last(y), torch.tanh(3 * y)


def _network(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "residual with two outputs":
        return Residual()
    if kind == "convolutional":
        return nn.Sequential(
            nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)
        )
    last = nn.Linear(7, 3)
    layers = [nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), last]
    if kind == "dense with cancelling signs":  # the ReLUs part what the whole matrix cancels
        with torch.no_grad():
            for layer in (layers[0], layers[2], last):
                half = layer.weight[: len(layer.weight) // 2]
                layer.weight[-len(half) :] = -half
                layer.bias.zero_()
            last.weight[:, -3:] = last.weight[:, :3]
    return nn.Sequential(*layers)


def _largest_stretches(network: nn.Module, centre: torch.Tensor, radius: float) -> list[float]:
    """The largest spectral norm of the Jacobian at points around a centre: of all outputs together, then of each."""

    def outputs(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = network(x)
        return y if isinstance(y, tuple) else (y,)

    generator = torch.Generator().manual_seed(1)
    norms = []
    for _ in range(40):
        step = torch.randn(centre.shape, generator=generator, dtype=F64)
        point = centre + radius * step / step.norm() * torch.rand(1, generator=generator, dtype=F64)
        parts = [j.reshape(-1, centre.numel()) for j in torch.autograd.functional.jacobian(outputs, point)]
        norms.append([float(torch.linalg.matrix_norm(j, 2)) for j in (torch.cat(parts), *parts)])
    return [max(column) for column in zip(*norms, strict=True)]


KINDS = ["dense", "dense with cancelling signs", "residual with two outputs", "convolutional"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [None, 0.1])
def test_no_network_stretches_more_than_any_bound_of_the_table(kind: str, radius: float | None) -> None:
    network, centre = _network(kind).double().eval(), torch.zeros(1, 4, dtype=F64)
    name = "input" if isinstance(network, nn.Sequential) else "x"
    domains: list[Domain] = [GLOBAL, *([] if radius is None else [ball({name: centre}, radius)])]
    audit = audited(network, {name: (1, 4)}, *domains)[-1]
    problem = Problem(audit.simple, domains[-1], audit.found, audit.extents, CertifiedNorms(), work=1e8)
    together, *each = _largest_stretches(network, centre, 2.0 if radius is None else radius)
    for result in network_bounds(problem):
        if isinstance(result, NotApplicable):
            assert result.reason
            continue
        claims = [(together, result.network), *zip(each, result.outputs.values(), strict=True)]
        for stretch, claim in claims:
            if claim.status is Status.FINITE and claim.rigor is not Rigor.ESTIMATE:
                assert stretch <= math.exp(claim.log_upper) * (1 + 1e-9), f"{result.name} is below a stretch"
