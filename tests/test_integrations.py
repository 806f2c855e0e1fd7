"""The GitHub action and the pre-commit hook: their files as their own tools read them, and their commands as they run them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pre_commit.clientlib import load_manifest

from lipaudit.cli import main
from tests.docs.commands import copy_of_the_samples, environment
from tests.places import ROOT

FOLDER = ROOT / ".github" / "actions" / "lipaudit"
ACTION: dict[str, Any] = yaml.safe_load((FOLDER / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}
HOOKS = ROOT / ".pre-commit-hooks.yaml"


def test_the_action_is_one() -> None:
    package = find_spec("check_jsonschema")
    assert package is not None
    assert package.origin is not None
    file = Path(package.origin).parent / "builtin_schemas" / "vendor" / "github-actions.json"
    schema = json.loads(file.read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    validator.validate(ACTION)
    broken = {
        **ACTION,
        "runs": {**ACTION["runs"], "steps": [{"run": "true"}]},
    }  # a step of a composite action needs a shell
    assert not validator.is_valid(broken)


class Runner:
    """What GitHub does with the steps of a composite action, as far as these need it."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        copy_of_the_samples(folder)
        (folder / ".git").mkdir()
        self.folder, self.temp = folder, folder / "temp"
        self.temp.mkdir()
        known = {name: str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()}
        assert set(inputs) <= set(known)
        self.values = {f"inputs.{name}": value for name, value in {**known, **inputs}.items()}
        self.values |= {"github.action_path": str(FOLDER), "runner.temp": str(self.temp)}
        self.summary = self.temp / "summary"
        self.stderr = ""

    def run(self, name: str) -> int:
        """The exit code of a step, whose outputs later steps see."""
        step = STEPS[name]
        assert step["shell"] == "bash"
        output = self.temp / "output"
        output.write_text("")
        env = {key: self.resolved(value) for key, value in step.get("env", {}).items()}
        env |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(self.summary)}
        assert "${{" not in step["run"]  # expressions inside of a script would let an input become a command
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env=environment(self.folder / ".bin", **env),
            capture_output=True,
            text=True,
            check=False,
        )
        self.stderr = done.stderr
        for line in output.read_text().splitlines():
            key, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{key}"] = value
        return done.returncode

    def resolved(self, text: str) -> str:
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: self.values[found[1]], text)

    def output(self, name: str) -> Path:
        return Path(self.resolved(ACTION["outputs"][name]["value"]))


def test_the_action_audits_and_fails_where_a_gate_is_exceeded(tmp_path: Path) -> None:
    models = "sample_models/digits_resnet.onnx\n\nsample_models/digits_se.onnx\n"
    runner = Runner(tmp_path, model=models, args="--seed 1 \n --tol  1e-2", gates="--max-layer 25\n--no-unbounded")
    assert runner.run("Audit") == 1
    assert "digits_se.onnx: 2 rows of 15 without a finite bound" in runner.stderr
    reports = json.loads(runner.output("report").read_text(encoding="utf-8"))
    assert [report["model"]["spec"] for report in reports] == models.split()
    assert [report["settings"]["tolerance"] for report in reports] == [0.01, 0.01]
    assert runner.run("Summary") == 0
    assert runner.summary.read_text(encoding="utf-8").count("## Lipschitz audit of ") == 2
    assert runner.run("Findings") == 0
    (run,) = json.loads(runner.output("sarif").read_text(encoding="utf-8"))["runs"]
    assert {result["ruleId"] for result in run["results"]} == {"layer-bound", "unbounded"}


def test_the_action_passes_and_reads_the_project(tmp_path: Path) -> None:
    runner = Runner(tmp_path, model="sample_models/digits_resnet.onnx")
    assert runner.run("Audit") == 0
    (tmp_path / "pyproject.toml").write_text("[tool.lipaudit]\nmax-layer = 25\n", encoding="utf-8")
    assert runner.run("Findings") == 0
    assert json.loads(runner.output("sarif").read_text(encoding="utf-8"))["runs"][0]["results"] == []


