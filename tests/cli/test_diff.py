"""``lipaudit diff`` as a command: files in, data on stdout, gates on stderr, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lipaudit
from lipaudit.cli import main
from lipaudit.records.diff import ReportDiff
from lipaudit.records.report import AuditReport
from tests.auditing.test_diff import chain
from tests.places import ROOT
from tests.records import (
    fakes,
)

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    reports = {
        "before": chain([3.0, 0.5, 7.0]),
        "after": chain([4.0, 0.25, 7.0]),
        "gated": fakes.gated(),
        "net": fakes.report(),
    }
    for name, report in reports.items():
        (tmp_path / f"{name}.json").write_text(report.to_json())
    return tmp_path


@pytest.mark.usefixtures("files")
def test_the_table_goes_to_stdout_and_nothing_to_stderr(capsys: Capture) -> None:
    assert main(["diff", "before.json", "after.json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Before      resnet50 · torchvision")
    assert "l2 " not in out
    assert main(["diff", "before.json", "after.json", "--all"]) == 0
    assert "\nl2 " in capsys.readouterr().out


@pytest.mark.usefixtures("files")
def test_every_format_is_what_python_gives(capsys: Capture) -> None:
    before, after = (AuditReport.from_json(Path(f"{name}.json").read_text()) for name in ("before", "after"))
    found = lipaudit.diff(before, after)
    assert main(["diff", "before.json", "after.json", "--format", "json"]) == 0
    out = capsys.readouterr().out
    assert out == found.to_json() + "\n"
    assert ReportDiff.from_json(out) == found
    assert json.loads(out)["tool"] == {"name": "lipaudit", "version": lipaudit.__version__}
    assert main(["diff", "before.json", "after.json"]) == 0
    assert capsys.readouterr().out == f"{found}\n"
    for form, start in (("markdown", "## Diff of two"), ("tsv", "scope\tmatch\t")):
        assert main(["diff", "before.json", "after.json", "--format", form]) == 0
        assert capsys.readouterr().out.startswith(start)


def test_a_file_is_written_whole_and_said(files: Path, capsys: Capture) -> None:
    assert main(["diff", "before.json", "after.json", "-o", "out.md", "--format", "markdown"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "lipaudit: diff written to out.md\n")
    assert (files / "out.md").read_text().startswith("## Diff")
    assert main(["diff", "before.json", "after.json", "-o", "out.md", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["diff", "before.json", "after.json", "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("Before")
    text = (files / "before.json").read_text()
    assert main(["diff", "before.json", "after.json", "-o", "before.json"]) == 2
    assert (
        "-o before.json would replace before.json, which the diff reads; name another file" in capsys.readouterr().err
    )
    assert (files / "before.json").read_text() == text
    assert main(["diff", "before.json", "after.json", "-o", "no/out"]) == 2
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_gates_end_with_1_and_say_why(capsys: Capture) -> None:
    assert main(["diff", "before.json", "after.json", "--max-growth", "1", "--max-layer-growth", "1.4"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["diff", "after.json", "before.json", "--max-growth", "1.25", "--max-layer-growth", "1.5"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("lipaudit: gate exceeded: before.json: the network's bound has grown by a factor of 1.")
    assert lines[0].endswith("more than 1.25 (--max-growth 1.25)")
    assert lines[1].startswith("lipaudit: gate exceeded: before.json: l1: bound has grown by a factor of ")
    assert lines[1].endswith("more than 1.5 (--max-layer-growth 1.5)")
    assert main(["diff", "after.json", "before.json", "--max-growth", "1.25", "--quiet"]) == 1
    assert "gate exceeded" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_a_lost_bound_fails_and_a_gained_one_passes_and_is_said(capsys: Capture) -> None:
    assert main(["diff", "net.json", "gated.json", "--max-growth", "1e300"]) == 1
    assert "bound is unbounded after, and a gate needs a number" in capsys.readouterr().err
    assert main(["diff", "gated.json", "net.json", "--max-growth", "1"]) == 0
    assert "had no proven bound before and has one after" in capsys.readouterr().err
    assert main(["diff", "gated.json", "net.json", "--max-growth", "1", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("files")
def test_rows_that_a_gate_does_not_judge_are_named(capsys: Capture) -> None:
    assert main(["diff", "before.json", "net.json", "--max-layer-growth", "1"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("lipaudit: net.json: not judged, because they have no counterpart: conv1, maxpool, ")
    assert main(["diff", "before.json", "net.json", "--max-layer-growth", "1", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1", "0.95", "-inf", "five"])
@pytest.mark.parametrize("option", ["--max-growth", "--max-layer-growth"])
def test_what_is_no_factor_is_refused(capsys: Capture, option: str, value: str) -> None:
    assert main(["diff", "before.json", "after.json", f"{option}={value}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert option in err
    assert err.count("\n") == 1


def test_a_bad_file_gives_one_error_that_names_it(files: Path, capsys: Capture) -> None:
    def put(name: str, content: str | bytes) -> str:
        (files / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    report = fakes.report().to_json()
    diff = lipaudit.diff(fakes.report(), fakes.report()).to_json()
    cases = {
        "missing.json": "cannot read the report missing.json: No such file or directory",
        ".": "cannot read the report .: Is a directory",
        put("text", "hello"): "text: this is not JSON",
        put("bytes", b"\xff\xfe\x00"): "bytes: this is not JSON",
        put("deep", "[" * 100_000): "deep: this is not JSON",
        put("long", "9" * 10_000): "long: this is not JSON",
        put("empty", ""): "empty: this is not JSON",
        put(
            "two.json", f"[{report},{report}]"
        ): "two.json has 2 models: name one with --model SPEC (resnet50, resnet50)",
        put("none.json", "[]"): "none.json: the array holds no report",
        put("other.json", "{}"): "other.json: this JSON is no lipaudit report",
        put("diff.json", diff): "diff.json: this JSON is a diff of two reports",
        put("cut.json", report[: len(report) // 2]): "cut.json: this is not JSON",
        put("pixels.json", fakes.on_pixels().to_json()): "the reports have different domains",
    }
    for name, message in cases.items():
        for order in (["net.json", name], [name, "net.json"]):
            assert main(["diff", *order]) == 2, name
            out, err = capsys.readouterr()
            assert out == ""
            assert message in err, name
            assert err.count("\n") == 1


def test_an_array_of_one_report_is_a_report(files: Path, capsys: Capture) -> None:
    (files / "array.json").write_text(f"[{fakes.report().to_json()}]")
    assert main(["diff", "array.json", "net.json"]) == 0
    assert "The same weights" in capsys.readouterr().out


def test_a_diff_does_not_import_torch(files: Path) -> None:
    code = (
        "import sys; from lipaudit.cli import main; code = main(['diff', 'before.json', 'after.json']); "
        "sys.exit(code or 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=files,
        check=False,
        capture_output=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_two_runs_give_the_same_bytes(files: Path) -> None:
    for name in ("one", "two"):
        assert main(["diff", "before.json", "after.json", "--format", "json", "-o", name, "--quiet"]) == 0
    assert (files / "one").read_bytes() == (files / "two").read_bytes()
