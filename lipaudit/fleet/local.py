"""Audits in worker processes of this machine.

Every process performs one task at a time and is replaced after :data:`LIFETIME` of them, so that memory does not grow with the
number of models. A task that runs the user's own code has a process to itself: what that code changes in Python or torch reaches
no other audit. A process that dies takes only the task with it that it was performing, and that task becomes a failed entry. With
a process ends whatever it has started.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import suppress
from multiprocessing.connection import wait

from lipaudit.errors import ModelLoadError
from lipaudit.errors.fleets import NoProcessError
from lipaudit.fleet.entry import Entry
from lipaudit.fleet.interrupts import blocked_for_children, raise_remembered
from lipaudit.fleet.task import Task
from lipaudit.fleet.worker import serve

LIFETIME = 16
_GLANCE = (
    1.0  # seconds between looks at the processes: a copy of a dead one may hold its connection, and its sentinel, too
)
_FAREWELL = 5.0  # seconds that an idle process has to end by itself
_ATTEMPTS = 3  # of a task whose worker died before it began


def run_local(
    tasks: Iterable[Task], jobs: int, debug: bool = False, lifetime: int = LIFETIME
) -> Generator[Entry, None, None]:
    """The entries of the tasks, each as soon as it is there, from ``jobs`` processes.

    Closing the iterator ends the processes, whatever they are doing.
    """
    waiting, again = iter(tasks), deque[tuple[Task, int]]()
    workers: list[_Worker] = []
    try:
        while True:
            while sum(worker.busy for worker in workers) < jobs:
                task, attempt = again.popleft() if again else (next(waiting, None), 1)
                if task is None:
                    break
                idle = next((worker for worker in workers if not worker.busy), None)
                if idle is not None and task.runs_code:
                    idle.stop()
                    workers.remove(idle)
                    idle = None
                if idle is None:
                    idle = _Worker(threads_per_worker(jobs), debug, 1 if task.runs_code else lifetime)
                    workers.append(idle)
                idle.begin(task, attempt)
            busy = [worker for worker in workers if worker.busy]
            if not busy:
                return
            raise_remembered()
            ready = wait([worker.connection for worker in busy], _GLANCE)
            for worker in busy:
                dead = worker.process.exitcode is not None
                if not dead and worker.connection not in ready:
                    continue
                result = worker.receive(dead)
                if worker.ended:
                    workers.remove(worker)
                if isinstance(result, Entry):
                    yield result
                elif result is not None:
                    again.append(result)
    finally:
        for worker in workers:
            worker.dismiss()
        for worker in workers:
            worker.stop()


def threads_per_worker(jobs: int) -> int:
    """The cores of this process shared among the workers, at most ``OMP_NUM_THREADS`` for each."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores // jobs, int(allowed) if allowed.isdigit() else cores))


class _Worker:
    """A process and the task that it performs."""

    def __init__(self, threads: int, debug: bool, lifetime: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, threads, debug))
        try:
            with blocked_for_children():
                self.process.start()
        except OSError as error:
            self.connection.close()
            raise NoProcessError(error) from None
        finally:
            theirs.close()
        self.left = lifetime
        self.ended = False
        self.begun = False
        self.task: Task | None = None
        self.attempt = 0

    @property
    def busy(self) -> bool:
        return self.task is not None

    def begin(self, task: Task, attempt: int) -> None:
        self.task, self.attempt, self.begun = task, attempt, False
        with suppress(OSError):  # it is dead, which receive finds out
            self.connection.send(task)

    def receive(self, dead: bool) -> Entry | tuple[Task, int] | None:
        """The entry of the task; or the task with its next attempt where the worker died before it began; or nothing yet.

        A process that the worker has forked may hold its end of the connection: with a dead worker it is ended first.
        """
        task = self.task
        assert task is not None
        if dead:
            self._kill_group()
        try:
            if dead and not self.connection.poll():
                return self._bury(task)
            entry: Entry | None = self.connection.recv()
        except (EOFError, OSError):
            return self._bury(task)
        if entry is None:
            self.begun = True
            return None
        self.task, self.left = None, self.left - 1
        if not self.left:
            self.stop()
        return entry

    def dismiss(self) -> None:
        """Let the process end by itself where it has no task."""
        if not self.busy:
            self.connection.close()

    def stop(self) -> None:
        """End the process: it holds nothing that is not recorded.

        An idle one may end by itself, so that it gives back the semaphores of the libraries that it has imported.
        """
        self.ended = True
        self.connection.close()
        if not self.busy:
            self.process.join(_FAREWELL)
        self._kill_group()
        self.process.kill()
        self.process.join()

    def _kill_group(self) -> None:
        """End what the worker has started and has not left its group; a worker that has just begun has none yet."""
        if self.process.pid is not None and hasattr(os, "killpg"):
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def _bury(self, task: Task) -> Entry | tuple[Task, int]:
        self.process.join(5.0)  # it closed its end, so it is about to be gone
        code = self.process.exitcode
        self.stop()
        if not self.begun and self.attempt < _ATTEMPTS:
            return task, self.attempt + 1
        when = "" if self.begun else f" {_ATTEMPTS} times before it could begin"
        return Entry.failed(task.spec, task.own, f"the worker process {_end(code)}{when}", ModelLoadError.exit_code)


def _end(code: int | None) -> str:
    if code is None:
        return "stopped answering"
    if code >= 0:
        return f"ended by itself with the exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = ", as it is where memory runs out: try fewer --jobs or a smaller --input" if name == "SIGKILL" else ""
    return f"was ended by {name}{memory}"
