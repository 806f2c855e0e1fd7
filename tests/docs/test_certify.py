"""What the page on certified decisions shows is what its commands print and do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.commands import blocks, commands, copy_of_the_samples, run_line
from tests.docs.test_domains import assert_printed
from tests.places import DOCS, ROOT

PAGE = DOCS / "certify.md"


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    copy_of_the_samples(tmp_path)
    made, certified = [run_line(command, tmp_path) for command in commands(blocks(PAGE)[0])]
    assert made.code == 0, made.err
    (shown,) = blocks(PAGE, "text")
    assert_printed(shown.splitlines(), certified.out.splitlines())
    for command in commands(blocks(PAGE)[2]):
        assert run_line(command, tmp_path).code == command.code


def test_the_example_in_python_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    (example,) = blocks(PAGE, "python")
    exec(compile(example, "example", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 17
