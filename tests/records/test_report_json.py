from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipaudit.errors import UsageError
from lipaudit.records.report import AuditReport
from lipaudit.records.report_array import outcomes_from_json, to_json_array
from tests.records import (
    fakes,
)

NO_LOWER: dict[str, Any] = {"lower_bound": None, "log10_lower_bound": None}


@pytest.mark.parametrize("report", fakes.REPORTS)
def test_round_trip_gives_an_equal_report(report: AuditReport) -> None:
    assert AuditReport.from_json(report.to_json()) == report
    assert AuditReport.from_json(report.to_json(indent=None).encode()) == report


@given(
    st.floats(min_value=0, allow_infinity=False, allow_nan=False),
    st.floats(min_value=-1e5, max_value=1e5, allow_nan=False),
    st.text(max_size=20),
)
def test_every_float_and_name_survives_to_the_last_bit(upper: float, log10: float, name: str) -> None:
    plain = fakes.layer("plain", upper_bound=upper, log10_upper_bound=None, lower_bound=0.0, log10_lower_bound=None)
    logarithm = fakes.layer("logarithm", upper_bound=None, log10_upper_bound=log10, note=name, **NO_LOWER)
    report = fakes.report((replace(plain, name=name), logarithm))
    assert AuditReport.from_json(report.to_json()) == report


def test_layout_is_the_documented_one() -> None:
    document = json.loads(fakes.report().to_json())
    assert list(document)[:8] == [
        "$schema",
        "schema_version",
        "tool",
        "created",
        "model",
        "settings",
        "environment",
        "network",
    ]
    assert document["schema_version"] == "1.2"
    assert document["tool"] == {"name": "lipaudit", "version": "0.1.0"}
    assert document["model"]["input_shape"] == [1, 3, 224, 224]
    assert document["layers"][0]["weight_shape"] == [64, 3, 7, 7]
    assert document["timings"]["capture"] == 2.2


def test_text_is_ascii_and_independent_of_the_order_of_the_environment() -> None:
    report = fakes.report((fakes.layer("größe"),))
    turned = replace(report, environment=dict(reversed(report.environment.items())))
    assert report.to_json().isascii()
    assert turned.to_json() == report.to_json()


def test_unbounded_is_null_beside_its_status() -> None:
    document = fakes.unsupported().to_dict()
    assert document["network"]["upper_bound"] is None
    assert document["layers"][-1]["status"] == "unsupported"
    assert document["layers"][-1]["upper_bound"] is None


def test_several_reports_are_an_array() -> None:
    documents = json.loads(to_json_array(fakes.REPORTS))
    assert [document["network"]["status"] for document in documents] == [r.network.status for r in fakes.REPORTS]


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_infinity_and_nan_are_never_written(bad: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        fakes.report((fakes.layer("conv", tightness=bad),)).to_json()


@pytest.mark.parametrize(
    ("layer", "problem"),
    [
        (fakes.layer("conv", status="unbounded"), r"layers\[0\] is unbounded but has a upper_bound"),
        (
            fakes.layer("conv", upper_bound=None, log10_upper_bound=None),
            r"layers\[0\] is finite but has no upper bound",
        ),
        (fakes.layer("conv", status="fine"), r"layers\[0\].status is 'fine'"),
    ],
)
def test_a_report_that_contradicts_itself_is_not_written(layer: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        fakes.report((layer,)).to_json()


def changed(*path: str | int, value: Any) -> str:
    document = json.loads(fakes.report().to_json())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ('{"schema_version": ', "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        ("[]", "no schema_version"),
        ('{"results": 3}', "no schema_version"),
        ('{"schema_version": "1.0", "tool": {"name": "other"}}', "tool.name"),
        ('{"schema_version": "1.0", "tool": {"name": "lipaudit", "version": "1"}}', "report lacks model"),
        (changed("kind", value="comparison"), "this JSON is a comparison of methods, no report"),
        (changed("schema_version", value="2.0"), "schema version 2.0, this lipaudit reads 1.x"),
        (changed("layers", 2, "upper_bound", value="4"), r"report.layers\[2\].upper_bound must be a number"),
        (changed("layers", 2, "inputs", value="x"), r"report.layers\[2\].inputs must be an array"),
        (changed("layers", 1, value=3), r"report.layers\[1\] must be an object"),
        (changed("settings", "seed", value=True), "report.settings.seed must be an integer"),
        (changed("model", "num_parameters", value=2.5), "report.model.num_parameters must be an integer"),
        (changed("timings", value=[]), "report.timings must be an object"),
        (changed("network", "upper_bound", value=math.nan), "holds NaN"),
        (changed("network", "upper_bound", value=-math.inf), "holds -Infinity"),
        (changed("network", "upper_bound", value=10**400), "upper_bound is too large"),
        (changed("network", "status", value="unbounded"), "network is unbounded but has a upper_bound"),
        (changed("layers", 0, "status", value=None), r"layers\[0\].status is None"),
        (
            changed(
                "network", "other_domains", value=[{"domain": "pixels", "status": "unbounded", "upper_bound": 2.0}]
            ),
            r"network.other_domains\[0\] is unbounded but has a upper_bound",
        ),
        (
            changed("network", "other_domains", value=[{"domain": "pixels", "status": "finite"}]),
            r"network.other_domains\[0\] is finite but has no upper bound",
        ),
        (changed("network", "other_domains", value=[{"status": "unbounded"}]), r"other_domains\[0\] lacks domain"),
        (changed("settings", "radius", value="1"), "report.settings.radius must be a number"),
    ],
)
def test_a_wrong_document_gives_one_clear_error(text: str | bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AuditReport.from_json(text)


def test_a_huge_literal_does_not_become_infinity() -> None:
    with pytest.raises(UsageError, match="too large"):
        AuditReport.from_json(fakes.report().to_json().replace('"upper_bound": 2.0,', '"upper_bound": 1e999,'))


def test_newer_minor_versions_with_unknown_keys_are_read() -> None:
    text = changed("network", "radius_at_risk", value=[1, 2])
    assert AuditReport.from_json(text.replace('"schema_version": "1.2"', '"schema_version": "1.7"')) == fakes.report()


def test_optional_parts_may_be_absent() -> None:
    document = json.loads(fakes.report().to_json())
    del document["notes"], document["timings"], document["$schema"]
    assert AuditReport.from_json(json.dumps(document)) == replace(fakes.report(), notes=(), timings={})


def test_an_array_is_no_single_report() -> None:
    text = to_json_array(fakes.REPORTS)
    with pytest.raises(
        UsageError, match=f"this JSON holds several reports, an array of {len(fakes.REPORTS)}: take one"
    ):
        AuditReport.from_json(text)
    assert AuditReport.from_json(json.dumps(json.loads(text)[0])) == fakes.REPORTS[0]


def test_one_report_and_an_array_of_several_are_read() -> None:
    assert outcomes_from_json(fakes.report().to_json()) == (fakes.report(),)
    assert outcomes_from_json(to_json_array(fakes.REPORTS).encode()) == fakes.REPORTS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "the array holds no report"),
        (f"[{fakes.report().to_json()}, 3]", "report 2 of 2: this JSON is no lipaudit report"),
        ("[[]]", "report 1 of 1: this JSON is no lipaudit report"),
        ("[" * 100_000, "this is not JSON"),
        ("[" + "1" * 5000 + "]", "this is not JSON"),
        (b"\xff\xfe\x00", "this is not JSON"),
    ],
)
def test_what_is_no_array_of_reports_is_refused(text: str | bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        outcomes_from_json(text)
