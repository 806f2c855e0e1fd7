"""The examples of the page on the report in Python run as they stand, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import lipaudit
from tests.places import DOCS

PAGE = (DOCS / "python.md").read_text(encoding="utf-8")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL):
        exec(compile(block, "python.md", "exec"), names)
    assert lipaudit.AuditReport.load("report.json") == names["report"]
    assert {name: tuple(weight.shape) for name, weight in names["weights"].items()} == {
        "0": (4, 1, 3, 3),
        "3": (10, 144),
    }
