"""The network's record: every bound that was computed, and the least of them as its figure."""

from __future__ import annotations

import math

import pytest
import torch

from lipaudit.auditing.assemble import domain_record, network_record
from lipaudit.graph.node import Graph, Node, Ref, TensorInfo
from lipaudit.network.bound import NetworkBound, NotApplicable, Result
from lipaudit.network.propagate import Value
from lipaudit.records.figure import EMPIRICAL
from lipaudit.records.report import NetworkRecord
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Rigor
from tests.records import (
    fakes,
)

INFO = TensorInfo((1, 2), torch.float32)


def value(constant: float, rigor: Rigor = Rigor.CERTIFIED) -> Value:
    return Value(Status.FINITE, math.log(constant), rigor)


def graph(outputs: int) -> Graph:
    names = [f"out{i}" for i in range(outputs)]
    nodes = [Node("x", "input", {}, (INFO,)), *(Node(name, "op", {"a": Ref("x", INFO)}, (INFO,)) for name in names)]
    return Graph(tuple(nodes), ("x",), tuple(names), output_names=tuple(names))


def bound(name: str, *outputs: Value, note: str = "") -> NetworkBound:
    together = math.log(math.hypot(*(math.exp(output.log_upper) for output in outputs)))
    network = Value(Status.FINITE, together, Rigor.weakest(output.rigor for output in outputs))
    return NetworkBound(name, network, {f"out{i}": output for i, output in enumerate(outputs)}, note)


def assembled(*results: Result, outputs: int = 1, lower: float | None = None) -> NetworkRecord:
    return network_record(graph(outputs), results, (), lower, std=(0.5,))


def test_every_bound_is_kept_and_the_least_is_the_figure() -> None:
    network = assembled(
        bound("product", value(9)), bound("forms", value(4), note="8 segments"), NotApplicable("local", "no ball")
    )
    assert [(entry.name, entry.status) for entry in network.bounds] == [
        ("product", "finite"),
        ("forms", "finite"),
        ("local", "not applicable"),
    ]
    assert network.bounds[1].figure == network.figure
    assert network.upper_bound == pytest.approx(4, rel=1e-12)
    assert network.pixel_upper_bound == pytest.approx(8, rel=1e-12)
    assert (network.bounds[1].note, network.bounds[2].reason) == ("8 segments", "no ball")


def test_a_bound_that_is_put_together_of_several_is_listed_as_well() -> None:
    network = assembled(bound("a", value(3), value(40)), bound("b", value(30), value(4)), outputs=2)
    assert [entry.name for entry in network.bounds] == ["a", "b", "a + b"]
    assert network.upper_bound == pytest.approx(5, rel=1e-9)
    assert network.bounds[-1].figure == network.figure
    report = fakes.changed(fakes.report(()), network=network)
    assert type(report).from_json(report.to_json()) == report


def test_an_estimate_beside_a_bound_is_kept_and_not_printed() -> None:
    network = assembled(bound("product", value(2, Rigor.ESTIMATE)), bound("forms", value(9, Rigor.NUMERICAL)))
    assert network.rigor == "numerical"
    assert network.bounds[0].estimate == pytest.approx(2)
    assert network.bounds[0].upper_bound is None


def test_what_was_measured_is_empirical_and_not_above_the_bound() -> None:
    network = assembled(bound("product", value(9)), lower=9.0 + 1e-12)
    assert network.lower is not None
    assert network.figure is not None
    assert network.lower.rigor == EMPIRICAL
    assert not network.lower.is_above(network.figure)
    assert assembled(bound("product", value(9)), lower=2.0).lower_bound == 2.0


def test_other_domains_keep_their_bounds() -> None:
    record = domain_record("pixels", graph(1), (bound("product", value(9)), bound("forms", value(4))), (), None)
    assert [entry.name for entry in record.bounds] == ["product", "forms"]
    assert record.figure == record.bounds[1].figure
    assert record.pixel_figure is None
