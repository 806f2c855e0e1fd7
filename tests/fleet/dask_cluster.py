"""A Dask cluster on this machine, and what its outcomes have in common with local ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.fleet.fleets import kept, until
from tests.places import ROOT


class Cluster:
    """A scheduler and the nannies of two workers, somewhere else than where the models are."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        self.file = folder / "scheduler.json"
        common = ["--scheduler-file", str(self.file), "--no-dashboard"]
        self._start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common)
        until(self.file.exists)
        self.address = json.loads(self.file.read_text())["address"]
        for _ in range(2):
            self._start("dask_worker", *common, "--nthreads", "1", "--local-directory", str(folder))
        until(lambda: len(self.workers()) == 2)

    def _start(self, module: str, *args: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
        log = self.folder / f"{module}{len(self.processes)}.log"
        with log.open("wb") as output:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *args]
            self.processes.append(
                subprocess.Popen(command, cwd=self.folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
            )

    def workers(self) -> list[psutil.Process]:
        """The processes that audit, which their nannies have started."""
        nannies = [psutil.Process(process.pid) for process in self.processes[1:]]
        return [child for nanny in nannies for child in nanny.children() if "spawn_main" in " ".join(child.cmdline())]

    def stop(self) -> None:
        workers = self.workers()
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        for worker in workers:
            worker.kill()


def settled(entry: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the machine: the cluster decides how many threads a worker has."""
    entry = kept(entry)
    if entry["report"] is not None:
        entry["report"]["environment"].pop("threads")
    return entry
