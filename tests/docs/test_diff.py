"""What docs/diff.md shows is what its commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from lipaudit.cli import main
from tests.docs.test_domains import assert_printed, blocks
from tests.places import ROOT

PAGE = (ROOT / "docs" / "diff.md").read_text(encoding="utf-8")


def test_the_worked_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sample_models").symlink_to(ROOT / "sample_models")
    monkeypatch.chdir(tmp_path)
    (tuning,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(tuning, "diff.md", "exec"), {})
    example, gates = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    *audits, diff = example.splitlines()
    assert len(audits) == 2
    for command in audits:
        assert main(shlex.split(command)[1:]) == 0
    capsys.readouterr()
    assert main(shlex.split(diff)[1:]) == 0
    (shown,) = blocks(PAGE)
    printed = capsys.readouterr().out.splitlines()
    assert len(shown) == len(printed)
    assert_printed(shown, printed)
    assert main(shlex.split(gates)[1:]) == 1
    assert "--max-growth 1.05" in capsys.readouterr().err


def test_every_verdict_is_explained() -> None:
    from lipaudit.records.diff import GREW, SHRANK, WITHIN
    from lipaudit.text.diff_figures import BOUNDS, ESTIMATES, WORDS

    for word in (
        GREW,
        SHRANK,
        WITHIN,
        *WORDS.values(),
        *BOUNDS.values(),
        *ESTIMATES.values(),
        "added",
        "removed",
        "changed",
    ):
        assert f"`{word}`" in PAGE
