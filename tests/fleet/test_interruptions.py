"""Fleets that are killed or interrupted: nothing that was finished is lost, and nothing goes on without its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.fleet import networks
from tests.fleet.fleets import Fleet, kept, lipaudit, until
from tests.places import ROOT

pty = pytest.importorskip("pty")  # POSIX, as are the signals


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.chdir(ROOT)
    return Fleet(tmp_path)


def test_a_killed_fleet_goes_on_where_it_was(fleet: Fleet) -> None:
    models = fleet.list(
        "tests.fleet.networks:wide --input 1x9x6\ntests.fleet.networks:defective --input 1x6x6\n"
        + "".join(f"tests.fleet.networks:slow --input 1x{size}x6\n" for size in range(6, 9))
    )
    args = ["--models-from", str(models), "--jobs", "2", "--format", "json"]
    running = lipaudit(*args, "-o", str(fleet.record))
    fleet.wait_for(2)
    workers = psutil.Process(running.pid).children(recursive=True)
    assert len(workers) >= 2
    running.kill()
    running.communicate()
    assert psutil.wait_procs(workers, timeout=20)[1] == []  # workers end themselves
    done = [entry["status"] for entry in fleet.entries()]
    assert 2 <= len(done) < 5
    with fleet.record.open("ab") as file:
        file.write(b'{"spec": "tests.fleet.networks:slow", "opt')
    resumed = lipaudit(*args, "-o", str(fleet.record))
    out, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 3, err
    assert "the last line of" in err
    assert f"{done.count('done')} of 5 models are done; {done.count('failed')} that failed are audited again" in err
    other = Fleet(fleet.folder / "undisturbed")
    undisturbed = lipaudit(*args, "-o", str(other.record))
    assert undisturbed.communicate(timeout=120)[0] == out
    assert [kept(entry) for entry in fleet.entries()] == [kept(entry) for entry in other.entries()]


@pytest.mark.usefixtures("interruptible")
def test_control_c_ends_the_workers_and_keeps_what_is_finished(fleet: Fleet) -> None:
    """As at a terminal: the signal goes to every process, and stderr shows the bar."""
    names = ("tiny", "sleeping", "tiny --mean 0 --std 1", "sleeping --mean 0 --std 1")
    models = fleet.list("".join(f"tests.fleet.networks:{name} --input 1x6x6\n" for name in names))
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-m", "lipaudit", "--models-from", str(models), "--jobs", "2", "-o", str(fleet.record)]
    command += ["--effort", "none"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, start_new_session=True)
    os.close(theirs)
    fleet.wait_for(2)
    workers = psutil.Process(running.pid).children(recursive=True)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=60) == 130
    assert running.communicate()[0] == b""
    shown = _read(terminal)
    assert "2/4" in shown
    assert f"lipaudit: 2 of 4 models are recorded in {fleet.record}; run the same command to continue" in shown
    assert "lipaudit: interrupted" in shown
    assert "Traceback" not in shown
    assert psutil.wait_procs(workers, timeout=20)[1] == []
    assert [entry["status"] for entry in fleet.entries()] == ["done"] * 2


@pytest.mark.parametrize("network", ["starting", "holding_the_interpreter"])
def test_a_killed_fleet_leaves_no_process(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, network: str) -> None:
    log = fleet.folder / "log"
    monkeypatch.setenv(networks.LOG, str(log))
    running = lipaudit(f"tests.fleet.networks:{network}", "--input", "1x6x6", "--jobs", "1")
    until(lambda: log.exists() and log.read_text() != "")
    started = psutil.Process(running.pid).children(recursive=True)
    assert ("sleep" in {process.name() for process in started}) == (network == "starting")
    running.kill()
    running.communicate()
    assert psutil.wait_procs(started, timeout=20)[1] == []


def _read(terminal: int) -> str:
    data = b""
    try:
        while block := os.read(terminal, 4096):
            data += block
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(terminal)
    return data.decode().replace("\r\n", "\n")
