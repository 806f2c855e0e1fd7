"""The JSON of diffs and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lipaudit.auditing.diff import diff as diff_reports
from lipaudit.errors import UsageError
from lipaudit.records.comparison import Comparison
from lipaudit.records.diff import ReportDiff
from lipaudit.records.report import AuditReport
from tests.auditing.test_diff import chain
from tests.records import (
    fakes,
)


def found() -> ReportDiff:
    before = fakes.report(
        (fakes.layer("a\x1b|", 2.0), fakes.layer("b", 3.0), fakes.missing("c", "unbounded", "mul", "why"))
    )
    after = fakes.gated(other_domains=())
    return diff_reports(before, after)


def test_round_trip_gives_an_equal_diff() -> None:
    for record in (found(), diff_reports(fakes.gated(), fakes.gated()), diff_reports(chain([2.0, 3.0]), chain([4.0]))):
        assert ReportDiff.from_json(record.to_json()) == record
        assert ReportDiff.from_json(record.to_json(None).encode()) == record
        assert record.to_json() == ReportDiff.from_json(record.to_json()).to_json()


def test_the_document_says_what_it_is() -> None:
    document = json.loads(found().to_json())
    assert list(document)[:3] == ["kind", "schema_version", "tool"]
    assert (document["kind"], document["schema_version"]) == ("diff", "1.1")
    assert document["tool"] == {"name": "lipaudit", "version": "0.1.0"}
    assert document["network"] == {"verdict": "lost", "factor": None, "log10_factor": None}
    assert {layer["match"] for layer in document["layers"]} == {"added", "removed"}


def test_raw_numbers_survive() -> None:
    document = json.loads(diff_reports(chain([3.0]), chain([4.0])).to_json())
    (row,) = document["layers"]
    assert (row["before"]["upper_bound"], row["after"]["upper_bound"]) == (3.0, 4.0)
    assert row["move"]["factor"] == pytest.approx(4 / 3, rel=1e-14)


def test_what_reads_reports_and_comparisons_refuses_a_diff() -> None:
    with pytest.raises(
        UsageError, match=r"a diff of two reports, no report of an audit: read it with ReportDiff\.from_json"
    ):
        AuditReport.from_json(found().to_json())
    with pytest.raises(UsageError, match="no comparison"):
        Comparison.from_json(found().to_json())


def changed(*path: str | int, value: Any) -> str:
    document = place = json.loads(diff_reports(chain([3.0]), chain([4.0])).to_json())
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON, so it is no diff"),
        ("[]", "its kind is not 'diff'"),
        (fakes.report().to_json(), "its kind is not 'diff'"),
        (changed("tool", value={"name": "other"}), "its kind is not 'diff'"),
        (changed("schema_version", value="2.0"), "schema version 2.0, this lipaudit reads 1.x"),
        (changed("network", "verdict", value="fine"), r"diff\.network\.verdict is 'fine'"),
        (changed("layers", 0, "move", "verdict", value="fine"), r"diff\.layers\[0\]\.move\.verdict is 'fine'"),
        (changed("layers", 0, "match", value="guessed"), r"diff\.layers\[0\] does not fit its match 'guessed'"),
        (changed("layers", 0, "match", value="added"), r"does not fit its match 'added'"),
        (changed("layers", 0, "move", value=None), r"does not fit its match 'name'"),
        (changed("layers", 0, "before", "status", value="fine"), r"diff\.layers\[0\]\.before\.status is 'fine'"),
        (
            changed("layers", 0, "after", "upper_bound", value="4"),
            r"diff\.layers\[0\]\.after\.upper_bound must be a number",
        ),
        (changed("network", "factor", value=float("inf")), "holds Infinity"),
        (changed("before", value=None), r"diff\.before must be an object"),
    ],
)
def test_a_wrong_document_gives_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ReportDiff.from_json(text)


def test_newer_minor_versions_with_unknown_keys_are_read() -> None:
    document = json.loads(changed("schema_version", value="1.7"))
    document["layers"][0]["colour"] = "blue"
    assert ReportDiff.from_json(json.dumps(document)) == diff_reports(chain([3.0]), chain([4.0]))
