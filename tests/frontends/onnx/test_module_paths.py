"""Rows of exported networks name the modules of the network in torch, so that they join to its state dict."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import lipaudit
from lipaudit.frontends.onnx.module_paths import module_path


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(3, 1))
        self.body = nn.ModuleList([nn.Conv2d(2, 2, 1), nn.Conv2d(2, 3, 1)])
        self.head = nn.Linear(12, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.body:
            x = layer(x).relu()
        return self.head(x.flatten(1))


@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_rows_of_both_exporters_join_to_the_state_dict(dynamo: bool, tmp_path: Path) -> None:
    net = Net().eval()
    path = tmp_path / "net.onnx"
    torch.onnx.export(
        net, (torch.zeros(1, 1, 6, 6),), str(path), dynamo=dynamo, do_constant_folding=False, input_names=["x"]
    )
    rows = lipaudit.audit(str(path)).layers
    found = [row.module for row in rows if row.weight_shape is not None]
    assert found == ["stem.0", "body.0", "body.1", "head"]
    assert {f"{module}.weight" for module in found} <= set(net.state_dict())
    if dynamo:
        assert next(row.module for row in rows if row.op == "max_pool2d") == "stem.3"


def test_a_weight_of_another_module_and_a_parametrized_one() -> None:
    class Borrowing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.store = nn.Linear(4, 4)
            self.normed = weight_norm(nn.Linear(4, 4))
            self.free = nn.Parameter(torch.randn(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(self.normed(nn.functional.linear(x, self.store.weight)), self.free)

    rows = lipaudit.audit(Borrowing().eval(), {"x": (1, 4)}).layers
    assert [row.module for row in rows] == ["store", "normed", ""]


@pytest.mark.parametrize("scopes", ["", "[", "['']", "[1, 2]", "__import__('os')", "[" * 500])
def test_metadata_that_is_none_says_nothing(scopes: str) -> None:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    assert module_path(node, ["onnx::Conv_12", "w"]) is None
