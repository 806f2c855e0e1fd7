from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from junitparser import Failure, JUnitXml, Skipped, TestCase

from lipaudit.formats.junit import render
from lipaudit.formats.options import Audits, Options
from lipaudit.gates.report import Gates
from lipaudit.records.report import AuditReport
from tests.formats.reports import SAMPLES, hostile, sample, structure
from tests.records import (
    fakes,
)


def read(text: str) -> dict[str, list[TestCase]]:
    """The cases by the name of their suite, as junitparser reads them."""
    return {suite.name: list(suite) for suite in JUnitXml.fromstring(text.encode("utf-8"))}


def outcomes(report: AuditReport, gates: Gates) -> dict[tuple[str, str], str]:
    ((spec, cases),) = read(render(Audits([report]), Options(gates=gates))).items()
    found = {}
    for case in cases:
        assert len(case.result) <= 1
        kind = {Failure: "failure", Skipped: "skipped"}[type(case.result[0])] if case.result else "passed"
        found[case.classname.removeprefix(f"{spec}."), case.name] = kind
    assert len(found) == len(cases)
    return found


def test_a_model_is_a_suite_and_the_counts_add_up() -> None:
    reports = [*map(sample, SAMPLES), fakes.unsupported()]
    text = render(Audits(reports), Options(gates=Gates(max_layer=4.0)))
    suites = read(text)
    assert list(suites) == [report.model.spec for report in reports]
    root = ElementTree.fromstring(text)
    for element in (*root, root):
        assert int(element.get("tests", "")) == len(list(element.iter("testcase")))
        assert int(element.get("failures", "")) == len(list(element.iter("failure"))) > 0
        assert int(element.get("skipped", "")) == len(list(element.iter("skipped")))
        assert element.get("errors") == "0"


def test_every_gate_is_a_case() -> None:
    found = outcomes(fakes.report(), Gates(21.0, 4.7, True, True))
    rows = [row.name for row in fakes.report().layers]
    assert found["max-log10-bound", "network"] == "failure"
    assert found["strict", "network"] == "passed"
    assert {name for (kind, name), outcome in found.items() if kind == "max-layer" and outcome == "failure"} == {
        "conv1"
    }
    assert [name for kind, name in found if kind == "max-layer"] == rows
    assert [name for kind, name in found if kind == "bounded"] == ["network", *rows]
    assert outcomes(fakes.report(), Gates(21.4567, 4.7512, True, True)) == dict.fromkeys(found, "passed")


@pytest.mark.parametrize("report", [fakes.unsupported(), fakes.gated(), fakes.estimate()])
def test_without_a_bound_a_row_is_skipped_or_has_failed(report: AuditReport) -> None:
    bare = {row.name for row in report.layers if row.status != "finite" or row.rigor == "estimate"} | {"network"}

    def not_passed(gates: Gates, outcome: str) -> set[str]:
        found = outcomes(report, gates).items()
        return {name for (kind, name), other in found if other == outcome and kind == "bounded"}

    assert not_passed(Gates(), "skipped") == not_passed(Gates(max_layer=9.0), "skipped") == bare
    assert not_passed(Gates(no_unbounded=True), "failure") == not_passed(Gates(strict=True), "failure") == bare
    limited = outcomes(report, Gates(max_layer=1e9))
    assert {
        name for (kind, name), outcome in limited.items() if (kind, outcome) == ("max-layer", "failure")
    } == bare - {"network"}


def test_a_structure_has_no_figure_to_judge() -> None:
    found = outcomes(structure(), Gates(max_log10_bound=9e9, max_layer=9e9, no_unbounded=True))
    assert {outcome for (kind, _), outcome in found.items() if kind.startswith("max-")} == {"failure"}
    assert {outcome for (kind, _), outcome in found.items() if kind == "bounded"} == {"passed"}


def test_the_reason_and_the_result_are_said() -> None:
    text = render(Audits([fakes.unsupported()]), Options(gates=Gates(max_layer=4.7)))
    ((_, cases),) = read(text).items()
    said = {(case.classname, case.name): case.result[0].message for case in cases if case.result}
    assert said["resnet50.max-layer", "conv1"] == "the upper bound 4.7512 is above 4.7"
    assert said["resnet50.bounded", "head.fft"] == "unsupported: no rule for aten.fft_rfft2.default"
    suite = ElementTree.fromstring(text)[0]
    assert suite.get("timestamp") == "2026-11-27T20:28:00"
    assert suite.get("time") == "12.800"
    result = suite.find("properties/property")
    assert result is not None
    assert str(result.get("value")).startswith("NOT AVAILABLE: ")


def test_the_figure_in_pixels_is_a_property_where_it_is_another_one() -> None:
    def properties(report: AuditReport) -> dict[str, str]:
        return {
            entry.get("name", ""): entry.get("value", "")
            for entry in ElementTree.fromstring(render(Audits([report]), Options())).iter("property")
        }

    network = fakes.changed(fakes.on_pixels().network, pixel_upper_bound=7.00001, pixel_log10_upper_bound=0.8451)
    report = replace(fakes.on_pixels(), network=network)
    report = replace(report, model=replace(report.model, preprocessing={"mean": (0.5,), "std": (0.5,)}))
    found = properties(report)
    assert found["result in pixels"].startswith("at most 7.001 (10^0.8451)")
    assert found["result in pixels"].endswith(", measured in pixels in [0, 1], before the model's own normalisation")
    assert "l2, after normalisation" in found["result"]
    same = replace(report, model=replace(report.model, preprocessing={"mean": (0.5,), "std": (1.0,)}))
    assert list(properties(same)) == ["result"]


def test_characters_that_xml_forbids_are_escaped() -> None:
    text = render(Audits([hostile()]), Options(gates=Gates(max_layer=1.0, no_unbounded=True)))
    ((name, cases),) = read(text).items()
    assert name.startswith("a<b>|\"'&`]]>-->\\x00\\x1b[2J\\r\\n\\u2028\\ufffe\\udc80")
    assert len({case.name for case in cases}) == 1 + len(hostile().layers)


def test_rows_of_one_name_are_judged_each() -> None:
    rows = (fakes.layer("same", 5.0), fakes.layer("same", 1.0), fakes.layer("", 1.0))
    ((_, cases),) = read(render(Audits([fakes.report(rows)]), Options(gates=Gates(max_layer=4.0)))).items()
    limited = [case for case in cases if str(case.classname).endswith("max-layer")]
    assert [len(case.result) for case in limited] == [1, 0, 0]
