"""Fleets that are killed or interrupted: nothing that was finished is lost, and nothing goes on without its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.fleet.fleets import Fleet, kept, lipaudit

pty = pytest.importorskip("pty")  # POSIX, as are the signals

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.chdir(ROOT)
    return Fleet(tmp_path)


def test_a_killed_fleet_goes_on_where_it_was(fleet: Fleet) -> None:
    models = fleet.list(
        "tests.fleet.networks:wide --input 1x9x6\ntests.fleet.networks:defective --input 1x6x6\n"
        + "".join(f"tests.fleet.networks:slow --input 1x{size}x6\n" for size in range(6, 10))
        + "tests.fleet.networks:killed --input 1x6x6\n"
    )
    args = ["--models-from", str(models), "--jobs", "2", "--format", "json"]
    running = lipaudit(*args, "-o", str(fleet.record))
    fleet.wait_for(3)
    workers = psutil.Process(running.pid).children(recursive=True)
    assert len(workers) >= 2
    running.kill()
    running.wait()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert alive == []  # workers end themselves
    done = len(fleet.entries())
    assert 3 <= done < 7
    with fleet.record.open("ab") as file:
        file.write(b'{"spec": "tests.fleet.networks:slow", "opt')
    resumed = lipaudit(*args, "-o", str(fleet.record))
    out, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 3, err
    assert "the last line of" in err
    assert f"{done - 1} of 7 models are done; 1 that failed are audited again" in err
    other = Fleet(fleet.folder / "undisturbed")
    undisturbed = lipaudit(*args, "-o", str(other.record))
    assert undisturbed.communicate(timeout=120)[0] == out
    assert [kept(entry) for entry in fleet.entries()] == [kept(entry) for entry in other.entries()]


def test_control_c_ends_the_workers_and_keeps_what_is_finished(fleet: Fleet) -> None:
    """As at a terminal: the signal goes to every process, and stderr shows the bar."""
    models = fleet.list(
        "tests.fleet.networks:tiny --input 1x6x6\ntests.fleet.networks:sleeping --input 1x6x6\ntests.fleet.networks:sleeping --input 1x6x7\n"
    )
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-m", "lipaudit", "--models-from", str(models), "--jobs", "2", "-o", str(fleet.record)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True)
    os.close(theirs)
    fleet.wait_for(1)
    workers = psutil.Process(running.pid).children(recursive=True)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=60) == 130
    assert running.stdout is not None
    assert running.stdout.read() == b""
    shown = _read(terminal)
    assert "1/3" in shown
    assert f"lipaudit: 1 of 3 models are recorded in {fleet.record}; the same command goes on from there" in shown
    assert "lipaudit: interrupted" in shown
    assert "Traceback" not in shown
    assert psutil.wait_procs(workers, timeout=20)[1] == []
    assert [entry["status"] for entry in fleet.entries()] == ["done"]


def _read(terminal: int) -> str:
    data = b""
    try:
        while block := os.read(terminal, 4096):
            data += block
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(terminal)
    return data.decode().replace("\r\n", "\n")
