"""The table of network bounds: what is computed, which one counts, and what an audit prints."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.errors import RegistryError
from lipaudit.graph.node import Graph, Node, Ref, TensorInfo
from lipaudit.network.bounds import NETWORK_BOUNDS, least, network_bounds
from lipaudit.network.domain import GLOBAL
from lipaudit.network.magnitudes import Extents
from lipaudit.network.network_bound import NetworkBound, NotApplicable, Problem, Result
from lipaudit.network.propagate import Value, propagate
from lipaudit.rules.rule import Effect, Status
from lipaudit.spectral.bracket import Rigor
from lipaudit.spectral.oracle import CertifiedNorms

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

    before = lipaudit.audit(net, (1, 3), domain=domain, **around)
    monkeypatch.setitem(NETWORK_BOUNDS, "half", half)
    after = lipaudit.audit(net, (1, 3), domain=domain, **around)
    assert before.network.upper_bound is not None
    assert after.network.upper_bound == pytest.approx(before.network.upper_bound / 2, rel=1e-12)
    assert (before.network.rigor, after.network.rigor) == ("certified", "numerical")
    assert after.layers == before.layers
    assert domains == ([domain] if domain == "global" else [domain, "global"])
    for there, here in zip(before.network.other_domains, after.network.other_domains, strict=True):
        assert there.upper_bound is not None
        assert here.upper_bound == pytest.approx(there.upper_bound / 2, rel=1e-12)
