"""The README is short, and what it shows is so. Its commands are run by ``test_commands.py``."""

from __future__ import annotations

import re

import pytest

from lipaudit.cli import main
from tests.docs.commands import blocks
from tests.docs.test_domains import assert_printed
from tests.places import DOCS, ROOT

PAGE = ROOT / "README.md"
README = PAGE.read_text(encoding="utf-8")
JOBS = ("Look", "Gate", "Study", "Train")


def test_it_has_at_most_700_words() -> None:
    assert len(README.split()) <= 700


def test_two_commands_set_everything_up() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv ")]
    assert [command.split("&& ")[-1] for command in commands] == [
        ".venv/bin/lipaudit sample_models/digits_resnet.onnx",
        ".venv/bin/pytest",
    ]
    assert all("pip install" in command for command in commands)


def test_what_the_first_command_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (shown,) = blocks(PAGE, "text")
    assert main(["sample_models/digits_resnet.onnx"]) == 0
    assert_printed(shown.splitlines(), capsys.readouterr().out.splitlines())


def test_every_job_has_one_command_or_example() -> None:
    parts = re.split(r"^\*\*(\w+)\*\*: ", README.split("## Four jobs")[1].split("\n## ")[0], flags=re.MULTILINE)
    assert tuple(parts[1::2]) == JOBS
    assert [len(re.findall(r"^```(?:sh|python)$", text, re.MULTILINE)) for text in parts[2::2]] == [1] * len(JOBS)


def test_there_is_one_picture_and_every_link_leads_somewhere() -> None:
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    named = re.findall(r"\bsample_models/[\w.]+\w", README) + re.findall(r"\]\(([^)#:]+)\)", README)
    assert picture in named
    assert len(named) >= 15
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", [PAGE, DOCS / "usage.md"], ids=lambda page: page.name)
def test_the_examples_in_python_run(page: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    examples = blocks(page, "python")  # type: ignore[arg-type]
    assert examples
    for example in examples:  # a later one goes on with the names of the first
        exec(compile(example, "example", "exec"), names)
