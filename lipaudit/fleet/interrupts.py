"""Ctrl-C at the right moment: neither in the middle of a step that belongs together, nor in the processes that are started, nor never."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_came: list[int] = []


@contextmanager
def remembered() -> Iterator[None]:
    """Ctrl-C is remembered beside its exception, which other packages may swallow, as some do while they are imported.

    Only where Ctrl-C has its usual meaning, and in the main thread.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _came.clear()


def raise_remembered() -> None:
    """Raise the KeyboardInterrupt that has come within :func:`remembered` and was swallowed; nothing where none has come."""
    if _came:
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    _came.append(number)
    signal.default_int_handler(number, frame)


@contextmanager
def delayed() -> Iterator[None]:
    """Ctrl-C waits for the end of the block. Outside of the main thread, which alone it reaches, nothing is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def first_ends(end: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C within the block calls ``end`` and raises nothing, the next one does what it did before.

    Where Ctrl-C is ignored, and outside of the main thread, nothing is done.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not main or not callable(before):
        yield
        return

    def first(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        end()

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def blocked_for_children() -> Iterator[None]:
    """Processes that are started meanwhile never see Ctrl-C, which reaches every process of a terminal: their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
