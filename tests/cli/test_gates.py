"""The options of gates, with the audit itself replaced."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lipaudit.cli import main
from lipaudit.records.figure import EMPIRICAL, Figure
from lipaudit.records.report import AuditReport
from tests.formats.reports import structure
from tests.records import (
    fakes,
)
from tests.stand_in import replace_audit

REPORTS = {
    "net": fakes.report(),
    "gap": fakes.unsupported(),
    "gated": fakes.gated(),
    "guess": fakes.estimate("ryu2019"),
}


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What the audit was asked; the working directory is a project without a configuration."""
    found: list[dict[str, Any]] = []

    def audit(spec: str, **options: Any) -> AuditReport:
        found.append(options)
        report = REPORTS[spec]
        return replace(report, model=replace(report.model, spec=spec))

    modules: dict[str, Any] = {}
    replace_audit(audit, modules=modules)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return found


def project(text: str) -> Path:
    file = Path.cwd() / "pyproject.toml"
    file.write_text(f"[tool.lipaudit]\n{text}\n", encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["net", "--max-layer", "4.7512", "--no-unbounded", "--strict", "--max-log10-bound", "21.4567"], 0),
        (["net", "--max-layer", "4.75"], 1),
        (["gap", "--max-layer", "1e300"], 1),
        (["gap", "--no-unbounded"], 1),
        (["gap", "--no-unbounded", "--strict"], 4),
        (["gap"], 0),
        (["guess", "--no-unbounded"], 1),
        (["guess", "--max-layer", "1e300"], 1),
        (["net", "gap", "--no-unbounded"], 1),
    ],
)
def test_exit_codes(args: list[str], code: int) -> None:
    assert main(args) == code


