"""How the tests are run (``conftest.py``)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import shard
from tests.places import ROOT

_CODE = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


@pytest.mark.parametrize(
    ("file", "alone"),
    [
        ("tests/fleet/test_interruptions.py", True),
        ("tests/docs/test_commands.py", False),
        ("tests/test_shards.py", True),
        ("tests/rules/test_conformance.py", False),
        ("lipaudit/cli/__init__.py", False),
    ],
)
def test_what_starts_processes_keeps_to_one_worker(file: str, alone: bool) -> None:
    assert shard(ROOT / file) == ("processes" if alone else str(ROOT / file))


def test_an_import_in_a_function_counts(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text("def test_it():\n    import subprocess\n")
    assert shard(file) == "processes"


@pytest.fixture
def ignoring() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def child() -> str:
    return subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True).stdout


def test_children_are_interruptible_where_pytest_is_not(ignoring: None, request: pytest.FixtureRequest) -> None:
    assert child() == "False\n"
    request.getfixturevalue("interruptible")
    assert child() == "True\n"
