"""Ctrl-C and the moments at which it must not come."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from lipaudit.fleet.interrupts import blocked_for_children, delayed


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    steps = []
    handler = signal.getsignal(signal.SIGINT)

    def step() -> None:
        signal.raise_signal(signal.SIGINT)
        steps.append("end")

    with pytest.raises(KeyboardInterrupt), delayed():
        step()
    assert steps == ["end"]
    assert signal.getsignal(signal.SIGINT) is handler
    with pytest.raises(ZeroDivisionError), delayed():
        _ = 1 / 0
    assert signal.getsignal(signal.SIGINT) is handler


def test_without_an_interrupt_nothing_happens_in_any_thread() -> None:
    entered = []

    def enter() -> None:
        with delayed():
            entered.append(threading.current_thread())

    enter()
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [threading.main_thread(), thread]


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals of POSIX")
def test_children_do_not_see_interrupts() -> None:
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"

    def child() -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    with blocked_for_children():
        assert child() == "True\n"
    assert child() == "False\n"
