"""What docs/gates.md and docs/exports.md tell a reader to type does what they say."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from junitparser import JUnitXml

from lipaudit.cli.config import find_config
from tests.docs.commands import ROOT, blocks, copy_of_the_samples, run_page, script

GATES, EXPORTS = ROOT / "docs" / "gates.md", ROOT / "docs" / "exports.md"


def test_the_commands_of_gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lipaudit.auditing.request.DEFAULT_EFFORT", "none")
    copy_of_the_samples(tmp_path)
    (table,) = blocks(GATES, "toml")
    (tmp_path / "pyproject.toml").write_text(table, encoding="utf-8")
    config = find_config(tmp_path)
    assert config is not None
    assert {key.replace("_", "-") for key in config.values} == set(tomllib.loads(table)["tool"]["lipaudit"])
    (tmp_path / "pyproject.toml").write_text(table.replace('"standard"', '"none"'), encoding="utf-8")
    run_page(GATES, tmp_path)
    cases = [case for suite in JUnitXml.fromfile(str(tmp_path / "gates.xml")) for case in suite]
    assert [case.name for case in cases if case.result] == ["/stem/stem.0/Conv"]


def test_the_commands_of_exports(tmp_path: Path) -> None:
    copy_of_the_samples(tmp_path)
    printed = run_page(EXPORTS, tmp_path)
    (shown,) = blocks(EXPORTS, "text")
    (card,) = (text for text in printed if text.startswith("---"))
    found, expected = card.splitlines(), shown.splitlines()
    assert found[:-2] == expected[:-2]
    for line, other in zip(found[-2:], expected[-2:], strict=True):  # the last digits may differ by machine
        assert line.split()[0] == other.split()[0]
        assert abs(float(line.split()[1]) / float(other.split()[1]) - 1) < 5e-3
    assert ModelCard.load(tmp_path / "card.md").data.model_name == "digits-resnet"


def test_a_line_that_ends_otherwise_than_shown_fails() -> None:
    for block, code in (
        ("false # ends with 1", 0),
        ("true", 0),
        ("true # ends with 1", 1),
        ("false", 1),
        ("false # ends with 1\nfalse", 1),
        ("exit 3 # ends with 1", 3),
        ("false | cat", 1),
    ):
        assert subprocess.run(["bash", "-c", script(block)], check=False).returncode == code
