"""A fleet's files in a test, and the command in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lipaudit.auditing.request import AuditOptions
from lipaudit.fleet.task import Task


class Fleet:
    """A folder with a list of models and a record."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.record = folder / "fleet.jsonl"

    def list(self, text: str) -> Path:
        path = self.folder / "models.txt"
        path.write_text(text)
        return path

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.record.read_text().splitlines()[1:]]

    def wait_for(self, count: int) -> None:
        """Wait until so many outcomes are recorded."""
        until(lambda: self.record.exists() and self.record.read_bytes().count(b"\n") > count)


def task_of(
    spec: str, own: dict[str, Any] | None = None, settings: dict[str, Any] | None = None, **changes: Any
) -> Task:
    """The task of a model with options of its own in a fleet with ``settings``; without them it searches for no tighter bound."""
    return Task(
        AuditOptions(**{"effort": "none", **(settings or {})}).request(spec, **(own or {})), own or {}, **changes
    )


def until(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    """Wait for what must become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not true after {seconds} seconds"
        time.sleep(0.02)


def kept(entry: dict[str, Any]) -> dict[str, Any]:
    """What must be the same in two runs: everything but times."""
    report = entry["report"]
    if report is not None:
        report = {key: value for key, value in report.items() if key not in ("created", "timings")}
    return {**entry, "report": report}


def lipaudit(*args: str) -> subprocess.Popen[str]:
    """The command, running, without a search for a tighter bound."""
    command = [sys.executable, "-m", "lipaudit", *args, "--effort", "none"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
