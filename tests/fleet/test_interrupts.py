"""Ctrl-C and the moments at which it must not come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from lipaudit.catalog.model_names import ModelNames
from lipaudit.cli import main
from lipaudit.fleet.interrupts import blocked_for_children, delayed, raise_remembered, remembered

pytestmark = pytest.mark.usefixtures("interruptible")


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


def test_an_interrupt_that_is_swallowed_comes_later() -> None:
    with remembered():
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            raise_remembered()
    raise_remembered()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_ignores_interrupts_goes_on_doing_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with remembered():
            signal.raise_signal(signal.SIGINT)
            raise_remembered()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("verb", [["list", "resnet18"], ["sample_models/digits_resnet.onnx", "--jobs", "1"]])
def test_the_command_ends_where_an_import_has_swallowed_an_interrupt(
    verb: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def swallowing(*names: str) -> list[str]:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return list(names)

    monkeypatch.setattr("lipaudit.frontends.registry.expand", swallowing)
    monkeypatch.setattr("lipaudit.cli.listing.collect_names", lambda: ModelNames(tuple(swallowing("resnet18")), (), ()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(verb) == 130
    assert capsys.readouterr() == ("", "\nlipaudit: interrupted\n")


def test_an_interrupt_does_not_break_imports_in_their_middle(tmp_path: Path) -> None:
    """The package stands for torch, which crashes the process when an exception comes in the wrong moment."""
    (tmp_path / "torch.py").write_text(
        "import os, signal, sys\nsignal.raise_signal(signal.SIGINT)\nsys.stderr.write('imported;')\nraise SystemExit(7)\n"
    )
    code = "import sys\nfrom lipaudit.cli import main\nsys.path.insert(0, sys.argv[1])\nsys.exit(main(['list', 'x']))"
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr.startswith("imported;")


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals of POSIX")
def test_children_do_not_see_interrupts() -> None:
    code = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"

    def child() -> str:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    with blocked_for_children():
        assert child() == "True\n"
    assert child() == "False\n"
