"""Audits on the workers of a Dask cluster that is already there: the same tasks, the same entries.

The scheduler runs a task again whose worker died, and gives it up after as many deaths as it allows (``allowed-failures``, three
unless configured). It cannot tell which of the tasks of that worker was to blame, so a task that it gives up is tried once more
while nothing else runs; only then it is a failed entry.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager
from dataclasses import replace
from multiprocessing import current_process
from typing import Any

from lipaudit.errors import ModelLoadError
from lipaudit.errors.fleets import LostSchedulerError, NoClusterPackageError, NoSchedulerError
from lipaudit.fleet.entry import Entry
from lipaudit.fleet.interrupts import raise_remembered
from lipaudit.fleet.local import run_local
from lipaudit.fleet.task import ONE_AT_A_TIME, Task, perform
from lipaudit.frontends.input_files import file_hashes
from lipaudit.version import __version__

_PATIENCE = 10.0  # seconds for the scheduler to answer
_PER_WORKER = 2  # tasks that are sent at a time, so that no worker waits for its next one


@contextmanager
def connected(address: str, debug: bool = False) -> Iterator[Any]:
    """A client of the scheduler at ``address`` (``tcp://10.0.0.1:8786``).

    Raises :class:`~lipaudit.errors.ClusterError` where the package ``distributed`` is missing or nothing answers there.
    """
    try:
        from distributed import Client
    except ImportError:
        raise NoClusterPackageError from None
    if not debug:
        for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]:
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        raise NoSchedulerError(address, error) from None
    with client:
        yield client


def run_on_cluster(tasks: Iterable[Task], client: Any, notify: Callable[[str], None]) -> Generator[Entry, None, None]:
    """The entries of the tasks, each as soon as it is there.

    Relative paths are those of the folder in which this runs, which every worker must have. ``notify`` is told where nothing can
    happen because there is no worker. Closing the iterator takes back what has not begun. Raises
    :class:`~lipaudit.errors.ClusterError` where the scheduler goes away.
    """
    try:
        yield from _entries(iter(tasks), client, notify)
    except (OSError, CancelledError):
        raise LostSchedulerError(client.scheduler.address) from None


def perform_on_worker(task: Task) -> Entry:
    """What a worker does: the user's own code runs in a process of its own, so that no worker keeps an old version of it."""
    if not task.runs_code:
        return perform(task)
    current_process().daemon = False  # workers are, and such processes may have no children
    with ONE_AT_A_TIME, closing(run_local([task], jobs=1, debug=task.debug)) as entries:
        return next(entries)


def _entries(waiting: Iterator[Task], client: Any, notify: Callable[[str], None]) -> Iterator[Entry]:
    running: dict[Any, Task] = {}
    doubtful: list[Task] = []
    alone = told = False
    try:
        while True:
            while len(running) < (1 if alone else _room(client)):
                task = doubtful.pop() if alone and doubtful else next(waiting, None)
                if task is None:
                    break
                running[client.submit(perform_on_worker, _sent(task), pure=False)] = task
            if not running and not doubtful:
                return
            if not running:
                alone = True
                continue
            raise_remembered()
            done = _done(client, running)
            if not done and not told and not _workers(client):
                told = True
                notify("the cluster has no worker; waiting for one")
            for future in done:
                task = running.pop(future)
                entry = _entry(future, task, client)
                if entry is None and not alone:
                    doubtful.append(task)
                else:
                    yield entry or _given_up(task)
    finally:
        client.cancel(list(running))


def _room(client: Any) -> int:
    """How many tasks the cluster may have at a time."""
    return max(1, _PER_WORKER * _workers(client))


def _workers(client: Any) -> int:
    return len(client.scheduler_info(n_workers=-1)["workers"])


def _sent(task: Task) -> Task:
    return replace(task, folder=os.getcwd(), expected=file_hashes(task.request.files()))


def _done(client: Any, running: Iterable[Any]) -> list[Any]:
    """The futures that have ended; none where nothing ends for a while."""
    from distributed import wait

    with client.as_current():
        try:
            wait(list(running), timeout=_PATIENCE, return_when="FIRST_COMPLETED")  # type: ignore[no-untyped-call]
        except TimeoutError:
            return []
    # a result that was on a worker which has died meanwhile is pending again
    return [future for future in running if future.status != "pending"]


def _entry(future: Any, task: Task, client: Any) -> Entry | None:
    """What came back; None where the workers died that had the task."""
    from distributed import KilledWorker

    try:
        entry: Entry = future.result()
    except KilledWorker:
        return None
    except Exception as error:
        if client.status != "running":
            raise CancelledError from error
        message = " ".join(f"{type(error).__name__}: {error}".split())
        return Entry.failed(
            task.spec,
            task.own,
            f"the worker could not run it ({message}): install lipaudit {__version__} and its requirements on every worker",
            ModelLoadError.exit_code,
        )
    return entry


def _given_up(task: Task) -> Entry:
    return Entry.failed(
        task.spec,
        task.own,
        "every worker process that had it died, also while nothing else ran: if memory runs out, give the workers more or try a "
        "smaller --input",
        ModelLoadError.exit_code,
    )
