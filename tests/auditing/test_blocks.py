"""Rows in parts of a network whose constant counts in the place of theirs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.records.report import AuditReport
from lipaudit.records.stretching import costs, stretching
from lipaudit.text.advice import advice
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
    for least, per_weight in ((1e9, 0.0), (1e4, 0.0), (1e4, 5e6)):
        monkeypatch.setattr("lipaudit.network.shortcuts._LEAST_WORK", least)
        monkeypatch.setattr("lipaudit.network.gradient_steps._PER_WEIGHT", per_weight)
        report = lipaudit.audit(net, input_shape=(1, 4, 12, 12), effort="none")
        kinds += [row.block.split(" ≤ ")[0] for row in report.layers]
    assert kinds == ["gradient step"] * 2 + ["step, any size"] * 2 + ["gradient step"] * 2


class Step(nn.Module):
    """x - (size / ||W||^2) W^T relu(W x), whose constant is size - 1 where that is above 1."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.weight, self.size = nn.Parameter(torch.randn(9, 6)), size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = self.size / torch.linalg.matrix_norm(self.weight, 2) ** 2
        return x - factor * nn.functional.linear(
            nn.functional.relu(nn.functional.linear(x, self.weight)), self.weight.T
        )


def test_blocks_that_stretch_cost_as_much_as_their_constants() -> None:
    torch.manual_seed(0)
    report = report_of(linear(1.2), Step(2.3), linear(1.01), Step(2.1))
    assert report.network.upper_bound == pytest.approx(1.2 * 1.3 * 1.01 * 1.1, rel=1e-4)
    listed = costs(report)
    assert [10**cost.log10 for cost in listed] == pytest.approx([1.3, 1.2, 1.1, 1.01], rel=2e-3)
    assert [bool(cost.block) for cost in listed] == [True, False, True, False]
    assert sum(row.share or 0 for row in report.layers) == pytest.approx(1)
    (lines,) = [part.lines for part in sections(report) if part.label == "Costs most"]
    assert "%" not in "".join(lines)
    assert lines[0].startswith(", ".join(row.name for row in listed[0].rows))
    (first,) = [line for line in advice(report) if "costs most" in line]
    assert all(row.name in first for row in listed[0].rows)


def test_a_step_whose_norm_is_that_of_its_own_image_size_says_nothing_of_other_sizes() -> None:
    """Written out, ||A|| on 6 by 6 pixels is attained; over all frequencies it is larger."""

    class Convolutions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(5, 2, 3, 3))
            squared = written_out(self.weight, 6) ** 2
            self.factor = 2.1 / squared

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.relu(torch.conv2d(x, self.weight, padding=1))
            return x - self.factor * torch.conv_transpose2d(hidden, self.weight, padding=1)

    torch.manual_seed(0)
    net = Convolutions().double().eval()
    report = lipaudit.audit(net, input_shape=(1, 2, 6, 6), effort="none")
    assert report.network.upper_bound == pytest.approx(1.1, rel=1e-4)
    assert {row.block for row in report.layers} <= {"gradient step ≤ 1.1", "gradient step ≤ 1.101"}
    assert written_out(net.weight, 40) > 1.01 * written_out(net.weight, 6)


def written_out(weight: torch.Tensor, size: int) -> float:
    """The norm of a zero-padded convolution on images of this size, by its Gram operator's largest eigenvalue."""
    x = torch.randn(1, weight.shape[1], size, size, dtype=torch.float64)
    weight = weight.detach().to(torch.float64)
    for _ in range(2000):
        x = torch.conv_transpose2d(torch.conv2d(x, weight, padding=1), weight, padding=1)
        x = x / x.norm()
    return float(torch.conv2d(x, weight, padding=1).norm())


def test_rounding_alone_has_no_shares() -> None:
    class Bent(nn.Module):
        """w x - tanh(x) / 2 with w = 1, which is one matrix with the norm 1 and one that shrinks."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)
            self.layer.weight = nn.Parameter(torch.ones(1, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) - torch.tanh(x) / 2

    report = lipaudit.audit(Bent().eval(), input_shape=(1, 1), effort="none")
    assert [row.share for row in report.layers] == [None, None]