def test_what_cannot_be_audited_fails_and_leaves_no_report(tmp_path: Path) -> None:
    runner = Runner(tmp_path, model="sample_models/none $(touch injected).onnx", gates="--max-layer 3; touch injected")
    (runner.temp / "lipaudit.json").write_text("of an earlier step")
    assert runner.run("Audit") == 2
    assert runner.stderr.count("lipaudit: error: ") == 1
    assert (runner.run("Summary"), runner.run("Findings")) == (0, 0)
    assert not runner.output("report").exists()
    assert not runner.summary.exists()
    assert "steps.sarif.outputs.sarif" not in runner.values
    assert not (tmp_path / "injected").exists()


def test_the_action_installs_the_repository_that_it_is_in(tmp_path: Path) -> None:
    bin_ = tmp_path / "bin"
    env = environment(bin_, ACTION_PATH=str(FOLDER))
    (bin_ / "python").write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    done = subprocess.run(
        ["bash", "-c", STEPS["Install lipaudit"]["run"]], env=env, capture_output=True, text=True, check=True
    )
    words = done.stdout.splitlines()
    assert words[:3] == ["-m", "pip", "install"]
    assert os.path.samefile(words[-1], ROOT)
    assert (Path(words[-1]) / "pyproject.toml").exists()


def test_every_expression_of_the_action_is_known() -> None:
    text = (FOLDER / "action.yml").read_text(encoding="utf-8")
    used = set(re.findall(r"\binputs\.([\w-]+)", text))
    assert used == set(ACTION["inputs"])
    assert set(re.findall(r"\bsteps\.(\w+)\.", text)) == {
        step["id"] for step in ACTION["runs"]["steps"] if "id" in step
    }


@pytest.fixture
def hook() -> dict[str, Any]:
    (found,) = load_manifest(HOOKS)
    return dict(found)


def test_the_hook_is_for_onnx_files(hook: dict[str, Any]) -> None:
    assert re.search(hook["files"], "models/net.onnx")
    assert not re.search(hook["files"], "models/net.onnx.json")
    assert (hook["language"], hook["pass_filenames"], hook["require_serial"]) == ("python", True, True)


def run_hook(hook: dict[str, Any], args: list[str] | None, *files: str) -> int:
    """As pre-commit runs it: the entry, the user's arguments or else the hook's own, the files."""
    program, *words = shlex.split(hook["entry"])
    assert program == "lipaudit"
    return main([*words, *(hook["args"] if args is None else args), *files])


GATE = "--max-log10-bound"


@pytest.mark.parametrize(
    ("args", "code"),
    [(None, 0), ([], 0), ([GATE, "5"], 0), ([GATE, "4"], 1), ([GATE, "5", "--"], 0), ([GATE, "4", "--"], 1)],
)
def test_the_hook_judges_the_files_of_a_commit(
    hook: dict[str, Any],
    args: list[str] | None,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    assert run_hook(hook, args, "sample_models/digits_resnet.onnx") == code
    assert capsys.readouterr().err.count("gate exceeded") == (code == 1)


OPTIONS_BY_NAME = ["--cache=d.onnx", "-o.onnx", "--max-layer=9e9.onnx", "--plot=.svg.onnx"]


def test_a_file_is_no_option_to_the_hook(
    hook: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in OPTIONS_BY_NAME:
        (tmp_path / name).symlink_to(ROOT / "sample_models" / "digits_resnet.onnx")
    assert run_hook(hook, None, *OPTIONS_BY_NAME) == 0
    assert run_hook(hook, [GATE, "4", "--"], *OPTIONS_BY_NAME) == 1
    assert capsys.readouterr().err.count("gate exceeded") == len(OPTIONS_BY_NAME)
    for name in OPTIONS_BY_NAME:
        assert run_hook(hook, [GATE, "4"], name, "other.onnx") == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"'{name}' is a file here and also reads as an option: put -- before the models" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(OPTIONS_BY_NAME)  # and nothing was written
    assert main(["--quiet", "--", OPTIONS_BY_NAME[0]]) == 0
    assert main(["--", OPTIONS_BY_NAME[1], "--quiet"]) == 3  # behind -- there are no options
