"""Structure mode: every status, no figure, no weights, the same answer as with weights."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from jsonschema import Draft202012Validator
from torch import nn

from lipaudit import audit
from lipaudit.cli import main
from lipaudit.errors import ModelLoadError, UsageError
from lipaudit.report.json import to_dict
from lipaudit.report.record import AuditReport
from lipaudit.report.schema import load_schema

FIGURES = ("rigor", "lower_bound", "upper_bound", "log10_lower_bound", "log10_upper_bound", "tightness", "share")


def has_values_of(report: AuditReport) -> bool:
    """Whether the model was loaded with its weights: all but those of the registries."""
    return report.model.source not in ("torchvision", "timm")


def _check_bare(report: AuditReport) -> None:
    document = to_dict(report)
    assert [error.message for error in Draft202012Validator(load_schema()).iter_errors(document)] == []
    assert AuditReport.from_json(report.to_json()) == report
    network = document["network"]
    for entry in (network, *document["layers"], *network["outputs"], *network["other_domains"]):
        assert all(entry.get(key) is None for key in FIGURES)
        assert entry.get("pixel_upper_bound") is None
        assert entry.get("pixel_log10_upper_bound") is None
    assert report.settings.structure
    assert report.model.state_dict_sha256 is None
    read = has_values_of(report)
    said = "the weights came with the model but are in no figure" if read else "no weights were read"
    assert said in report.notes[0]
    assert not (read and any("no weights" in note for note in report.notes))


@pytest.mark.parametrize(
    "name", ["torchvision:squeezenet1_1", "timm:test_vit", "timm:test_efficientnet", "timm:test_resnet"]
)
def test_structure_agrees_with_random_weights(name: str) -> None:
    report = audit(name, structure=True, input_shape=None if "timm" in name else (64,))
    _check_bare(report)
    full = audit(name, weights="random", input_shape=None if "timm" in name else (64,))
    assert report.network.status == full.network.status
    assert report.model.num_parameters == full.model.num_parameters
    rows = {row.name: (row.op, row.status, row.weight_shape) for row in report.layers}
    for row in full.layers:
        if row.name in rows:  # a factor that happens to be 1 has no row
            assert rows[row.name] == (row.op, row.status, row.weight_shape)
    weighted = {row.name for row in full.layers if row.weight_shape}
    assert weighted == {row.name for row in report.layers if row.weight_shape}


def test_a_module_with_weights_keeps_them() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    before = module[0].weight.detach().clone()
    report = audit(module, input_shape=(1, 4), structure=True)
    _check_bare(report)
    assert report.network.status == "finite"
    assert torch.equal(module[0].weight, before)


def test_an_unsupported_operation_is_said_so() -> None:
    class Network(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.matrix_exp(x)

    report = audit(Network(), input_shape={"x": (1, 4, 4)}, structure=True)
    _check_bare(report)
    assert report.network.status == "unsupported"
    assert [row.status for row in report.layers] == ["unsupported"]


@pytest.mark.parametrize("options", [{"weights": "some.pth"}, {"lower_bound": True}, {"arch": "resnet18"}])
def test_structure_reads_no_weights(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="no weights"):
        audit("timm:resnet18", structure=True, **options)  # type: ignore[arg-type]


def test_without_structure_weights_must_be_there() -> None:
    with torch.device("meta"):
        module = nn.Linear(3, 3)
    with pytest.raises(ModelLoadError, match="meta device"):
        audit(module, input_shape=(1, 3))


def _spoil_layer(document: dict) -> None:
    document["layers"][0].update(upper_bound=1.0, rigor="certified")


def _spoil_network(document: dict) -> None:
    document["network"]["log10_upper_bound"] = 0.0


def _spoil_settings(document: dict) -> None:
    document["settings"]["structure"] = False


@pytest.mark.parametrize("spoil", [_spoil_layer, _spoil_network, _spoil_settings])
def test_a_figure_in_a_report_of_the_structure_is_a_contradiction(spoil: Callable[[dict], None]) -> None:
    document = to_dict(audit(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), input_shape=(1, 4), structure=True))
    spoil(document)
    assert not Draft202012Validator(load_schema()).is_valid(document)
    with pytest.raises(UsageError, match="contradicts itself"):
        AuditReport.from_json(json.dumps(document))


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timm:test_resnet", "--structure", "--strict"]) == 0
    out = capsys.readouterr().out
    assert "FINITE: every operation has a finite constant" in out
    assert "no weights were read" in " ".join(out.split())
    assert "at most" not in out


def test_a_file_is_not_said_to_be_unread() -> None:
    """Its conversion is compared with onnxruntime, which reads the weights."""
    report = audit("sample_models/digits_resnet.onnx", structure=True)
    _check_bare(report)
    assert any("agrees with" in note for note in report.notes)
    assert "no weights" not in str(report)


def test_a_gate_needs_a_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timm:test_resnet", "--structure", "--max-log10-bound", "3"]) == 2
    assert "--structure" in capsys.readouterr().err
