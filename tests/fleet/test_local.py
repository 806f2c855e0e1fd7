"""Worker processes: what they give back, what their deaths cost, and that their memory does not add up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

import lipaudit
from lipaudit.errors import WorkerError
from lipaudit.fleet.entry import Entry
from lipaudit.fleet.local import run_local, threads_per_worker
from lipaudit.fleet.task import Task, perform
from tests.fleet import networks
from tests.fleet.fleets import task_of, until
from tests.places import ROOT

NETWORKS = "tests.fleet.networks"
SHAPE = {"input_shape": [1, 6, 6]}


def task(name: str, **changes: Any) -> Task:
    return task_of(f"{NETWORKS}:{name}", SHAPE, {"tol": 1e-3, "device": "cpu"}, **changes)


def timeless(report: dict[str, Any] | None) -> dict[str, Any]:
    assert report is not None
    environment = {
        key: value for key, value in report["environment"].items() if key != "threads"
    }  # a worker has its share
    rest = {key: value for key, value in report.items() if key not in ("created", "timings", "environment")}
    return {**rest, "environment": environment}


def children() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "spawn_main" in " ".join(p.cmdline())]


def test_every_death_costs_its_own_task_and_no_other(capfd: pytest.CaptureFixture[str]) -> None:
    names = ["killed", "tiny", "crashing", "leaving", "exiting", "talking", "defective", "wide"]
    found = {entry.spec.partition(":")[2]: entry for entry in run_local(map(task, names), jobs=2)}
    assert sorted(found) == sorted(names)
    assert {name for name, entry in found.items() if entry.status == "done"} == {"tiny", "talking", "wide"}
    assert "was ended by SIGKILL, as it is where memory runs out: try fewer --jobs" in (found["killed"].error or "")
    assert "was ended by SIGSEGV" in (found["crashing"].error or "")
    assert "ended by itself with the exit code 9" in (found["leaving"].error or "")
    assert "ended Python with sys.exit(7)" in (found["exiting"].error or "")
    assert "a network that cannot run" in (found["defective"].error or "")
    assert {entry.exit_code for entry in found.values()} == {0, 3}
    assert capfd.readouterr() == ("", "")
    direct = lipaudit.audit(f"{NETWORKS}:wide", input_shape=(1, 6, 6), device="cpu")
    expected, report = timeless(direct.to_dict()), timeless(found["wide"].report)
    assert json.loads(json.dumps(report)) == json.loads(json.dumps(expected))
    assert children() == []


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_memory_does_not_grow_with_the_number_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv(networks.LOG, str(log))
    entries = list(run_local([task("leaking")] * 4, jobs=1))
    assert [entry.status for entry in entries] == ["done"] * 4
    pairs = [line.split() for line in log.read_text().splitlines()]
    assert len({pid for pid, _ in pairs}) == 4
    memory = [int(megabytes) for _, megabytes in pairs]
    assert max(memory) < min(memory) + networks.LEAK / 2


def test_processes_are_replaced_and_code_has_one_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    import lipaudit.fleet.local as local

    begin, pids = local._Worker.begin, list[int]()

    def noted(self: Any, given: Task, attempt: int) -> None:
        pids.append(self.process.pid)
        begin(self, given, attempt)

    monkeypatch.setattr(local._Worker, "begin", noted)
    missing = task_of("missing.onnx")
    entries = list(run_local([missing] * 5 + [task("tiny"), missing, missing], jobs=1, lifetime=3))
    assert [entry.status for entry in entries] == ["failed"] * 5 + ["done"] + ["failed"] * 2
    assert list(Counter(pids).values()) == [3, 2, 1, 2]


def test_code_changes_nothing_for_other_audits() -> None:
    tasks = [
        task_of(f"{NETWORKS}:meddling", {"input_shape": [1, 6]}),
        task("wide"),
        task_of("sample_models/digits_resnet.onnx"),
    ]
    meddling, *others = run_local(tasks, jobs=1)
    assert meddling.status == "done", meddling.error
    for entry, alone in zip(others, map(perform, tasks[1:]), strict=True):
        found, expected = timeless(entry.report), timeless(alone.report)
        assert {**found, "environment": None} == {**json.loads(json.dumps(expected)), "environment": None}


def test_an_architecture_that_is_code_is_code() -> None:
    assert task("tiny").runs_code
    assert task_of("w.pth", {"arch": "package.module:factory"}, {}).runs_code
    assert task_of("w.pth", {}, {"arch": "package.module:factory"}).runs_code
    assert not task_of("w.pth", {"arch": "resnet18"}, {"arch": "package.module:factory"}).runs_code
    assert not any(
        task_of(spec, {"arch": arch}, {}).runs_code for spec, arch in [("timm:vit", None), ("a.onnx", "?:?")]
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_dead_worker_is_noticed_though_a_copy_of_it_lives() -> None:
    start = time.monotonic()
    (entry,) = run_local([task("forking")], jobs=1)
    assert "was ended by SIGKILL" in (entry.error or "")
    assert time.monotonic() - start < 600  # the copy sleeps for an hour


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="groups of processes")
def test_a_worker_ends_with_what_it_has_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv(networks.LOG, str(log))

    def tasks() -> Iterator[Task]:
        yield task("starting")
        until(lambda: log.exists() and log.read_text() != "")
        yield task_of("missing.onnx")

    with closing(run_local(tasks(), jobs=2)) as entries:
        assert next(entries).spec == "missing.onnx"
        child = psutil.Process(int(log.read_text()))
    assert psutil.wait_procs([child], timeout=20)[1] == []


def test_a_system_without_room_for_a_process_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.context.SpawnProcess.start", full)
    with pytest.raises(
        WorkerError, match=r"no process can be started for an audit \(Resource temporarily unavailable\)"
    ):
        list(run_local([task("tiny")], jobs=1))


def test_workers_share_the_cache_of_norms(tmp_path: Path) -> None:
    tasks = [
        task_of(f"{NETWORKS}:{name}", SHAPE, {"cache": tmp_path / "cache"})
        for name in ("wide", "tiny", "talking", "slow")
    ]
    found = {entry.spec: timeless(entry.report) for entry in run_local(tasks, jobs=2)}
    again = {entry.spec: timeless(entry.report) for entry in map(perform, tasks)}
    plain = {
        entry.spec: timeless(entry.report)
        for entry in map(perform, [task(name) for name in ("wide", "tiny", "talking", "slow")])
    }
    assert len(found) == 4
    for spec, report in again.items():
        notes = [report.pop("notes"), found[spec].pop("notes"), plain[spec].pop("notes")][0]
        assert any("2 of 2 norms of weights were found by an earlier audit" in note for note in notes)
        assert report == plain[spec] == found[spec]


def test_closing_ends_the_processes_at_once() -> None:
    start = time.monotonic()
    with closing(run_local([task("tiny"), task("sleeping"), task("sleeping")], jobs=3)) as entries:
        assert next(entries).status == "done"
        pids = [child.pid for child in children()]
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert time.monotonic() - start < 600  # the network sleeps for an hour


def test_a_worker_that_dies_before_it_begins_costs_nobody_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    import lipaudit.fleet.local as local

    begin, deaths = local._Worker.begin, []

    def dying(self: Any, given: Task, attempt: int) -> None:
        if len(deaths) < 2:
            deaths.append(self.process.pid)
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.join()
        begin(self, given, attempt)

    monkeypatch.setattr(local._Worker, "begin", dying)
    (entry,) = run_local([task("tiny")], jobs=1)
    assert (entry.status, len(set(deaths))) == ("done", 2)


def test_workers_that_never_begin_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import lipaudit.fleet.local as local

    begin = local._Worker.begin

    def dying(self: Any, given: Task, attempt: int) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        begin(self, given, attempt)

    monkeypatch.setattr(local._Worker, "begin", dying)
    entries = list(run_local([task("tiny"), task("wide")], jobs=1))
    assert ["3 times before it could begin" in (entry.error or "") for entry in entries] == [True, True]


def test_cores_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [threads_per_worker(jobs) for jobs in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert [threads_per_worker(jobs) for jobs in (1, 2, 4)] == [3, 3, 2]


def test_a_worker_uses_its_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(2)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (entry,) = run_local([task("tiny")], jobs=2)
    assert entry.report is not None
    assert entry.report["environment"]["threads"] == 1


class TestPerform:
    """One task in this process."""

    def failure(self, **changes: Any) -> Entry:
        entry = perform(task("tiny", **changes))
        assert (entry.status, entry.report) == ("failed", None)
        return entry

    def test_another_version_is_refused(self) -> None:
        entry = self.failure(version="0.0.1")
        assert (
            entry.error
            == f"lipaudit 0.0.1 asks and {lipaudit.__version__} is installed on the worker: install one version everywhere"
        )

    def test_a_folder_that_is_not_there_is_refused(self) -> None:
        assert "the worker has no folder /no/such/folder" in (self.failure(folder="/no/such/folder").error or "")

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        model = tmp_path / "net.onnx"
        asked = task_of(str(model), expected={str(model): "0" * 64})
        assert "does not exist on the worker" in (perform(asked).error or "")
        model.write_bytes(Path("sample_models/digits_resnet.onnx").read_bytes())
        assert "is another file on the worker than where the fleet was started" in (perform(asked).error or "")

    def test_relative_paths_are_those_of_whoever_asks(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        root = os.getcwd()
        monkeypatch.chdir(tmp_path)
        entry = perform(task_of("sample_models/digits_resnet.onnx", folder=root))
        assert entry.status == "done"
        assert list(entry.files) == ["sample_models/digits_resnet.onnx"]
        assert os.getcwd() == str(tmp_path)

    def test_an_unexpected_exception_is_a_defect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise KeyError("x\ny")

        monkeypatch.setattr("lipaudit.auditing.run.run_audit", broken)
        entry = self.failure(debug=True)
        assert entry.exit_code == 70
        assert (
            entry.error
            == "KeyError: 'x\\ny' (a defect of lipaudit; audit it alone with --debug for the traceback and report it)"
        )
        assert "Traceback" in entry.trace
        assert "Traceback" not in entry.to_line()


def test_semaphores_of_what_a_model_imports_are_given_back(tmp_path: Path) -> None:
    (tmp_path / "locked.py").write_text(
        "import multiprocessing\nfrom torch import nn\nLOCK = multiprocessing.get_context('spawn').Lock()\n"
        "def net():\n    return nn.Linear(4, 3)\n"
    )
    paths = os.pathsep.join((str(tmp_path), str(ROOT)))
    command = [sys.executable, "-m", "lipaudit", "locked:net", "--input", "4", "--jobs", "1"]
    ended = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0
    assert "1 with a finite bound" in ended.stdout
    assert ended.stderr == ""
