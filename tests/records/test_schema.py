from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lipaudit.errors import UsageError
from lipaudit.records.failure import Failure
from lipaudit.records.figure import ESTIMATE, Figure
from lipaudit.records.report import AuditReport, DomainRecord, OutputRecord
from lipaudit.records.report_array import outcomes_from_json, to_json_array
from lipaudit.records.schema import SCHEMA_ID, load_schema, several_schema_text
from tests.records import (
    fakes,
)

VALIDATOR = Draft202012Validator(load_schema())


def test_schema_is_a_valid_draft_2020_12_schema() -> None:
    Draft202012Validator.check_schema(load_schema())
    assert load_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert load_schema()["$id"] == SCHEMA_ID


@pytest.mark.parametrize(
    "report",
    [
        *fakes.REPORTS,
        fakes.report(upper_bound=None, log10_upper_bound=412.3),
        fakes.report(upper_bound=0.0, log10_upper_bound=None),
        fakes.report(status="unbounded", lower_bound=3.0, reasons=("a product",)),
        fakes.estimate(),
        fakes.estimate(iterations=100),
        fakes.estimate(estimate=None, log10_estimate=412.3),
        fakes.estimate(estimate=0.0, log10_estimate=None),
        fakes.estimate(outputs=(OutputRecord("a", "finite", Figure.of(3.0, ESTIMATE)),)),
        fakes.estimate(other_domains=(DomainRecord("global", "finite", Figure.of(3.0, ESTIMATE)),)),
    ],
)
def test_every_kind_of_report_validates(report: AuditReport) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(report.to_dict())] == []


def test_objects_are_open() -> None:
    document = fakes.report().to_dict()
    for part in (document, document["model"], document["network"], document["layers"][0], document["settings"]):
        part["added_in_1_1"] = {"any": "thing"}
    assert VALIDATOR.is_valid(document)


def drop(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda document: document.pop(key)


def put(*path: str | int, value: Any) -> Callable[[dict[str, Any]], object]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "spoil",
    [
        *(drop(key) for key in ("schema_version", "tool", "created", "model", "settings", "network", "layers")),
        put("schema_version", value="2.0"),
        put("tool", "name", value="other"),
        put("created", value="yesterday"),
        put("network", "status", value="unbounded"),
        put("network", "status", value="maybe"),
        put("network", "rigor", value=None),
        put("layers", 0, "status", value="unsupported"),
        put("layers", 0, "rigor", value="sure"),
        put("layers", 0, "upper_bound", value="4.75"),
        put("layers", 0, "upper_bound", value=-1.0),
        put("layers", 0, "inputs", value="input"),
        put("timings", "load", value=-1),
    ],
)
def test_what_the_layout_forbids_is_rejected(spoil: Callable[[dict[str, Any]], object]) -> None:
    document = copy.deepcopy(fakes.report().to_dict())
    spoil(document)
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize("place", ["network", "layer", "output"])
def test_finite_without_a_figure_is_rejected(place: str) -> None:
    document = fakes.two_outputs().to_dict()
    entry = {
        "network": document["network"],
        "layer": document["layers"][0],
        "output": document["network"]["outputs"][0],
    }
    entry[place].update(upper_bound=None, log10_upper_bound=None)
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    "spoil",
    [
        put("network", "other_domains", 0, "status", value="unbounded"),
        put("network", "other_domains", 0, "rigor", value=None),
        put("network", "other_domains", 0, "upper_bound", value=-1.0),
        put("network", "other_domains", 0, "domain", value=None),
        put("network", "other_domains", 0, "log10_upper_bound", value="8"),
        put("settings", "radius", value=None),
        put("settings", "radius", value=0.0),
        put("settings", "radius_in", value="inches"),
        put("settings", "around", value=3),
        put("settings", "domain", value="global"),
    ],
)
def test_a_domain_that_contradicts_itself_is_rejected(spoil: Callable[[dict[str, Any]], object]) -> None:
    document = copy.deepcopy(fakes.around_a_cat().to_dict())
    assert VALIDATOR.is_valid(document)
    spoil(document)
    assert not VALIDATOR.is_valid(document)


ESTIMATES_AS_BOUNDS = [
    put("network", "upper_bound", value=2.0),
    put("network", "log10_upper_bound", value=2.0),
    put("network", "pixel_upper_bound", value=2.0),
    put("network", "rigor", value="numerical"),
    put("network", "rigor", value="certified"),
    put("network", "status", value="unbounded"),
    put("network", "other_domains", 0, "upper_bound", value=2.0),
    put("network", "other_domains", 0, "rigor", value="certified"),
    put("network", "outputs", 0, "upper_bound", value=2.0),
    put("layers", 0, "upper_bound", value=2.0),
    put("layers", 0, "log10_upper_bound", value=2.0),
    put("layers", 0, "tightness", value=1.0),
    put("layers", 0, "rigor", value="numerical"),
    put("layers", 0, "status", value="unsupported"),
    put("layers", 1, "estimate", value=2.0),  # a bound beside an estimate
]


@pytest.mark.parametrize("spoil", ESTIMATES_AS_BOUNDS)
def test_an_estimate_is_never_an_upper_bound(spoil: Callable[[dict[str, Any]], object]) -> None:
    report = fakes.estimate(
        outputs=(OutputRecord("a", "finite", Figure.of(3.0, ESTIMATE)),),
        other_domains=(DomainRecord("global", "finite", Figure.of(3.0, ESTIMATE)),),
    )
    document = copy.deepcopy(report.to_dict())
    assert VALIDATOR.is_valid(document)
    assert AuditReport.from_json(report.to_json()) == report
    spoil(document)
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(UsageError, match="contradicts itself"):
        AuditReport.from_json(json.dumps(document))


def test_reports_from_before_domains_still_validate() -> None:
    document = fakes.report().to_dict()
    for key in ("around", "radius", "radius_in"):
        del document["settings"][key]
    del document["network"]["other_domains"], document["settings"]["iterations"]
    for entry in (document["network"], *document["layers"]):
        del entry["estimate"], entry["log10_estimate"]
    assert VALIDATOR.is_valid(document)


def test_the_array_of_several_models_has_a_schema_and_names_failed_ones() -> None:
    schema = json.loads(several_schema_text())
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    failure = Failure("broken.onnx", "the file is truncated", 3)
    document = json.loads(to_json_array([fakes.report(), fakes.gated()], [failure]))
    assert [error.message for error in validator.iter_errors(document)] == []
    assert outcomes_from_json(json.dumps(document)) == (fakes.report(), fakes.gated(), failure)
    for place, key in ((0, "network"), (2, "error"), (2, "model")):
        wrong = copy.deepcopy(document)
        del wrong[place][key]
        assert not validator.is_valid(wrong), key
        with pytest.raises(UsageError, match=f"report {place + 1} of 3: "):
            outcomes_from_json(json.dumps(wrong))
    assert not validator.is_valid(document[0])
