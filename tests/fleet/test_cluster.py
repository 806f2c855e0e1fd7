"""Fleets on a Dask cluster: a real scheduler and two worker processes on this machine, one of which is killed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import lipaudit.fleet.cluster as cluster
from lipaudit.errors import ClusterError
from lipaudit.fleet.entry import Entry
from lipaudit.fleet.task import Task, perform
from tests.fleet.dask_cluster import Cluster, settled
from tests.fleet.fleets import Fleet, lipaudit, task_of
from tests.places import ROOT

SLOW = [("tests.fleet.networks:slow", {"input_shape": [1, size, 6]}) for size in range(6, 9)]
MODELS = [("sample_models/digits_resnet.onnx", {}), ("tests.fleet.networks:wide", {"input_shape": [1, 6, 6]}), *SLOW]
LINES = [f"{spec}" + (f" --input {'x'.join(map(str, o['input_shape']))}" if o else "") for spec, o in MODELS]


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.chdir(ROOT)
    return Fleet(tmp_path)


def test_a_worker_that_is_killed_costs_nothing(dask: Cluster, fleet: Fleet) -> None:
    models = fleet.list("\n".join(LINES))
    args = ["--models-from", str(models), "-o", str(fleet.record), "--format", "json"]
    running = lipaudit(*args, "--cluster", dask.address)
    fleet.wait_for(1)
    assert len(fleet.entries()) < len(MODELS)
    dask.workers()[0].kill()
    out, err = running.communicate(timeout=120)
    assert (running.returncode, err) == (0, f"lipaudit: every report is in {fleet.record}\n")
    assert [entry["status"] for entry in json.loads(out)["models"]] == ["finite"] * len(MODELS)
    header = json.loads(fleet.record.read_text().splitlines()[0])
    direct = [perform(task_of(spec, options, header["settings"])) for spec, options in MODELS]
    assert list(map(settled, fleet.entries())) == [settled(json.loads(entry.to_line())) for entry in direct]


def test_a_model_that_kills_its_workers_is_a_row(dask: Cluster, fleet: Fleet) -> None:
    names = ["killing_the_parent", "killed"]
    models = fleet.list("".join(f"tests.fleet.networks:{n} --input 1x6x6\n" for n in names) + "\n".join(LINES[:2]))
    running = lipaudit("--models-from", str(models), "-o", str(fleet.record), "--cluster", dask.address)
    _, err = running.communicate(timeout=240)
    assert running.returncode == 3
    message = "every worker process that had it died, also while nothing else ran"
    assert f"lipaudit: error: tests.fleet.networks:killing_the_parent: {message}" in err
    assert "lipaudit: error: tests.fleet.networks:killed: the worker process was ended by SIGKILL" in err
    assert "Traceback" not in err
    assert [entry["status"] for entry in fleet.entries()] == ["failed", "failed", "done", "done"]


def test_a_factory_is_what_its_file_says_now(dask: Cluster, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fleet.folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    bounds = []
    for scale in (1.0, 9.0):
        code = (
            f"import torch\ndef net():\n    m = torch.nn.Linear(4, 1)\n    m.weight.data.fill_({scale})\n    return m\n"
        )
        Path("rescaled.py").write_text(code)
        args = ("rescaled:net", "--input", "1,4", "-o", str(fleet.record), "--restart", "--quiet")
        running = lipaudit(*args, "--cluster", dask.address)
        _, err = running.communicate(timeout=240)
        assert running.returncode == 0, err
        (entry,) = fleet.entries()
        bounds.append(entry["report"]["network"]["upper_bound"])
    assert bounds == pytest.approx([2.0, 18.0], rel=1e-3)


class Idle:
    """A client of a scheduler without workers."""

    status = "running"

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {}}

    def submit(self, function: Any, task: Task, pure: bool) -> Future[Entry]:
        future: Future[Entry] = Future()
        future.set_result(Entry.failed(task.spec, {}, "too small", 3))
        return future

    def cancel(self, futures: list[Any]) -> None:
        assert futures == []


def test_a_cluster_without_workers_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    waits = iter([True, True, True, False])
    monkeypatch.setattr(cluster, "_done", lambda _, running: [] if next(waits) else list(running))
    (entry,) = cluster.run_on_cluster([task_of("net")], Idle(), told.append)
    assert (entry.spec, told) == ("net", ["the cluster has no worker; waiting for one"])


# One client per process, as the command has it: where several fail, distributed may stop one while it starts another, and hangs.
def test_an_address_without_a_scheduler_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE", 0.5)
    address = "tcp://127.0.0.1:9"
    with pytest.raises(ClusterError, match=f"no scheduler of a Dask cluster answers at {address} "):
        cluster.connected(address).__enter__()


def test_an_address_that_is_none_is_one_clear_error(fleet: Fleet) -> None:
    out, err = lipaudit("sample_models/digits_resnet.onnx", "--cluster", "nowhere").communicate()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("lipaudit: error: no scheduler of a Dask cluster answers at nowhere (missing port number")


def test_a_missing_package_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(ClusterError, match=r"pip install 'lipaudit\[cluster\]'"),
        cluster.connected("tcp://127.0.0.1:9"),
    ):
        pass
