"""A report is verified from its model and its certificate alone, and what was altered is refused."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import lipaudit
from lipaudit.auditing.certificate import read_certificate
from lipaudit.cli import main
from lipaudit.errors import UsageError
from lipaudit.network.forms.certificate import Certificate
from lipaudit.records.report import AuditReport
from tests.places import SAMPLES

RESNET = str(SAMPLES / "digits_resnet.onnx")


def small() -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 9), nn.ReLU(), nn.Linear(9, 4)
    ).eval()  # fmt: skip


class Audited:
    """A report with the file of its certificate."""

    def __init__(self, model: Any, folder: Path, **options: Any) -> None:
        self.model, self.file = model, folder / "proof.safetensors"
        self.report = lipaudit.audit(model, effort="quick", certificate=self.file, **options)

    def forged(self, change: Callable[[Certificate], None], folder: Path) -> tuple[AuditReport, Path]:
        """The report with another certificate, whose hash stands in the report."""
        certificate, _ = read_certificate(str(self.file))
        change(certificate)
        file = folder / "forged.safetensors"
        file.write_bytes(certificate.to_bytes())
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        network = self.report.network
        bounds = tuple(replace(b, certificate_sha256=digest) if b.segments else b for b in network.bounds)
        return replace(self.report, network=replace(network, bounds=bounds)), file


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return Audited(small(), tmp_path_factory.mktemp("small"), input_shape=(1, 8, 8))


@pytest.fixture(scope="module")
def convolutional(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return Audited(RESNET, tmp_path_factory.mktemp("resnet"))


def lowered(report: AuditReport, factor: float = 0.99) -> AuditReport:
    """The network's bound, and the one by forms, lowered."""
    document = report.to_dict()
    for entry in (document["network"], *document["network"]["bounds"][1:], *document["network"]["outputs"]):
        entry["upper_bound"] *= factor
        entry["log10_upper_bound"] += math.log10(factor)
    return AuditReport.from_document(document)


def test_what_an_audit_wrote_is_verified(audited: Audited, convolutional: Audited) -> None:
    for case in (audited, convolutional):
        found = lipaudit.verify(case.report, case.model, case.file)
        assert found.problems == ()
        assert found.log10_upper_bound == pytest.approx(case.report.network.log10, abs=1e-10)
        assert found.figures > 2 + len(case.report.layers)


def test_the_report_names_the_file_and_the_file_is_the_same_every_time(audited: Audited, tmp_path: Path) -> None:
    (forms,) = (bound for bound in audited.report.network.bounds if bound.name == "forms")
    assert forms.certificate == "proof.safetensors"
    assert forms.certificate_sha256 == hashlib.sha256(audited.file.read_bytes()).hexdigest()
    assert AuditReport.from_json(audited.report.to_json()) == audited.report
    again = Audited(small(), tmp_path, input_shape=(1, 8, 8))
    assert again.file.read_bytes() == audited.file.read_bytes()


def test_no_step_of_a_search_is_taken(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*_: object, **__: object) -> None:
        raise AssertionError("a verification searched")

    for place in (
        "balancing.minimise",
        "forms.tighten.minimise",
        "forms.bound.tighten",
        "forms.bound.plan",
        "forms.segment.Segment.value",
        "forms.segment.Segment.start",
    ):
        monkeypatch.setattr(f"lipaudit.network.{place}", searched)
    assert lipaudit.verify(audited.report, audited.model, audited.file).verified


@pytest.mark.parametrize("which", ["audited", "convolutional"])
def test_a_bound_that_was_lowered_is_refused(which: str, request: pytest.FixtureRequest) -> None:
    case: Audited = request.getfixturevalue(which)
    found = lipaudit.verify(lowered(case.report), case.model, case.file)
    assert not found.verified
    assert found.problems[0].startswith("The upper bound of the network that is proved is 10^")


def test_the_bound_of_a_row_that_was_lowered_is_refused(audited: Audited) -> None:
    document = audited.report.to_dict()
    row = document["layers"][0]
    row["lower_bound"] = row["log10_lower_bound"] = row["tightness"] = None
    row["upper_bound"] *= 0.99
    row["log10_upper_bound"] += math.log10(0.99)
    found = lipaudit.verify(AuditReport.from_document(document), audited.model, audited.file)
    assert [problem.partition(" that is")[0] for problem in found.problems] == ["The upper bound of the row '0'"]


