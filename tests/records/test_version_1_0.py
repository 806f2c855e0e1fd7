"""Reports of version 1.0, as lipaudit wrote them before networks had several bounds: they are read, and both schemas accept them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lipaudit.auditing.diff import diff
from lipaudit.records.diff import ReportDiff
from lipaudit.records.report import AuditReport, LayerRecord
from lipaudit.records.schema import SCHEMA_VERSION, VERSIONS, load_schema
from tests.places import SAMPLES
from tests.records import (
    fakes,
)

FOLDER = SAMPLES.parent / "tests" / "records" / "reports_1_0"
NAMES = sorted(file.stem for file in FOLDER.glob("*.json"))
VALIDATORS = {version: Draft202012Validator(load_schema(version)) for version in VERSIONS}


def saved(name: str) -> dict[str, Any]:
    """A report of version 1.0; the parts that differ from run to run are not kept."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return {**document, "created": "2026-11-27T20:28:00Z", "timings": {}, "environment": {}}


def same_numbers(record: Any, entry: dict[str, Any], place: str) -> None:
    """Every key of the old document is an attribute of the record, with the same value."""
    for key, value in entry.items():
        if not isinstance(value, dict) and not (isinstance(value, list) and any(isinstance(v, dict) for v in value)):
            found = getattr(record, key)
            assert (list(found) if isinstance(found, tuple) else found) == value, f"{place}.{key}"


def test_there_are_reports_of_version_1_0() -> None:
    assert len(NAMES) == 5
    assert {saved(name)["schema_version"] for name in NAMES} == {"1.0"}


@pytest.mark.parametrize("name", NAMES)
def test_a_report_of_version_1_0_is_read_with_all_its_numbers(name: str) -> None:
    document = saved(name)
    report = AuditReport.from_json(json.dumps(document))
    same_numbers(report.network, document["network"], "network")
    for number, (row, entry) in enumerate(zip(report.layers, document["layers"], strict=True)):
        assert isinstance(row, LayerRecord)
        same_numbers(row, entry, f"layers[{number}]")
    for record, entry in zip(report.network.outputs, document["network"]["outputs"], strict=True):
        same_numbers(record, entry, "output")
    for domain, entry in zip(report.network.other_domains, document["network"]["other_domains"], strict=True):
        same_numbers(domain, entry, "domain")
    assert str(report)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_all_versions_accept_reports_of_all(name: str, version: str) -> None:
    old = saved(name)
    new = AuditReport.from_json(json.dumps(old)).to_dict()
    assert (old["schema_version"], new["schema_version"]) == ("1.0", SCHEMA_VERSION)
    for document in (old, new):
        assert [error.message for error in VALIDATORS[version].iter_errors(document)] == []


def test_every_key_of_version_1_0_is_still_written() -> None:
    for name in NAMES:
        old, new = saved(name), AuditReport.from_json(json.dumps(saved(name))).to_dict()
        assert set(old) <= set(new)
        for part in ("model", "settings", "network"):
            assert set(old[part]) <= set(new[part])
        assert all(set(a) <= set(b) for a, b in zip(old["layers"], new["layers"], strict=True))


def with_outputs(rigor: str | None) -> dict[str, Any]:
    """A network of two outputs whose rigor the document does not say."""
    document = copy.deepcopy(fakes.two_outputs().to_dict())
    document["network"]["rigor"] = rigor
    del document["network"]["bounds"]
    for output in document["network"]["outputs"]:
        del output["rigor"]
    return document


@pytest.mark.parametrize("rigor", ["certified", "numerical"])
def test_an_output_is_as_rigorous_as_the_network(rigor: str) -> None:
    report = AuditReport.from_document(with_outputs(rigor))
    assert {output.rigor for output in report.network.outputs} == {rigor}


def test_an_output_of_a_network_without_a_bound_is_numerical_at_least() -> None:
    document = with_outputs(None)
    figures = ("upper_bound", "log10_upper_bound", "pixel_upper_bound", "pixel_log10_upper_bound", "lower_bound")
    document["network"] |= {"status": "unbounded", **dict.fromkeys(figures)}
    for layer in document["layers"]:
        layer["share"] = None
    assert {output.rigor for output in AuditReport.from_document(document).network.outputs} == {"numerical"}


def test_a_diff_of_version_1_0_is_read() -> None:
    written = diff(fakes.two_outputs(), fakes.two_outputs())
    document = json.loads(written.to_json())
    document["schema_version"] = "1.0"
    for side in ("before", "after"):
        del document[side]["network"]["bounds"]
        for output in document[side]["network"]["outputs"]:
            del output["rigor"]
    assert ReportDiff.from_json(json.dumps(document)) == written
