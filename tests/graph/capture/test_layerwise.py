"""Networks that are no single graph: their layers one by one, and no figure for the network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lipaudit.api import audit
from lipaudit.errors import CaptureError
from lipaudit.graph.capture.export import capture
from lipaudit.graph.capture.layerwise import UNCAPTURED, layers_by_hooks
from tests.graph.networks import Function


def _branching() -> nn.Module:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = m.norm(m.conv(x))
        if bool(y.sum() > 1e6):
            y = m.other(y)
        return m.head(y.mean((2, 3)))

    layers = {"conv": nn.Conv2d(3, 4, 3, padding=1, stride=2), "norm": nn.BatchNorm2d(4), "head": nn.Linear(4, 2)}
    return Function(forward, other=nn.Conv2d(4, 4, 1), words=nn.Embedding(3, 2), **layers)


def test_the_layers_that_ran_have_their_norms() -> None:
    torch.manual_seed(0)
    module = _branching().float()
    report = audit(module, input_shape=(3, 8, 8))
    assert report.network.status == "unsupported"
    assert report.network.upper_bound is None
    rows = {row.name: row for row in report.layers if row.op != UNCAPTURED}
    assert list(rows) == ["conv", "norm", "head"]
    assert all(row.status == "finite" and row.share is None for row in rows.values())
    alone = audit(module.conv, input_shape=(3, 8, 8)).layers[0]
    assert rows["conv"].upper_bound == alone.upper_bound
    assert rows["conv"].input_size == (8, 8)
    assert rows["head"].upper_bound == pytest.approx(
        float(torch.linalg.matrix_norm(module.head.weight.detach(), 2)), rel=2e-3
    )
    assert any("control flow" in reason for reason in report.network.reasons)
    assert any("not captured" in note for note in report.notes)
    assert report.model.num_parameters == sum(p.numel() for p in module.parameters())
    assert not any(m._forward_hooks for m in module.modules())


def test_a_layer_that_runs_twice_has_a_row_per_size() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = m.conv(m.conv(m.conv(x))[..., ::2])
        return y * 2 if bool(y.sum() > 0) else y

    module = Function(forward, conv=nn.Conv2d(3, 3, 3, padding=1)).float()
    rows = [row for row in audit(module, input_shape=(3, 8, 8)).layers if row.op == "conv2d"]
    assert [row.name for row in rows] == ["conv", "conv#2"]
    assert len({row.reason for row in rows}) == 1


def test_an_input_that_the_network_rejects_stays_an_error() -> None:
    module = _branching().float()
    with pytest.raises(CaptureError, match="1, 5, 8, 8"):
        audit(module, input_shape=(5, 8, 8))


def test_a_network_without_weights_does_not_run() -> None:
    module = _branching().float().to("meta")
    with pytest.raises(CaptureError, match="control flow"):
        audit(module, input_shape=(3, 8, 8), structure=True)


def test_the_reason_is_the_failure() -> None:
    module = _branching().float()
    x = {"x": torch.zeros(1, 3, 8, 8)}
    with pytest.raises(CaptureError) as caught:
        capture(module, x)
    graph = layers_by_hooks(module, x, caught.value)
    assert {n.payload for n in graph if n.op == UNCAPTURED} == {str(caught.value)}
    assert graph.outputs == ("output",)
