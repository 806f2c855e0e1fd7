"""Detection networks and graph networks end to end: captured whole, equal to the module, bounded where mathematics gives it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import lipaudit
from lipaudit.auditing.capture import graph_of
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.table import recognise
from tests.models.detectors import C3, C2f, C3k2, DetectAnchors, DetectBins, Detector
from tests.models.graph_networks import GCN, GIN, SparseGCN

# blocks, head, attention; the status over all inputs: attention has no constant there
DETECTORS = {
    "version 5": (C3, DetectAnchors, False, "finite"),
    "version 8": (C2f, DetectBins, False, "finite"),
    "version 10": (C2f, DetectBins, True, "unbounded"),
    "version 11": (C3k2, DetectBins, True, "unbounded"),
}
SHAPE = (1, 3, 32, 32)


def detector(name: str) -> nn.Module:
    torch.manual_seed(0)
    block, head, attention, _ = DETECTORS[name]
    return Detector(block, head, attention).eval()


def flat(value: object) -> Tensor:
    parts = value if isinstance(value, list | tuple) else [value]
    return torch.cat([flat(p) if isinstance(p, list | tuple) else p.flatten() for p in parts])


def largest_stretch(module: nn.Module, x: Tensor) -> float:
    """A lower bound of the norm of the Jacobian at x, by a few steps of the power method."""
    with torch.enable_grad():
        point = x.clone().requires_grad_()
        out = flat(module(point))
        direction = torch.ones_like(out)
        for _ in range(4):
            (pulled,) = torch.autograd.grad(out, point, direction, retain_graph=True)
            _, direction = torch.autograd.functional.jvp(lambda t: flat(module(t)), x, pulled / pulled.norm())
    return float(direction.norm())


@pytest.mark.parametrize("name", DETECTORS)
def test_a_detector_is_captured_and_bounded(name: str) -> None:
    module = detector(name)
    x = torch.rand(SHAPE)
    graph = recognise(graph_of(module, {"x": torch.zeros(SHAPE)}))
    values = interpret(graph, {"x": x})
    torch.testing.assert_close(flat([values[n] for n in graph.outputs]), flat(module(x)), rtol=1e-4, atol=1e-4)
    report = lipaudit.audit(module, input_shape=SHAPE[1:], domain="pixels", mean=0, std=1)
    assert report.network.status == "finite"
    assert report.network.log10_upper_bound is not None
    assert math.log10(largest_stretch(module, x)) <= report.network.log10_upper_bound


@pytest.mark.parametrize("name", ["version 5", "version 11"])
def test_over_all_inputs_only_attention_is_unbounded(name: str) -> None:
    report = lipaudit.audit(detector(name), input_shape=SHAPE[1:])
    assert report.network.status == DETECTORS[name][3]
    assert {layer.op for layer in report.layers if layer.status != "finite"} <= {"scaled_dot_product_attention"}


@pytest.mark.parametrize("network", [GCN, GIN, SparseGCN])
def test_a_graph_network_is_bounded(network: type[nn.Module]) -> None:
    torch.manual_seed(1)
    module = network().eval()
    report = lipaudit.audit(module, input_shape={"x": (1, 6, 4)})
    assert report.network.status == "finite"
    assert report.network.upper_bound is not None
    module.double()
    largest = 0.0
    for scale in (0.1, 1.0, 10.0):
        x = scale * torch.randn(1, 6, 4, dtype=torch.float64)
        jacobian = torch.autograd.functional.jacobian(module, x).reshape(-1, 24)
        largest = max(largest, float(torch.linalg.matrix_norm(jacobian, 2)))
    assert report.network.upper_bound / 20 < largest <= report.network.upper_bound