def scale_multiplier(certificate: Certificate) -> None:
    """The multipliers of an activation between two convolutions, 1 % less."""
    certificate.multipliers["relu_3"].mul_(0.99)


def scale_units(certificate: Certificate) -> None:
    """The units of the first operation, some of them up to 10 % less: another proof, of another bound."""
    next(iter(certificate.scales.values())).mul_(torch.linspace(0.9, 1.0, len(next(iter(certificate.scales.values())))))


def scale_metric(certificate: Certificate) -> None:
    values = max(certificate.metrics.values(), key=lambda numbers: float(numbers.max()))
    values[int(values.argmax())] *= 0.99


@pytest.mark.parametrize("change", [scale_multiplier, scale_metric, scale_units])
def test_a_certificate_that_was_altered_is_refused(
    convolutional: Audited, change: Callable[[Certificate], None], tmp_path: Path
) -> None:
    forged, file = convolutional.forged(change, tmp_path)
    found = lipaudit.verify(convolutional.report, convolutional.model, file)
    (problem,) = found.problems
    assert problem.startswith("The certificate is not the one that the report names: its SHA-256 is ")
    by_bound = lipaudit.verify(forged, convolutional.model, file)
    assert by_bound.problems
    assert by_bound.problems[0].startswith("The upper bound of the ")


def test_a_model_with_one_other_weight_is_refused(audited: Audited) -> None:
    other = copy.deepcopy(audited.model)
    with torch.no_grad():
        weight = other[6].weight
        place = weight.abs().argmax()
        weight.view(-1)[place] *= 1.5
    found = lipaudit.verify(audited.report, other, audited.file)
    assert found.problems[0].startswith("The model has other weights than the report says: their SHA-256 is ")
    known = lipaudit.audit(other, (1, 8, 8), effort="none").model
    forged = replace(audited.report, model=known)
    by_bound = lipaudit.verify(forged, other, audited.file)
    assert any(problem.startswith("The upper bound of the network that is proved") for problem in by_bound.problems)


def test_another_network_does_not_fit_the_certificate(audited: Audited) -> None:
    other = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(192, 4)).eval()
    found = lipaudit.verify(audited.report, other, audited.file)
    assert any("The certificate does not prove a bound of this network" in problem for problem in found.problems)


def test_a_report_of_the_product_needs_no_certificate(tmp_path: Path) -> None:
    report = lipaudit.audit(small(), (1, 8, 8), effort="none")
    assert lipaudit.verify(report, small()).verified
    document = report.to_dict()
    for entry in (document["network"], *document["network"]["bounds"], *document["network"]["outputs"]):
        entry["upper_bound"] *= 0.99
        entry["log10_upper_bound"] += math.log10(0.99)
    assert not lipaudit.verify(AuditReport.from_document(document), small()).verified
    pixels = lipaudit.audit(str(SAMPLES / "digits_se.onnx"), domain="pixels", mean=0.0, std=1.0)
    assert lipaudit.verify(pixels, str(SAMPLES / "digits_se.onnx")).verified


def test_held_inputs_are_held_again() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return self.linear(x) * scale

    torch.manual_seed(0)
    net = Scaled()
    report = lipaudit.audit(net, {"x": (1, 3)}, fix={"scale": torch.tensor([[1.0, 2.0, 3.0]])})
    assert lipaudit.verify(report, net).verified
    other = lipaudit.verify(report, net, fix={"scale": torch.tensor([[1.0, 2.0, 4.0]])})
    assert "Inputs are held at other values than the report says." in other.problems


@pytest.mark.parametrize(
    ("owner", "field", "value"),
    [
        ("model", "input_shape", [1, 1, 4, 4]),
        ("model", "num_parameters", 7),
        ("settings", "dtype", "float32"),
        ("settings", "radius_in", "pixels"),
    ],
)
def test_other_inputs_or_units_than_those_of_the_audit_are_refused(
    audited: Audited, owner: str, field: str, value: object
) -> None:
    document = audited.report.to_dict()
    document[owner][field] = value
    found = lipaudit.verify(AuditReport.from_document(document), audited.model, audited.file)
    assert any(problem.startswith(f"The report's {owner}.{field} is ") for problem in found.problems)


