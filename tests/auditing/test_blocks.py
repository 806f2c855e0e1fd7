"""Rows in parts of a network whose constant counts in the place of theirs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.records.report import AuditReport
from lipaudit.records.stretching import stretching
from lipaudit.text.summary import sections
from tests.one_lipschitz.layers import ConvexPotential, ConvexPotentialConvolution, Sandwich


def report_of(*layers: nn.Module) -> AuditReport:
    return lipaudit.audit(nn.Sequential(*layers).double().eval(), input_shape=(1, 6), effort="none")


def linear(factor: float) -> nn.Linear:
    layer = nn.Linear(6, 6, bias=False)
    layer.weight = nn.Parameter(factor * torch.eye(6))
    return layer


@pytest.mark.parametrize(("layer", "kind"), [(ConvexPotential, "gradient step"), (Sandwich, "sandwich")])
def test_the_rows_of_a_block_say_so_and_cost_nothing(layer: type[nn.Module], kind: str) -> None:
    torch.manual_seed(0)
    report = report_of(linear(2.0), layer(6, 6), linear(3.0))
    first, *inside, last = report.layers
    assert (first.block, last.block) == ("", "")
    assert inside
    assert all(row.block.startswith(f"{kind} ≤ 1.0") and row.share == 0 for row in inside)
    assert report.network.upper_bound == pytest.approx(6, rel=1e-4)
    assert [row.name for row in stretching(report)] == [last.name, first.name]
    assert any("Rows in blocks" in line for section in sections(report) for line in section.lines)
    assert AuditReport.from_json(report.to_json()).layers == report.layers


def test_a_network_of_blocks_alone_names_no_row_that_stretches() -> None:
    torch.manual_seed(0)
    report = report_of(ConvexPotential(6, 9), ConvexPotential(6, 9))
    assert any((row.upper_bound or 0) > 1 for row in report.layers)
    assert all(row.block for row in report.layers)
    assert stretching(report) == []


def test_a_residual_block_that_is_no_step_keeps_its_rows() -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = linear(2.0), linear(-3.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.outer(torch.relu(self.inner(x)).flip(1))

    report = report_of(Residual())
    assert [row.block for row in report.layers] == ["", ""]
    assert all((row.share or 0) > 0 for row in report.layers)


def test_what_is_read_beside_the_block_counts() -> None:
    """The product inside of a step that another output reads has a share of its own."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step, self.scale = ConvexPotential(6, 9), 4.0

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            hidden = torch.relu(torch.nn.functional.linear(x, self.step.weight, self.step.bias))
            factor = 2 / torch.linalg.matrix_norm(self.step.weight, 2) ** 2
            return x - factor * torch.nn.functional.linear(hidden, self.step.weight.T), self.scale * hidden

    torch.manual_seed(0)
    report = lipaudit.audit(Shared().double().eval(), input_shape=(1, 6), effort="none")
    assert report.layers[0].block == ""
    assert (report.layers[0].share or 0) > 0


def test_a_norm_that_was_proved_for_all_image_sizes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = ConvexPotentialConvolution(4, 4, 12, iterations=1000).eval()
    kinds = []
    for least in (1e9, 1e4):
        monkeypatch.setattr("lipaudit.network.shortcuts._LEAST_WORK", least)
        report = lipaudit.audit(net, input_shape=(1, 4, 12, 12), effort="none")
        kinds += [row.block.split(" ≤ ")[0] for row in report.layers]
    assert kinds == ["gradient step"] * 2 + ["gradient step, norm for all image sizes"] * 2
