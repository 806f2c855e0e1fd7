"""The commands and the list that docs/fleets.md shows are understood, and do what the page says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lipaudit.cli import cli, main
from lipaudit.fleet.local import LIFETIME
from lipaudit.fleet.task import perform
from tests.fleet.fleets import Fleet, task_of
from tests.places import ROOT

PAGE = (ROOT / "docs" / "fleets.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """The page's files, in a folder from which its relative paths lead to the samples."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_models").symlink_to(ROOT / "sample_models")
    monkeypatch.syspath_prepend(str(ROOT))
    fleet = Fleet(tmp_path)
    fleet.list(blocks("text")[0])
    return fleet


def ran(tasks: Any, *_: object) -> Any:
    yield from map(perform, tasks)


def test_the_commands_with_a_list_audit_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lipaudit.fleet.local.run_local", ran)
    monkeypatch.setattr("lipaudit.auditing.request.DEFAULT_EFFORT", "none")
    (command,) = (line for line in COMMANDS if "--models-from models.txt --jobs 4" in line)
    assert main(shlex.split(command)[1:]) == 0
    out, _ = capsys.readouterr()
    assert out.splitlines()[-1] == "11 models: 10 with a finite bound, 1 unbounded."
    assert len(fleet.entries()) == 11
    (look,) = (line for line in COMMANDS if line.startswith("tail "))
    found = subprocess.run(["bash", "-c", look], capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == [f"{entry['spec']} done" for entry in fleet.entries()]


def test_the_command_with_a_wildcard_audits_every_sample(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMANDS[0].endswith("--jobs 2")
    assert main([*shlex.split(COMMANDS[0])[1:], "--effort", "none"]) == 0
    assert "6 models: 5 with a finite bound, 1 unbounded." in capsys.readouterr().out


def test_the_command_for_a_cluster_is_understood(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def connected(address: str, _debug: bool) -> Any:
        asked.append(address)
        raise RuntimeError("this test has no cluster")

    monkeypatch.setattr("lipaudit.fleet.cluster.connected", connected)
    (command,) = (line for line in COMMANDS if "--cluster" in line)
    assert main(shlex.split(command)[1:]) == 70
    assert asked == ["tcp://10.0.0.1:8786"]
    assert "this test has no cluster" in capsys.readouterr().err


def test_the_page_names_options_and_keys_as_they_are(fleet: Fleet) -> None:
    known = {name for parameter in cli.commands["audit"].params for name in parameter.opts}
    theirs = {"--nthreads", "--memory-limit", "--lifetime"}  # of Dask
    known |= {name for verb in ("export", "diff") for parameter in cli.commands[verb].params for name in parameter.opts}
    assert set(re.findall(r"--[a-z][a-z0-9-]+", PAGE)) - theirs <= known
    keys = [key for cell in re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE) for key in re.findall(r"`(\w+)`", cell)]
    entry = perform(task_of("sample_models/digits_resnet.onnx"))
    assert sorted(json.loads(entry.to_line())) == sorted(keys)
    assert json.loads(blocks("json")[0])["kind"] == "fleet"
    assert f"replaced after {LIFETIME} models" in PAGE.replace("\n", " ")
