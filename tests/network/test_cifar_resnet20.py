"""A trained ResNet-20 against figures computed independently (eigenvalues in float64, batch norms folded, strides by polyphase)."""

from __future__ import annotations

import math

import pytest
import torch

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.table import simplify
from lipaudit.network.propagate import evaluate_rules, propagate
from lipaudit.rules.effect import Settings
from lipaudit.spectral.oracle import CertifiedNorms
from tests.models.cifar_resnet20 import ResNet20
from tests.places import SHARED_MODELS

WEIGHTS = SHARED_MODELS / "cifar_resnet" / "resnet20-12fca82f.th"
BLOCK_FACTORS = [5.9782, 7.8416, 10.3406, 6.9146, 10.5136, 12.7056, 9.9347, 22.4585, 88.6555]

pytestmark = pytest.mark.skipif(not WEIGHTS.exists(), reason="the trained weights are not beside this checkout")


@pytest.fixture(scope="module")
def network() -> ResNet20:
    state = torch.load(WEIGHTS, weights_only=True, map_location="cpu")["state_dict"]
    net = ResNet20().eval()
    net.load_state_dict({k.removeprefix("module."): v for k, v in state.items()})
    return net


def test_network_bound_and_rows(network: ResNet20) -> None:
    report = lipaudit.audit(network, input_shape=(3, 32, 32), lower_bound=True)
    assert report.network.status == "finite"
    assert report.network.rigor == "certified"
    assert 10.390 <= report.network.log10_upper_bound <= 10.400
    assert 0 < report.network.lower_bound < report.network.upper_bound
    convolutions = [row for row in report.layers if row.op == "conv2d"]
    assert len(convolutions) == 19
    for row in report.layers:
        if row.lower_bound is not None:
            assert row.lower_bound <= row.upper_bound
    assert all(row.tightness < 1.1 for row in convolutions)


def test_block_factors(network: ResNet20) -> None:
    graph = simplify(capture(network, {"x": torch.zeros(1, 3, 32, 32)}))
    found = propagate(graph, evaluate_rules(graph, Settings(CertifiedNorms(1e-4))))
    additions = [n for n in graph if n.op == "aten.add.Tensor"]
    assert len(additions) == len(BLOCK_FACTORS)
    before = found.values[additions[0].refs[1].name].log_upper
    for node, expected in zip(additions, BLOCK_FACTORS, strict=True):
        after = found.values[node.name].log_upper
        assert expected * (1 - 1e-4) <= math.exp(after - before) <= expected * (1 + 5e-4)
        before = after
