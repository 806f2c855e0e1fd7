from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from lipaudit.errors import UsageError
from lipaudit.formats.cyclonedx import render
from lipaudit.formats.options import SPEC_VERSIONS, Audits, Options
from lipaudit.records.report import AuditReport
from tests.formats.reports import SAMPLES, hostile, later, sample, structure
from tests.records import (
    fakes,
)

VALIDATORS = {
    "1.5": JsonStrictValidator(SchemaVersion.V1_5),
    "1.6": JsonStrictValidator(SchemaVersion.V1_6),
    "1.7": JsonStrictValidator(SchemaVersion.V1_7),
}
REPORTS = {
    **{name: sample(name) for name in SAMPLES},
    "unsupported": fakes.unsupported(),
    "gated": fakes.gated(),
    "estimate": fakes.estimate(),
    "ball": fakes.around_a_cat(),
    "structure": structure(),
    "hostile": hostile(),
    "large": fakes.on_pixels(412.3),
}


def rendered(report: AuditReport, version: str = "1.6") -> str:
    return render(Audits([report]), Options(spec_version=version))


def component(report: AuditReport) -> Any:
    (found,) = json.loads(rendered(report))["components"]
    return found


def metrics(report: AuditReport) -> list[dict[str, str]]:
    found: list[dict[str, str]] = (
        component(report)["modelCard"].get("quantitativeAnalysis", {}).get("performanceMetrics", [])
    )
    return found


@pytest.mark.parametrize("version", SPEC_VERSIONS)
@pytest.mark.parametrize("name", REPORTS)
def test_the_strict_validator_accepts_it(name: str, version: str) -> None:
    text = rendered(REPORTS[name], version)
    assert VALIDATORS[version].validate_str(text) is None
    assert json.loads(text)["specVersion"] == version
    text.encode("utf-8")


def test_the_validator_can_fail() -> None:
    document = json.loads(rendered(fakes.report()))
    document["components"][0]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"][0]["value"] = 1.0
    assert VALIDATORS["1.6"].validate_str(json.dumps(document)) is not None


def test_the_figures_are_the_reports() -> None:
    report = sample("digits_resnet")
    found = component(report)
    assert found["type"] == "machine-learning-model"
    assert found["hashes"] == [{"alg": "SHA-256", "content": report.model.file_sha256}]
    values = {metric["type"]: float(metric["value"]) for metric in metrics(report)}
    assert values["l2 Lipschitz constant, upper bound (certified)"] == report.network.upper_bound
    assert {metric["slice"] for metric in metrics(report)} == {"all inputs"}
    properties = {entry["name"]: entry["value"] for entry in found["properties"]}
    assert properties["lipaudit:state_dict_sha256"] == report.model.state_dict_sha256
    assert properties["lipaudit:tolerance"] == "0.001"


def test_no_bound_is_claimed_where_there_is_none() -> None:
    assert metrics(fakes.unsupported()) == metrics(structure()) == []
    assert component(fakes.gated())["modelCard"]["considerations"]["technicalLimitations"]
    assert [metric["slice"] for metric in metrics(fakes.gated())] == ["all images with pixels in [0, 1]"] * 4
    assert metrics(fakes.estimate())
    assert not [metric for metric in metrics(fakes.estimate()) if "upper bound" in metric["type"]]
    properties = {entry["name"]: entry["value"] for entry in component(fakes.unsupported())["properties"]}
    assert properties["lipaudit:status"] == "unsupported"
    assert properties["lipaudit:unsupported"] == "head.fft (fft_rfft2)"


def test_the_same_report_gives_the_same_bytes() -> None:
    report = fakes.report()
    assert rendered(report) == rendered(replace(report))
    document, other = (json.loads(rendered(entry)) for entry in (report, later(report)))
    assert document["metadata"]["timestamp"] == report.created
    assert other["metadata"]["timestamp"] == "2027-01-01T00:00:00Z"
    assert (
        len({document["serialNumber"], other["serialNumber"], json.loads(rendered(report, "1.5"))["serialNumber"]}) == 3
    )


def test_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match=r"CycloneDX 1\.4 is not written; choose from 1\.5, 1\.6, 1\.7"):
        rendered(fakes.report(), "1.4")
