"""Chunks of images in this process or in several: each loads the model once and takes one chunk after the other."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, parent_process

from lipaudit.certification.request import CertifyRequest
from lipaudit.errors.certification import CertifyWorkerError
from lipaudit.fleet.interrupts import blocked_for_children
from lipaudit.fleet.local import threads_per_worker
from lipaudit.option_names import command_line
from lipaudit.records.certification import ImageRecord

Chunk = tuple[int, ...]
"""The numbers of images that are certified together."""
Answer = Callable[[Chunk], list[ImageRecord]]
_answers: list[Answer] = []  # of this process, if it is a worker


def in_processes(
    request: CertifyRequest,
    prepare: Callable[[CertifyRequest, dict[str, object]], Answer],
    head: dict[str, object],
    chunks: Sequence[tuple[int, Chunk]],
) -> Generator[tuple[int, list[ImageRecord]], None, None]:
    """The records of every chunk as they come, from ``request.workers`` processes; closing the iterator ends them.

    ``prepare`` is called once per process with the request and the ``head``, and answers one chunk after the other.
    """
    threads = threads_per_worker(request.workers)
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    with ProcessPoolExecutor(request.workers, context, _begin, (request, prepare, head, threads)) as pool:
        try:
            with blocked_for_children():
                jobs = {pool.submit(_answer, chunk): number for number, chunk in chunks}
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        except BrokenProcessPool:
            raise CertifyWorkerError from None
        except (
            BaseException
        ):  # an interruption, an error, a reader that has gone: nobody waits for what is being worked on
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(
    request: CertifyRequest,
    prepare: Callable[[CertifyRequest, dict[str, object]], Answer],
    head: dict[str, object],
    threads: int,
) -> None:
    """Load the model; a parent that was killed cannot end this process, which then ends itself."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()
    import torch

    torch.set_num_threads(threads)
    with command_line():
        _answers.append(prepare(request, head))


def _answer(chunk: Chunk) -> list[ImageRecord]:
    with command_line():
        return _answers[0](chunk)


def _end_after(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
