"""Structure mode: every status, no figure, no weights, the same answer as with weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy
import onnx
import pytest
import torch
from jsonschema import Draft202012Validator
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from lipaudit import audit
from lipaudit.cli import main
from lipaudit.errors import ModelLoadError, UsageError
from lipaudit.records.report import AuditReport
from lipaudit.records.schema import load_schema

FIGURES = ("rigor", "lower_bound", "upper_bound", "log10_lower_bound", "log10_upper_bound", "tightness", "share")


def has_values_of(report: AuditReport) -> bool:
    """Whether the model was loaded with its weights: all but those of the registries."""
    return report.model.source not in ("torchvision", "timm")


def _check_bare(report: AuditReport) -> None:
    document = report.to_dict()
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


def _plus(branch: Callable[[nn.Module, torch.Tensor], torch.Tensor], **weights: torch.Tensor) -> nn.Module:
    """x + branch(weights, x), the weights being parameters where they can be, else buffers."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, value in weights.items():
                if value.is_floating_point():
                    self.register_parameter(name, nn.Parameter(value.clone()))
                else:
                    self.register_buffer(name, value.clone())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + branch(self, x)

    return Network()


def _normalised(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return nn.functional.batch_norm((x * x)[..., None], m.mean, m.variance, m.gain, None)[..., 0]


NONE = torch.zeros(4, dtype=torch.bool)
# A square, which has no bound, and weights that would hide it from who reads their values.
HIDDEN: dict[str, tuple[Callable[[nn.Module, torch.Tensor], torch.Tensor], dict[str, torch.Tensor]]] = {
    "one gain": (lambda m, x: m.gain * x * x, {"gain": torch.zeros(1)}),
    "a gain without axes": (lambda m, x: m.gain * (x * x), {"gain": torch.tensor(0.0)}),
    "gains per channel": (lambda m, x: (x * x) * m.gain, {"gain": torch.zeros(4)}),
    "whole numbers": (lambda m, x: m.gain * (x * x), {"gain": torch.zeros(4, dtype=torch.int64)}),
    "a mask as a factor": (lambda m, x: m.gain * (x * x), {"gain": NONE}),
    "complex gains": (
        lambda m, x: torch.real(torch.complex(x * x, x) * m.gain), {"gain": torch.zeros(4, dtype=torch.complex64)},
    ),
    "a function of a gain": (lambda m, x: torch.tanh(m.gain) * (x * x), {"gain": torch.zeros(4)}),
    "the rest of a gain": (lambda m, x: (1 - m.gain) * (x * x), {"gain": torch.ones(4)}),
    "addcmul": (lambda m, x: torch.addcmul(x, x * x, m.gain), {"gain": torch.zeros(4)}),
    "a dense layer": (lambda m, x: nn.functional.linear(x * x, m.gain), {"gain": torch.zeros(4, 4)}),
    "a matrix on the left": (lambda m, x: (m.gain @ (x * x).mT).mT, {"gain": torch.zeros(4, 4)}),
    "einsum": (lambda m, x: torch.einsum("bi,ij->bj", x * x, m.gain), {"gain": torch.zeros(4, 4)}),
    "batch norm": (_normalised, {"gain": torch.zeros(4), "mean": torch.zeros(4), "variance": torch.ones(4)}),
    "where it holds": (lambda m, x: torch.where(m.mask, x * x, x), {"mask": NONE}),
    "where it does not": (lambda m, x: torch.where(m.mask, x, x * x), {"mask": ~NONE}),
    "what a mask leaves": (lambda m, x: (x * x).masked_fill(m.mask, 1.0), {"mask": ~NONE}),
    "what a scatter leaves": (lambda m, x: (x * x).masked_scatter(m.mask, x), {"mask": ~NONE[None]}),
    "a place of its own": (
        lambda m, x: (x * x).index_put((torch.tensor([0]), m.place), x[0]), {"place": torch.arange(4)},
    ),
    "an exponent": (lambda m, x: x.clamp(min=1e-6) ** m.power, {"power": torch.ones(1)}),
    "a positive shift": (lambda m, x: torch.ones(4) / (x.abs() + m.shift), {"shift": torch.ones(4)}),
    "a rate of decay": (lambda m, x: x * torch.exp(-m.rate * x * x), {"rate": torch.ones(1)}),
}  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_structure_does_not_depend_on_weights(name: str, device: str) -> None:
    branch, weights = HIDDEN[name]
    report = audit(_plus(branch, **weights).to(device), input_shape={"x": (1, 4)}, structure=True)
    assert report.network.status == "unbounded"


@pytest.mark.parametrize(
    ("branch", "weight"),
    [
        (nn.functional.linear, torch.full((4, 4), torch.nan)),
        (lambda x, w: x / w, torch.zeros(4)),
        (lambda x, w: nn.functional.batch_norm(x[..., None], torch.zeros(4), w)[..., 0], -torch.ones(4)),
        (nn.functional.prelu, torch.full((1,), torch.inf)),
    ],
)
def test_weights_that_a_bound_would_refuse_are_not_read(
    branch: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], weight: torch.Tensor
) -> None:
    module = _plus(lambda m, x: branch(x, m.weight), weight=weight)
    assert audit(module, input_shape={"x": (1, 4)}, structure=True).network.status == "finite"


@pytest.mark.parametrize("gain", [0.0, 1.0])
def test_weights_of_one_entry_in_a_file_are_not_read(gain: float, tmp_path: Path) -> None:
    """Their values arrive as numbers of the graph."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("Mul", ["square", "gain"], ["branch"]),
        helper.make_node("Add", ["x", "branch"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    weights = [numpy_helper.from_array(numpy.array([gain], dtype=numpy.float32), "gain")]
    model = helper.make_model(helper.make_graph(nodes, "gated", [x], [y], weights), ir_version=8)
    model.opset_import[0].version = 17
    onnx.save(model, tmp_path / "gated.onnx")
    assert audit(str(tmp_path / "gated.onnx"), structure=True).network.status == "unbounded"


def test_on_a_domain_only_being_bounded_is_known() -> None:
    """Squares and exponentials of what is bounded are; a logarithm may come near its pole, wherever the centre is."""
    around = torch.full((1, 4), 2.0)

    def status(branch: Callable[[torch.Tensor], torch.Tensor]) -> str:
        module = nn.Sequential(nn.Linear(4, 4), _plus(lambda m, x: branch(x)))
        options = {"structure": True, "domain": "ball", "around": around, "radius": 0.1}
        return audit(module, input_shape={"input": (1, 4)}, **options).network.status

    assert [status(f) for f in (torch.square, torch.exp, torch.log1p)] == ["finite", "finite", "unbounded"]


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
    with pytest.raises(UsageError, match="cannot be combined with structure"):
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
    document = audit(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), input_shape=(1, 4), structure=True).to_dict()
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