def test_one_line_per_gate_and_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gap", "--quiet", "--max-log10-bound", "3", "--max-layer", "4.7", "--no-unbounded", "--strict"]) == 4
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1] for line in lines] == ["gate exceeded"] * 3 + ["strict"]
    assert [line.rpartition("(")[2] for line in lines[:3]] == [
        "--max-log10-bound 3.0)",
        "--max-layer 4.7)",
        "--no-unbounded)",
    ]
    assert "4 rows of 37 above 4.7 or without a bound (conv1: the upper bound 4.7512 is above 4.7; " in lines[1]


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "many"])
def test_a_limit_must_be_a_number_above_0(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net", "--max-layer", value]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_project_has_gates_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    file = project("max-layer = 4\nno-unbounded = true\nstrict = false")
    assert main(["net"]) == 1
    out, err = capsys.readouterr()
    first, passed, second = err.splitlines()
    assert passed == f"lipaudit: gate passed: net: no-unbounded in {file}"
    assert first == (
        f"lipaudit: max-layer 4.0, no-unbounded from [tool.lipaudit] in {file} (--no-config leaves it aside)"
    )
    assert second.startswith("lipaudit: gate exceeded: net: 7 rows of 34 above 4.0 ")
    assert second.endswith(f" (max-layer 4.0 in {file})")
    assert main(["net", "--no-config"]) == 0
    again, err = capsys.readouterr()
    assert (again.split("Next")[0], err) == (out.split("Next")[0], "")
    assert main(["net", "--quiet"]) == 1
    assert capsys.readouterr().err == f"{second}\n"


def test_options_go_before_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    file = project("max-layer = 4\nstrict = true")
    assert main(["net", "--max-layer", "5"]) == 0
    assert capsys.readouterr().err == (
        f"lipaudit: strict from [tool.lipaudit] in {file} (--no-config leaves it aside)\n"
        "lipaudit: gate passed: net: --max-layer 5.0\n"
    )
    assert main(["gap", "--max-layer", "5"]) == 4
    assert "(--max-layer 5.0)" in capsys.readouterr().err


def test_domain_and_tolerance_of_the_project(calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    file = project("domain = 'pixels'\ntol = 1e-4")
    assert main(["net"]) == 0
    assert capsys.readouterr().err.startswith(f"lipaudit: domain pixels, tol 0.0001 from [tool.lipaudit] in {file}")
    assert main(["net", "--tol", "0.1", "--domain", "global"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["net", "--no-config"]) == 0
    assert [(call["domain"], call["tol"]) for call in calls] == [("pixels", 1e-4), ("global", 0.1), ("global", 1e-3)]


def test_the_normalisation_of_the_project(calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    file = project("mean = [0.5, 0.25, 0]\nstd = 2")
    assert main(["net"]) == 0
    assert (calls[-1]["mean"], calls[-1]["std"]) == ((0.5, 0.25, 0.0), (2.0,))
    assert f"mean 0.5,0.25,0.0, std 2.0 from [tool.lipaudit] in {file}" in capsys.readouterr().err
    assert main(["net", "--mean", "0", "--std", "1"]) == 0
    assert (calls[-1]["mean"], calls[-1]["std"]) == ((0.0,), (1.0,))
    assert capsys.readouterr().err == ""
    ball = ["net", "--domain", "ball", "--radius", "1", "--around"]
    assert main([*ball, "cat.png"]) == 0
    assert calls[-1]["std"] == (2.0,)
    capsys.readouterr()
    assert main([*ball, "cat.npy"]) == 0
    assert (calls[-1]["mean"], calls[-1]["std"]) == (None, None)
    assert capsys.readouterr().err == ""
    assert main([*ball, "cat.npy", "--mean", "0", "--std", "1"]) == 2
    assert (
        "--mean and --std cannot be combined with --around, which is a tensor, (they are for pixels, "
        in capsys.readouterr().err
    )


def test_the_project_is_looked_for_above(monkeypatch: pytest.MonkeyPatch) -> None:
    project("max-layer = 4")
    (Path.cwd() / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir("deep/er")
    assert main(["net"]) == 1


def test_a_wrong_project_stops_before_any_audit(
    calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    file = project("max-layer = 'four'")
    assert main(["net"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"lipaudit: error: {file}: max-layer in [tool.lipaudit] must be a finite number above 0, got 'four'; "
        "correct the file, or leave it aside with --no-config\n"
    )
    assert calls == []
    assert main(["net", "--no-config"]) == 0
    assert main(["audit", "--help"]) == 0


def test_a_structure_has_nothing_to_judge(capsys: pytest.CaptureFixture[str], calls: list[dict[str, Any]]) -> None:
    assert main(["net", "--structure", "--max-layer", "4"]) == 2
    assert capsys.readouterr().err == (
        "lipaudit: error: --max-layer cannot be combined with --structure (an audit of the structure computes no figures): "
        "leave out one of them\n"
    )
    assert main(["net", "--structure", "--max-log10-bound", "4"]) == 2
    assert "--max-log10-bound cannot be combined with --structure" in capsys.readouterr().err
    assert calls == []
    assert main(["net", "--structure", "--no-unbounded"]) == 0


def test_gates_of_the_project_that_need_figures_do_not_apply_to_a_structure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = project("max-layer = 4\nmax-log10-bound = 1\nno-unbounded = true")
    monkeypatch.setitem(REPORTS, "bare", structure())
    assert main(["bare", "--structure"]) == 0
    said = (
        f"max-log10-bound 1.0 in {file} and max-layer 4.0 in {file}: not judged, for the structure alone has no figures"
    )
    assert said in capsys.readouterr().err
    assert main(["bare", "--structure", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["bare", "--structure", "--max-layer", "3"]) == 2
    assert main(["gap", "--structure"]) == 1
    assert "without a finite bound" in capsys.readouterr().err
    Path("bare.json").write_text(structure().to_json(), encoding="utf-8")
    assert main(["export", "bare.json", "--to", "junit"]) == 0
    out, err = capsys.readouterr()
    assert "<failure" not in out
    assert said in err
    assert main(["export", "bare.json", "--to", "junit", "--max-layer", "3"]) == 1


@pytest.mark.parametrize(
    ("args", "start"),
    [
        (["-o", "a.json"], "{"),
        (["-o", "a.MD"], "## Lipschitz audit"),
        (["-o", "a.tsv"], "model\tname\t"),
        (["-o", "a.txt"], "net · torchvision"),
        (["-o", "a"], "net · torchvision"),
        (["-o", "a.cdx.json"], '{\n  "$schema": "http://cyclonedx.org'),
        (["-o", "a.svg"], "<?xml"),
        (["-o", "a.md", "--format", "huggingface"], "---\nlipaudit:"),
        (["-o", "a.json", "--format", "tsv"], "model\tname\t"),
        (["-o", "a.json", "--format", "table"], "net · torchvision"),
    ],
)
def test_a_file_has_the_format_of_its_name_unless_another_is_asked_for(args: list[str], start: str) -> None:
    assert main(["net", "--quiet", *args]) == 0
    assert Path(args[1]).read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize("name", ["a.sarif", "a.xml"])
def test_an_audit_writes_its_gates_where_the_format_shows_them(name: str) -> None:
    assert main(["net", "--quiet", "--max-layer", "0.001", "-o", name]) == 1
    text = Path(name).read_text(encoding="utf-8")
    assert '"level": "error"' in text or "<failure" in text
    assert main(["net", "--quiet", "-o", name]) == 0
    assert Path(name).read_text(encoding="utf-8") != text


def test_what_one_format_cannot_hold_is_refused_before_the_audit(capsys: pytest.CaptureFixture[str]) -> None:
    for args, said in (
        (
            ["net", "bare", "--format", "cyclonedx"],
            "cyclonedx describes one model, and there are 2: audit them one by one",
        ),
        (["net", "--format", "png"], "name a file for it, -o FILE.png"),
        (["net", "--jobs", "2", "-o", "r.svg"], "svg describes one model, and a fleet has several"),
        (["net", "-o", "r.spdx"], "nothing here is written as .spdx"),
    ):
        assert main(args) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err


def test_a_summary_and_a_diff_have_the_format_of_their_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("net.json").write_text(fakes.report().to_json(), encoding="utf-8")
    assert main(["diff", "net.json", "net.json", "-o", "d.json"]) == 0
    assert json.loads(Path("d.json").read_text(encoding="utf-8"))["kind"] == "diff"
    assert main(["diff", "net.json", "net.json", "-o", "d.md", "--format", "table"]) == 0
    assert Path("d.md").read_text(encoding="utf-8").startswith("Before ")
    assert main(["net", "-o", "-", "--quiet"]) == 0
    assert capsys.readouterr().out == "net: Lipschitz bound (l2) ≤ 10^21.46 over all inputs, certified\n"


def test_a_deleted_working_directory_has_no_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    assert main(["net"]) == 0


def test_a_claim_is_proved_refuted_or_open(
    calls: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = fakes.report(figure=Figure.of(1.0004), lower=Figure.of(0.9, EMPIRICAL), lower_bound_distance=1.0)
    monkeypatch.setitem(REPORTS, "one", one)
    assert main(["one", "--claim", "1"]) == 0
    assert (
        "gate passed: one: --claim 1.0 (proved within the tolerance: at most 1.0 (tolerance 0.001): the upper bound is 1.0004)"
        in capsys.readouterr().err
    )
    assert calls[-1]["lower_bound"] is True
    capsys.readouterr()
    assert main(["one", "--claim", "1"]) == 0
    screen = capsys.readouterr().out.splitlines()
    (verdict,) = (line for line in screen if line.startswith("  Claim"))
    assert verdict.split()[1:5] == ["proved", "within", "the", "tolerance:"]
    assert "--max-log10-bound" not in "".join(screen)
    assert main(["one", "--claim", "1", "--claim-tolerance", "0"]) == 1
    assert (
        "claim one: open: at most 1.0: the upper bound is 1.0004, the largest stretch found is 0.9"
        in capsys.readouterr().err
    )
    assert main(["one", "--claim", "0.8"]) == 1
    assert "claim one: refuted: at most 0.8" in capsys.readouterr().err


def test_a_claim_in_the_projects_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPORTS, "one", fakes.report(figure=Figure.of(1.0004)))
    project("claim = 1\nclaim-tolerance = 0")
    assert main(["one"]) == 1
    assert "claim one: open: at most 1.0: the upper bound is 1.0004" in capsys.readouterr().err
    assert main(["one", "--claim-tolerance", "0.01"]) == 0


def test_what_a_claim_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net", "--claim-tolerance", "0.1"]) == 2
    assert "--claim-tolerance requires --claim" in capsys.readouterr().err
    assert main(["net", "--claim", "1", "--structure"]) == 2
    for value in ("0", "nan", "-1"):
        assert main(["net", "--claim", value]) == 2
    assert main(["net", "--claim", "1", "--claim-tolerance", "-1"]) == 2