def test_what_cannot_be_verified_is_an_error(audited: Audited, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"give the file 'proof.safetensors'"):
        lipaudit.verify(audited.report, audited.model)
    for options in ({"structure": True}, {"method": "sedghi2019"}):
        with pytest.raises(UsageError, match="the report cannot be verified: "):
            lipaudit.verify(lipaudit.audit(small(), (1, 8, 8), **options), small())  # type: ignore[arg-type]
    for content in (b"", b"no certificate", audited.file.read_bytes()[:-9]):
        (tmp_path / "damaged.safetensors").write_bytes(content)
        with pytest.raises(UsageError, match=r"damaged.safetensors: it is no certificate"):
            lipaudit.verify(audited.report, audited.model, tmp_path / "damaged.safetensors")


def test_numbers_that_are_missing_or_not_positive_are_refused(audited: Audited, tmp_path: Path) -> None:
    def drop(certificate: Certificate) -> None:
        del certificate.multipliers[next(iter(certificate.multipliers))]  # type: ignore[attr-defined]

    def negate(certificate: Certificate) -> None:
        next(iter(certificate.multipliers.values()))[0] *= -1

    for change, message in ((drop, "it lacks "), (negate, "are not positive and finite")):
        report, file = audited.forged(change, tmp_path)
        problems = lipaudit.verify(report, audited.model, file).problems
        assert any(message in problem for problem in problems), problems


def test_the_command_ends_with_0_1_2_or_3(
    convolutional: Audited, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    convolutional.report.save("report.json")
    lowered(convolutional.report).save("lowered.json")
    file = str(convolutional.file)
    assert main(["verify", "report.json", RESNET, file]) == 0
    assert capsys.readouterr().out.startswith("Verified: ")
    assert main(["verify", "lowered.json", RESNET, file, "-q"]) == 1
    assert "lipaudit: refused: The upper bound of the network that is proved is " in capsys.readouterr().err
    assert main(["verify", "report.json", RESNET]) == 2
    assert main(["verify", "report.json", "missing.onnx", file]) in (2, 3)


def test_an_audit_without_forms_says_that_it_wrote_no_certificate(tmp_path: Path) -> None:
    report = lipaudit.audit(nn.Linear(3, 3), (1, 3), effort="quick", certificate=tmp_path / "none.safetensors")
    assert not (tmp_path / "none.safetensors").exists()
    assert report.notes[-1].startswith("No certificate was written: ")
    with pytest.raises(UsageError, match="certificate"):
        lipaudit.audit(nn.Linear(3, 3), (1, 3), effort="none", certificate=tmp_path / "none.safetensors")
    with pytest.raises(UsageError, match=r"FILE\.safetensors"):
        lipaudit.audit(nn.Linear(3, 3), (1, 3), effort="quick", certificate=tmp_path / "none.json")


def test_the_numbers_are_plain_safetensors(audited: Audited) -> None:
    tensors = load_file(audited.file)
    assert {key.partition("/")[0] for key in tensors} <= {"multipliers", "metrics"}
    length = int.from_bytes(audited.file.read_bytes()[:8], "little")
    header = json.loads(audited.file.read_bytes()[8 : 8 + length])
    assert json.loads(header["__metadata__"]["lipaudit"])["format"] == "lipaudit certificate 1"


def test_a_bound_on_a_ball_is_verified_where_it_needs_no_search(tmp_path: Path) -> None:
    torch.save(torch.zeros(1, 1, 8, 8), tmp_path / "centre.pt")
    ball = {"domain": "ball", "around": str(tmp_path / "centre.pt"), "radius": 0.01, "absolute_paths": True}
    report = lipaudit.audit(small(), (1, 8, 8), effort="none", **ball)  # type: ignore[arg-type]
    assert lipaudit.verify(report, small()).problems == ()
    searched = lipaudit.audit(small(), (1, 8, 8), effort="quick", **ball)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="of which no certificate is kept"):
        lipaudit.verify(searched, small())
