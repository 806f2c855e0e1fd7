"""What the page on certified decisions shows is what its commands print and do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lipaudit.records.schema import certification_schema_text
from tests.docs.commands import blocks, commands, copy_of_the_samples, run_line
from tests.places import DOCS, ROOT

PAGE = DOCS / "certify.md"


@pytest.fixture(autouse=True)
def _without_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for tighter bounds, which takes most of the time, changes figures, and no words."""
    monkeypatch.setattr("lipaudit.auditing.request.DEFAULT_EFFORT", "none")


def words(text: str) -> list[list[str]]:
    """The words of every line with a sign in the place of every number: bounds become smaller as searches become better."""
    return [
        re.sub(r"[0-9]+([.][0-9]+)?(e[+-]?[0-9]+)?", "#", line).split()
        for line in text.strip().splitlines()
        if "-" not in line[:2]
    ]


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    copy_of_the_samples(tmp_path)
    made, certified = [run_line(command, tmp_path) for command in commands(blocks(PAGE)[0])]
    assert made.code == 0, made.err
    shown, near = blocks(PAGE, "text")
    assert words(shown) == words(certified.out)
    for command in commands(blocks(PAGE)[3]):
        assert run_line(command, tmp_path).code == command.code
    (local,) = commands(blocks(PAGE)[1])
    one = run_line(replace(local, text=f"{local.text} --max-images 1 --local-steps 1"), tmp_path)
    assert one.code == 0, one.err
    headings = [line for line in one.out.splitlines() if line.startswith(("image", " radius"))]
    assert [heading.split() for heading in headings] == [
        line.split() for line in near.splitlines() if line.startswith(("image", " radius"))
    ]


def test_every_field_of_the_json_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [A-Z]", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    parts = json.loads(certification_schema_text())["$defs"].values()
    assert sorted(rows) == sorted(name for part in parts for name in part["properties"])


def test_the_example_in_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    (example,) = blocks(PAGE, "python")
    exec(compile(example, "example", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 17
