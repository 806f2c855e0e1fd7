"""The command line with the audit itself replaced: what is printed where, and with which exit code it ends."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import CaptureError, DeviceUnavailableError, LipauditError, ModelNotFoundError
from lipaudit.records.report import AuditReport
from lipaudit.records.schema import load_schema
from tests.places import ROOT
from tests.records import (
    fakes,
)
from tests.stand_in import replace_audit

Audit = Callable[..., AuditReport]


def named(report: AuditReport, spec: str) -> AuditReport:
    return replace(report, model=replace(report.model, spec=spec))


class Stage:
    """Stands in for the audit and the frontends; keeps what they were asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.outcomes: dict[str, AuditReport | BaseException] = {}

    def audit(self, spec: str, **options: Any) -> AuditReport:
        self.calls.append((spec, options))
        print("a third party prints")
        warnings.warn("a third party warns", stacklevel=1)
        if options["progress"]:
            for done in range(1, 4):
                options["progress"](done, 3, f"layer{done}")
        outcome = self.outcomes.get(spec, fakes.report())
        if isinstance(outcome, BaseException):
            raise outcome
        return named(outcome, spec)

    def expand(self, spec: str) -> list[str]:
        if spec == "unknown":
            raise ModelNotFoundError("no model is named 'unknown'; did you mean\n  'unknot'?")
        return [spec.replace("*", digit) for digit in "12"] if "*" in spec else [spec]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage = Stage()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # no names are kept
    modules: dict[str, Any] = {}
    registry = replace_audit(stage.audit, stage.expand, modules)
    registry.registry_names = lambda: {"torchvision": ["resnet-18", "vit"], "timm": ["resnet-50"], "timm_tags": []}  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return stage


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_model_alone_is_audited_and_shown_as_a_table(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resnet50", "--input", "224"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("resnet50 · torchvision")
    assert "≤ 10^21.46 over all inputs, certified" in out
    assert "third party" not in out
    assert err == "a third party prints\n"
    assert stage.calls == [
        (
            "resnet50",
            {
                "input_shape": (224,),
                "fix": None,
                "weights": None,
                "arch": None,
                "max_memory": None,
                "device": "auto",
                "tol": 1e-3,
                "structure": False,
                "norm": "l2",
                "domain": "global",
                "around": None,
                "radius": None,
                "norm_domain": "l2",
                "mean": None,
                "std": None,
                "method": "gram",
                "iterations": None,
                "effort": None,
                "certificate": None,
                "warm_start": None,
                "cache": None,
                "absolute_paths": False,
                "lower_bound": False,
                "images": None,
                "max_images": None,
                "save_pair": None,
                "seed": 0,
                "freeze_random": None,
                "progress": None,
            },
        )
    ]


def test_the_verb_may_be_written_and_options_may_come_first(stage: Stage) -> None:
    assert main(["audit", "resnet50"]) == 0
    assert main(["--tol", "0.01", "--lower-bound", "--device", "cpu", "resnet50", "--seed", "7"]) == 0
    assert main(["list"]) == 0
    (_, plain), (_, chosen) = stage.calls
    assert plain["tol"] == 1e-3
    assert (chosen["tol"], chosen["lower_bound"], chosen["device"], chosen["seed"]) == (0.01, True, "cpu", 7)


def test_the_cache_is_an_option_or_a_variable(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["net.onnx", "--cache", "norms"]) == 0
    monkeypatch.setenv("LIPAUDIT_CACHE", "elsewhere")
    assert main(["net.onnx"]) == 0
    monkeypatch.setenv("LIPAUDIT_CACHE", "")
    assert main(["net.onnx"]) == 0
    assert [options["cache"] for _, options in stage.calls] == ["norms", "elsewhere", None]


def test_weights_and_architecture_reach_the_audit(stage: Stage) -> None:
    assert main(["net.pth", "--arch", "resnet18", "--weights", "random"]) == 0
    assert (stage.calls[0][1]["arch"], stage.calls[0][1]["weights"]) == ("resnet18", "random")


def test_several_inputs_are_named(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net", "--input", "left:1,3,8,8", "--input", "right:1,3,4,4"]) == 0
    assert stage.calls[0][1]["input_shape"] == {"left": (1, 3, 8, 8), "right": (1, 3, 4, 4)}
    assert main(["net", "--input", "224", "--input", "left:1,3,4,4"]) == 2
    assert main(["net", "--input", "left:1,3,8,8", "--input", "left:1,3,4,4"]) == 2
    assert capsys.readouterr().err.count("several inputs need a name each") == 2


def test_json_is_an_object_for_one_model_and_an_array_for_several(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resnet50", "--format", "json"]) == 0
    assert AuditReport.from_json(capsys.readouterr().out) == fakes.report()
    assert main(["a", "b", "--format", "json"]) == 0
    assert [entry["model"]["spec"] for entry in json.loads(capsys.readouterr().out)] == ["a", "b"]
    assert main(["net*", "--format", "json"]) == 0
    assert [entry["model"]["spec"] for entry in json.loads(capsys.readouterr().out)] == ["net1", "net2"]


def test_tables_and_markdown_of_several_models_follow_each_other(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["a", "b"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "· torchvision" in line] == ["a", "b"]
    assert main(["a", "b", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.count("## Lipschitz audit of ") == 2


def test_tsv_has_one_header(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a", "b", "--format", "tsv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split("\t")[0] for line in lines} == {"model", "a", "b"}
    assert len(lines) == 1 + 2 * len(fakes.report().layers)


def test_columns_and_depth_shape_the_table(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net", "--columns", "layer,share", "--depth", "1"]) == 0
    assert "layer1 (10 layers)  28.7%" in capsys.readouterr().out.splitlines()


def test_the_bare_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Usage: lipaudit MODEL... | VERB ...")
    assert "lipaudit resnet50 --input 224" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["audit"], "Missing argument 'MODEL...'"),
        (["net", "--device", "tpu"], "'tpu' is not one of 'auto', 'cpu', 'cuda'"),
        (["net", "--tol", "0"], "0.0 is not above 0"),
        (["net", "--tol", "nan"], "nan is not a finite number"),
        (["net", "--max-log10-bound", "nan"], "nan is not a finite number"),
        (["net", "--max-log10-bound", "many"], "'many' is not a valid float"),
        (["net", "--seed", "-1"], "-1 is not in the range"),
        (["net", "--seed", "9" * 23], "is not in the range"),
        (["net", "--depth", "0"], "--depth must be a whole number from 1, got '0'"),
        (["net", "--top", "x"], "--top must be a whole number from 1, got 'x'"),
        (["net", "--lowerbound"], "No such option '--lowerbound'; did you mean --lower-bound"),
        (
            ["net", "--max-bound", "100"],
            "did you mean --max-log10-bound? End with 1 unless the network's bound over the domain is finite and ",
        ),
        (["net", "--max-bound", "100"], "2 for a limit of 100"),
        (["net", "--columns", "layer,foo"], "There is no column 'foo'"),
        (["net", "--columns", "layer", "--format", "json"], "--format json is always whole"),
        (["net", "--depth", "1", "--format", "tsv"], "--format tsv is always whole"),
        (["net", "--frmat", "json"], "No such option '--frmat'"),
        (["net", "-o", "/no/such/folder/report.json"], "there is no folder /no/such/folder"),
        (["net", "-o", "/"], "it is a folder"),
        (["net", "--domain", "cube"], "'cube' is not one of 'global', 'pixels', 'ball'"),
        (["net", "--around", "cat.png"], "--around requires --domain ball"),
        (["net", "--domain", "pixels", "--radius", "1"], "--radius requires --domain ball"),
        (
            ["net", "--domain", "ball", "--around", "cat.png"],
            "requires its centre and its radius: give --around IMAGE and --radius R",
        ),
        (["net", "--domain", "ball", "--radius", "1"], "requires its centre and its radius"),
        (["net", "--radius", "0"], "0.0 is not above 0"),
        (["net", "--radius", "nan"], "nan is not a finite number"),
        (["net", "--radius", "wide"], "'wide' is not a valid float"),
        (["net", "--mean", "0.5"], "--mean requires --std"),
        (["net", "--std", "0.5"], "--std requires --mean"),
        (["net", "--mean", "0.5,,", "--std", "1"], "'0.5,,' is not a list of numbers such as 0.485,0.456,0.406"),
        (["net", "--mean", "0", "--std", "0"], "--std must be finite numbers other than 0"),
        (["net", "--mean", "nan", "--std", "1"], "--mean must be finite numbers"),
        (["net", "--mean", "0,0", "--std", "1,1,1"], "--mean has 2 numbers and --std has 3: give one per channel"),
    ],
)
def test_a_wrong_request_is_one_line_on_stderr_before_any_audit(
    stage: Stage, capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("lipaudit: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert stage.calls == []


def test_domains_reach_the_audit(stage: Stage) -> None:
    assert main(["net", "--domain", "pixels", "--mean", "0.5, 0.4,-1", "--std", "1"]) == 0
    assert main(["net", "--domain", "ball", "--around", "cat.png", "--radius", "0.5"]) == 0
    (_, pixels), (_, ball) = stage.calls
    assert (pixels["domain"], pixels["mean"], pixels["std"]) == ("pixels", (0.5, 0.4, -1.0), (1.0,))
    assert (ball["domain"], ball["around"], ball["radius"], ball["mean"]) == ("ball", "cat.png", 0.5, None)


def test_gates_judge_the_domain_in_force(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.outcomes |= {"gated": fakes.gated(), "pixels": fakes.on_pixels()}
    assert main(["gated", "--max-log10-bound", "9", "--quiet"]) == 1
    assert "over all images with pixels in [0, 1] it has one: --domain pixels" in capsys.readouterr().err
    assert main(["gated", "--strict"]) == 4
    assert main(["pixels", "--domain", "pixels", "--max-log10-bound", "9", "--strict"]) == 0
    assert main(["pixels", "--domain", "pixels", "--max-log10-bound", "8"]) == 1


MANY_COLUMNS = ["--columns", "layer,op,lower,upper,log10,tightness,share,status,rigor,weight"]


def test_many_columns_stand_in_blocks_at_a_terminal(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["net", *MANY_COLUMNS]) == 0
    lines = re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line.split() for line in lines if line.startswith("layer ")]
    assert [*heads[0], *heads[1][1:]] == MANY_COLUMNS[1].split(",")


def test_many_columns_make_a_wide_table_in_a_pipe_or_a_file(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["net", *MANY_COLUMNS]) == 0
    (head,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("layer "))
    assert head.split() == MANY_COLUMNS[1].split(",")
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert main(["net", *MANY_COLUMNS, "-o", str(tmp_path / "table.txt")]) == 0
    (whole,) = (line for line in (tmp_path / "table.txt").read_text().splitlines() if line.startswith("layer "))
    assert whole.split() == head.split()


def test_a_file_leaves_the_answer_on_stderr(stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(tmp_path / "report.json")
    assert main(["net", "-o", file, "--max-log10-bound", "99"]) == 0
    answer, passed, written = capsys.readouterr().err.splitlines()[-3:]  # below what other packages print
    assert answer.endswith("Lipschitz bound (l2) ≤ 10^21.46 over all inputs, certified")
    assert passed == "lipaudit: gate passed: net: --max-log10-bound 99.0"
    assert written == f"lipaudit: report written to {file}"
    assert main(["net", "-o", file, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_quiet_leaves_nothing_on_stderr_but_problems(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net", "--quiet", "--max-log10-bound", "99"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["net", "--quiet", "--max-log10-bound", "1"]) == 1
    assert capsys.readouterr().err.startswith("lipaudit: gate exceeded: net: ")
    stage.outcomes["net"] = CaptureError("too small")
    assert main(["net", "--quiet"]) == 3
    assert capsys.readouterr().err == "lipaudit: error: too small\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [(CaptureError("input 7x7 is too small"), 3), (DeviceUnavailableError("there is no CUDA device"), 2)],
)
def test_a_model_that_fails_is_one_line_with_its_exit_code(
    stage: Stage, capsys: pytest.CaptureFixture[str], error: LipauditError, code: int
) -> None:
    stage.outcomes["net"] = error
    assert main(["net"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == f"lipaudit: error: {error}"
    assert "Traceback" not in err


def test_an_unknown_model_is_one_line(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["unknown"]) == 3
    assert capsys.readouterr().err == "lipaudit: error: no model is named 'unknown'; did you mean 'unknot'?\n"


def test_a_failing_model_does_not_stop_the_others(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.outcomes["b"] = CaptureError("too small")
    assert main(["a", "b", "unknown", "c", "--format", "json"]) == 3
    out, err = capsys.readouterr()
    assert [entry["model"]["spec"] for entry in json.loads(out)] == ["a", "c", "unknown", "b"]
    assert "lipaudit: error: b: too small\n" in err
    assert "lipaudit: error: no model is named 'unknown'" in err


def test_one_report_left_of_several_is_still_an_array(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a", "unknown", "--format", "json"]) == 3
    first, *others = json.loads(capsys.readouterr().out)
    assert first["model"]["spec"] == "a"
    assert [entry["kind"] for entry in others] == ["failure"]


def test_the_worst_exit_code_wins(stage: Stage) -> None:
    stage.outcomes |= {"gap": fakes.unsupported(), "broken": CaptureError("x"), "defect": KeyError("x")}
    gate = ["--max-log10-bound", "3"]
    assert main(["net", *gate]) == 1
    assert main(["gap", "--strict"]) == 4
    assert main(["gap", "net", *gate, "--strict"]) == 4
    assert main(["net", "broken", "gap", *gate, "--strict"]) == 3
    assert main(["broken", "defect"]) == 70


def test_an_unexpected_exception_is_named_a_bug(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.outcomes["net"] = KeyError("conv1\nweight")
    assert main(["net"]) == 70
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == (
        "lipaudit: bug: KeyError: 'conv1\\nweight' "
        "(a defect of lipaudit; run again with --debug for the traceback and report it)"
    )


def test_debug_shows_tracebacks_and_warnings(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.outcomes["net"] = CaptureError("too small")
    with pytest.warns(UserWarning, match="a third party warns"):
        assert main(["net", "--debug"]) == 3
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("lipaudit: error: too small\n")


def test_gate_passes_or_says_why_not(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net", "--max-log10-bound", "21.4567"]) == 0
    assert main(["net", "--max-log10-bound", "21.45"]) == 1
    assert "gate exceeded: net: the log10 upper bound 21.4567 is above 21.45" in capsys.readouterr().err
    stage.outcomes["gap"] = fakes.unsupported()
    assert main(["gap", "--max-log10-bound", "1000", "--quiet"]) == 1
    assert "the network's bound is unsupported, and a gate needs a number" in capsys.readouterr().err


def test_strict_names_what_is_missing(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.outcomes["gap"] = fakes.unsupported()
    assert main(["gap"]) == 0
    assert main(["gap", "--strict"]) == 4
    assert (
        "lipaudit: strict: gap: the network is unsupported; without a bound: blocks.3.se.mul" in capsys.readouterr().err
    )


def test_a_report_goes_whole_into_a_file(stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert main(["a", "--format", "json", "-o", str(path)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(f"lipaudit: report written to {path}\n")
    assert AuditReport.from_json(path.read_text()).model.spec == "a"
    assert main(["a", "b", "-o", str(path), "--format", "table", "--quiet"]) == 0
    assert path.read_text().count("· torchvision") == 2
    assert "written" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_the_array_of_several_models_names_those_that_failed(
    stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stage.outcomes["b"] = CaptureError("too\nsmall")
    assert main(["a", "b", "unknown", "--format", "json"]) == 3
    first, *failed = json.loads(capsys.readouterr().out)
    assert first["model"]["spec"] == "a"
    assert [(entry["kind"], entry["model"]["spec"], entry["exit_code"]) for entry in failed] == [
        ("failure", "unknown", 3),
        ("failure", "b", 3),
    ]
    assert failed[1]["error"] == "too small"
    page = tmp_path / "all.html"
    assert main(["a", "b", "-o", str(page)]) == 3
    assert "too small" in page.read_text(encoding="utf-8")


def test_a_dash_is_stdout(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a", "--format", "json", "-o", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["spec"] == "a"


def test_nothing_is_written_where_every_model_fails(
    stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    stage.outcomes["a"] = CaptureError("too small")
    assert main(["a", "-o", str(path)]) == 3
    assert path.read_text() == "old"
    assert main(["a", "--format", "json"]) == 3
    assert capsys.readouterr().out == ""


def test_an_interruption_ends_with_130_and_leaves_no_file(
    stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stage.outcomes["b"] = KeyboardInterrupt()
    assert main(["a", "b", "-o", str(tmp_path / "report.json")]) == 130
    assert capsys.readouterr().err.endswith("lipaudit: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown_on_a_terminal_only(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["net"]) == 0
    assert "3/3" in terminal.getvalue()
    assert "layer2" in terminal.getvalue()
    assert stage.calls[0][1]["progress"] is not None
    assert main(["net", "--quiet"]) == 0
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert main(["net"]) == 0
    assert [options["progress"] for _, options in stage.calls[1:]] == [None, None]


@pytest.mark.parametrize(
    ("terminal", "variables", "colour", "bars"),
    [
        (True, {}, True, True),
        (True, {"NO_COLOR": "1"}, False, True),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, True),
        (True, {"TERM": "dumb"}, False, True),
        (False, {}, False, False),
        (False, {"FORCE_COLOR": "1"}, True, False),
        (False, {"NO_COLOR": ""}, False, False),
    ],
)
def test_colour_and_bars_are_for_terminals_and_variables_are_obeyed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, terminal: bool, variables: dict[str, str], colour: bool, bars: bool
) -> None:
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["net", "--max-log10-bound", "1"]) == 1
    assert ("\x1b[1m" in out.getvalue(), "█" in out.getvalue()) == (colour, bars)
    assert "\x1b[3" not in sys.stderr.getvalue()  # type: ignore[attr-defined]


def test_list_prints_names(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "resnet"]) == 0
    assert capsys.readouterr().out == "torchvision:resnet-18\ntimm:resnet-50\n"
    assert main(["list", "none*"]) == 3
    assert capsys.readouterr().err == (
        "lipaudit: error: no model name of torchvision or timm matches 'none*'; try a shorter pattern\n"
    )


def test_rules_are_listed_by_pattern_and_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "silu"]) == 0
    assert "silu [exact] [norms]\n  constant    1.09984\n" in capsys.readouterr().out
    assert main(["rules", "silu", "--format", "json"]) == 0
    assert [entry["rule"] for entry in json.loads(capsys.readouterr().out)] == ["silu"]
    assert main(["rules", "no such operation"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("lipaudit: error: no rule and no operation matches 'no such operation'")


def test_methods_are_listed_by_pattern_and_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    assert "\nsedghi2019\n  computes    singular value decomposition" in capsys.readouterr().out
    assert main(["methods", "ryu", "--format", "json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["method"], entry["default_iterations"]) == ("ryu2019", 100)
    assert main(["methods", "nobody*", "--format", "markdown"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("lipaudit: error: no method matches 'nobody*'")


@pytest.mark.parametrize("verb", ["audit", "compare"])
def test_help_says_where_methods_and_their_defaults_are_listed(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "`lipaudit methods` lists them" in out
    assert "Default: see `lipaudit methods`" in out
    assert "own number" not in out


def test_schema_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == load_schema()
    assert main(["schema", "--help"]) == 0
    assert "of audits (the JSON of compare is another format)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["audit", "--help"], ["--version"]])
def test_help_and_version_end_with_0(capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    assert main(args) == 0
    assert ("lipaudit 0.1.0" if args == ["--version"] else "Usage: lipaudit") in capsys.readouterr().out


def test_help_names_the_verbs_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(
        word in out
        for word in (
            "audit ",
            "compare ",
            "list ",
            "methods ",
            "rules ",
            "schema ",
            "lipaudit resnet50 --input 224",
            "4    --strict, and something is unsupported, unbounded or an estimate",
            "130  interrupted",
        )
    )


def run(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(args, capture_output=True, text=True, check=False, timeout=120, **options)


def test_help_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, lipaudit, lipaudit.cli; code = lipaudit.cli.main(['--help']);"
        "lipaudit.cli.main(['schema']); lipaudit.AuditReport;"
        "heavy = {'torch', 'torchvision', 'timm', 'onnx', 'numpy'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_m_lipaudit_is_the_command() -> None:
    done = run(sys.executable, "-m", "lipaudit", "--version")
    assert (done.returncode, done.stdout) == (0, f"lipaudit {lipaudit.__version__}\n")


def test_a_reader_that_goes_away_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lipaudit", "schema"],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
            timeout=120,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_that_lacks_a_character_shows_it_escaped() -> None:
    code = (
        "import sys, lipaudit.cli as cli; from tests.records import fakes; from tests.stand_in import replace_audit;"
        "replace_audit(lambda spec, **options: fakes.report((fakes.layer('gr\\xf6\\xdfe'),)));"
        "sys.exit(cli.main(['net']))"
    )
    root = ROOT
    done = run(
        sys.executable, "-c", code, cwd=root, env={**os.environ, "PYTHONIOENCODING": "koi8-r"}, encoding="koi8-r"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr\\xf6\\xdfe" in done.stdout
    assert "<= 10^21.46 over all inputs" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.usefixtures("interruptible")
def test_control_c_leaves_no_file(tmp_path: Path) -> None:
    code = (
        "import os, sys, time, lipaudit.cli as cli; from tests.stand_in import replace_audit;"
        f"replace_audit(lambda spec, **options: (os.kill(os.getpid(), {int(signal.SIGINT)}), time.sleep(60)));"
        "sys.exit(cli.main(['net', '-o', 'report.txt']))"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_estimate_says_so_first_and_passes_no_gate(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.outcomes["net"] = fakes.estimate("ryu2019")
    assert main(["net", "--method", "ryu2019", "--iterations", "9", "--max-log10-bound", "99", "--strict"]) == 4
    out, err = capsys.readouterr()
    assert out.startswith("ESTIMATE (ryu2019): ")
    assert "≤" not in out
    assert " at most " not in out
    assert "an estimate is no bound" in err
    assert "lipaudit: strict: net: the network's figure is an estimate (ryu2019): conv1, " in err
    assert "an estimate is no bound: choose --method gram" in err
    assert (stage.calls[0][1]["method"], stage.calls[0][1]["iterations"]) == ("ryu2019", 9)


def test_a_wrong_method_is_refused_before_any_model(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["net", "--method", "nobody1900"]) == 2
    assert main(["net", "--method", "ryu2019", "--structure"]) == 2
    assert main(["net", "--iterations", "3"]) == 2
    assert stage.calls == []
    assert ", gram, " in capsys.readouterr().err


def test_errors_do_not_drive_the_terminal(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.outcomes["net"] = CaptureError("node 'n\x1b[2J\x07'\nis odd")
    assert main(["net"]) == 3
    assert capsys.readouterr().err.splitlines()[-1] == r"lipaudit: error: node 'n\x1b[2J\x07' is odd"
    assert main(["net", "--\x1b[2J"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_report_never_replaces_the_model(stage: Stage, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model, link = tmp_path / "net.pt2", tmp_path / "link.pt2"
    model.write_text("weights")
    link.symlink_to(model)
    assert main([str(model), "--format", "json", "-o", str(link)]) == 2
    assert main(["net", "--weights", str(model), "--format", "json", "-o", str(model)]) == 2
    assert (
        main(["net", "--domain", "ball", "--radius", "1", "--around", str(model), "--format", "json", "-o", str(model)])
        == 2
    )
    assert capsys.readouterr().err.count(", which the audit reads; name another file") == 3
    assert (model.read_text(), stage.calls) == ("weights", [])


@pytest.mark.parametrize("form", ["tsv", "table", "markdown", "json"])
def test_a_file_name_that_is_no_text_is_escaped(stage: Stage, tmp_path: Path, form: str) -> None:
    path = tmp_path / "report"
    assert main(["caf\udce9.onnx", "--format", form, "-o", str(path)]) == 0
    assert "udce9.onnx" in path.read_text(encoding="utf-8")


STAGED = (
    "import sys, lipaudit.cli as cli; from tests.records import fakes; from tests.stand_in import replace_audit;"
    "replace_audit(lambda spec, **options: print('noise') or fakes.report());"
    "sys.exit(cli.main(sys.argv[1:]))"
)
POSIX = pytest.mark.skipif(os.name == "nt", reason="redirections of a POSIX shell")


def shell(redirection: str, *args: str) -> subprocess.CompletedProcess[str]:
    root = ROOT
    return run("sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", STAGED, *args, cwd=root)


@POSIX
@pytest.mark.parametrize("args", [["net"], ["net", "--format", "json"], ["schema"], ["--help"], ["--version"]])
@pytest.mark.parametrize("redirection", [">&-", "> /dev/full"])
def test_a_stdout_that_takes_nothing_is_one_line(redirection: str, args: list[str]) -> None:
    if "full" in redirection and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    done = shell(redirection, *args)
    lines = [line for line in done.stderr.splitlines() if line != "noise"]
    assert done.returncode == 2
    assert len(lines) == 1
    assert lines[0].startswith("lipaudit: error: cannot write to stdout: ")


@POSIX
@pytest.mark.parametrize(("redirection", "option"), [("2>&-", "--strict"), ("2> /dev/full", "--quiet")])
def test_a_stderr_that_takes_nothing_loses_no_report(redirection: str, option: str) -> None:
    if "full" in redirection and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    done = shell(redirection, "net", option, "--max-log10-bound", "1")
    assert (done.returncode, "≤ 10^21.46" in done.stdout) == (1, True)


def test_the_package_offers_its_functions_lazily() -> None:
    assert lipaudit.AuditReport is AuditReport
    assert {"audit", "compare", "Comparison", "AuditReport", "spectral_norm", "conv_norm", "__version__"} <= set(
        dir(lipaudit)
    )
    assert set(lipaudit.__all__) <= set(dir(lipaudit))
    with pytest.raises(AttributeError, match="no attribute 'audti'"):
        lipaudit.audti  # noqa: B018  # the access itself is under test
