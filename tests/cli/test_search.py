"""Ctrl-C during the search for a tighter bound: what was reached is proved and printed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.cli.search import ShownSearch
from lipaudit.network.forms.watch import Watch
from lipaudit.records.report import AuditReport
from tests.places import ROOT

pytestmark = pytest.mark.usefixtures("interruptible")

# sends Ctrl-C at given evaluations of the search, then runs the command line
_INTERRUPTED = """
import os, signal, sys
from lipaudit.cli import main
from lipaudit.cli.search import ShownSearch
evaluated = ShownSearch.evaluated
def interrupting(self, *args):
    evaluated(self, *args)
    for _ in range({times} if self.evaluations == 5 else 0):
        os.kill(os.getpid(), signal.SIGINT)
ShownSearch.evaluated = interrupting
sys.exit(main(sys.argv[1:]))
"""
MODEL = "tests.cli.test_search:network"


def network() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3))


def run(times: int, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _INTERRUPTED.format(times=times), MODEL, "--input", "6", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment)


def test_an_interrupt_ends_the_search_and_proves_what_it_has_reached(tmp_path: Path) -> None:
    proof = tmp_path / "proof.safetensors"
    done = run(1, "--effort", "standard", "--format", "json", "--certificate", str(proof), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (note,) = [note for note in document["notes"] if "interrupted" in note]
    assert "interrupted after 5 evaluations with " in note
    assert "of 5e+11 operations" in note
    assert "another run need not reach the same" in note
    product, forms = document["network"]["bounds"]
    assert note.split("was ")[1].split(":")[0] in forms["note"]
    whole = lipaudit.audit(network(), (1, 6), effort="standard").network.log10_upper_bound
    assert whole is not None
    assert whole < forms["log10_upper_bound"] < product["log10_upper_bound"]
    file = tmp_path / "report.json"
    file.write_text(done.stdout)
    assert lipaudit.verify(AuditReport.load(file), network(), proof).verified


def test_the_screen_says_it_and_gates_judge(tmp_path: Path) -> None:
    done = run(1, "--max-log10-bound", "-9", folder=tmp_path)
    assert done.returncode == 1
    assert "interrupted after 5 evaluations" in " ".join(done.stdout.split())


def test_a_second_interrupt_ends_the_command(tmp_path: Path) -> None:
    done = run(2, "-o", "report.json", folder=tmp_path)
    assert done.returncode == 130
    assert "lipaudit: interrupted" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_in_python_an_interrupt_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "evaluated", lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        lipaudit.audit(network(), (1, 6), effort="quick")


def test_the_line_shows_how_the_bound_falls() -> None:
    lines: list[str] = []

    class Line:
        def say(self, text: str) -> None:
            lines.append(text)

    shown = ShownSearch(Line())  # type: ignore[arg-type]
    with shown.searching(1e9):
        shown.evaluated(1e6, math.log(100.0))
        shown.end()
        shown.evaluated(1e6, math.log(1000.0))
    assert lines == [
        "searching, about 10^2.000 after 1 evaluations",
        "interrupted, proving about 10^2.000 after 2 evaluations",
    ]
    assert shown.interruption == "interrupted after 2 evaluations with 2e+06 of 1e+09 operations"
