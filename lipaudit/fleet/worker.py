"""What a worker process on this machine runs. Nothing here imports torch before the number of threads is set."""

from __future__ import annotations

import os
import signal
import sys
import threading
from multiprocessing import connection, parent_process
from multiprocessing.connection import Connection


def serve(tasks: Connection, threads: int, debug: bool) -> None:
    """Perform one task after the other until nobody sends any more: per task an empty message where it begins, then its entry."""
    _end_with_parent(tasks)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    _redirect(debug)
    while True:
        try:
            task = tasks.recv()
        except EOFError:
            return
        from lipaudit.fleet.task import perform

        tasks.send(None)
        tasks.send(perform(task))


def _end_with_parent(tasks: Connection) -> None:
    """A parent that was killed cannot end its workers: they end themselves, with all that they have started.

    The worker leads a group of its own. In it waits a process for the end of the parent, since the code of a model may keep every
    thread of the worker from running.
    """
    parent = parent_process()
    if parent is None:
        return
    if sys.platform == "win32":
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()
        return
    os.setsid()
    if os.fork():
        return
    try:
        tasks.close()
        connection.wait([parent.sentinel])
    finally:
        os.killpg(0, signal.SIGKILL)


def _exit_after(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _redirect(debug: bool) -> None:
    """Libraries that write to the standard streams by themselves reach stderr with ``debug``, else nobody."""
    target = 2 if debug else os.open(os.devnull, os.O_WRONLY)
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        stream.flush()
        os.dup2(target, number)
