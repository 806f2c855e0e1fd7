"""The parts of an audit of small networks: loading, capture, propagation, the report, and all of it."""

from __future__ import annotations

from typing import Any

import pytest

import lipaudit
from lipaudit.auditing.capture import Captured, capture_model
from lipaudit.auditing.placement import placed
from lipaudit.formats.render import Layout
from lipaudit.frontends.load import load
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.network.domain import GLOBAL
from lipaudit.network.magnitudes import Extents
from lipaudit.network.propagate import evaluate_rules, propagate
from lipaudit.rules.effect import Settings
from lipaudit.spectral.oracle import CertifiedNorms

NETWORKS = ("timm:test_resnet", "timm:test_vit")


@pytest.fixture(scope="module", params=NETWORKS)
def loaded(request: Any) -> LoadedModel:
    return load(request.param, weights="random")


@pytest.fixture(scope="module")
def network(loaded: LoadedModel) -> Captured:
    return capture(loaded)


def capture(loaded: LoadedModel) -> Captured:
    with placed(loaded, "cpu") as place:
        return capture_model(loaded, place)


@pytest.mark.parametrize("spec", NETWORKS)
def test_load(benchmark: Any, spec: str) -> None:
    found = benchmark.pedantic(lambda: load(spec, weights="random"), rounds=3, warmup_rounds=1)
    assert found.source == "timm"


def test_capture(benchmark: Any, loaded: LoadedModel) -> None:
    found = benchmark.pedantic(capture, (loaded,), rounds=3, warmup_rounds=1)
    assert len(list(found.simple)) > 10


def test_norms(benchmark: Any, network: Captured) -> None:
    effects = benchmark.pedantic(
        lambda: evaluate_rules(network.simple, Settings(CertifiedNorms(1e-3))), rounds=3, warmup_rounds=1
    )
    assert len(effects) > 10


def test_propagation(benchmark: Any, network: Captured) -> None:
    effects = evaluate_rules(network.simple, Settings(CertifiedNorms(1e-3)))
    extents = Extents(network.recognised, GLOBAL, False)
    found = benchmark(propagate, network.simple, effects, extents, None)
    assert found is not None


@pytest.mark.parametrize("form", ["table", "json", "markdown"])
def test_report(benchmark: Any, form: str) -> None:
    report = lipaudit.audit(NETWORKS[0], weights="random")
    text = benchmark(Layout(form).render, [report])
    assert "469" in text  # thousand parameters


@pytest.mark.parametrize("spec", NETWORKS)
def test_audit(benchmark: Any, spec: str) -> None:
    report = benchmark.pedantic(lambda: lipaudit.audit(spec, weights="random"), rounds=3, warmup_rounds=1)
    assert report.network.status in ("finite", "unbounded")
    assert set(report.timings) == {"load", "capture", "norms", "propagation"}
