"""How the tests are run: all of them in two processes side by side; ``pytest FILE`` in this one. ``-n`` says otherwise.

Files whose tests start processes or send signals keep to one of the two, one after the other, so that what they wait for has a
processor. Every other file goes to the one that is free.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

_WORKERS = 2
# folders and files whose audits search for a tighter bound of the network unless they say otherwise
_SEARCHING = {"docs", "forms", "sample_models", "test_effort.py"}
_PROCESSES = "processes"
# what a test file imports where it starts processes or sends signals; commands of pages, which take their time, wait for nobody
_STARTER = re.compile(
    r"^\s*(import|from) (multiprocessing|signal|subprocess"
    r"|tests\.fleet\.(dask_cluster|fleets)|tests\.formats\.browser)\b",
    re.MULTILINE,
)


@cache
def shard(path: Path) -> str:
    """The tests that keep to one worker with those of a file: all that start processes, otherwise those of the file."""
    return _PROCESSES if _STARTER.search(path.read_text(encoding="utf-8")) else str(path)


class Shards(LoadScopeScheduling):
    """Hands out whole shards, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return shard(self.config.rootpath / nodeid.partition("::")[0])


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two workers for everything, none where files are named."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of each worker, before it imports torch
    return _WORKERS


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Shards:
    """In the place of ``--dist loadfile``."""
    return Shards(config, log)  # type: ignore[arg-type]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest shard first."""
    items.sort(key=lambda item: shard(item.path) != _PROCESSES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Audits that say nothing of the effort search for no tighter bound, but in the tests that are about it or about what users see.

    This holds for fixtures of every scope. What a test starts as a process of its own has the default that users have.
    """
    with pytest.MonkeyPatch.context() as patch:
        if _SEARCHING.isdisjoint(item.path.relative_to(item.config.rootpath).parts):
            patch.setattr("lipaudit.auditing.request.DEFAULT_EFFORT", "none")
        return (yield)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT has its usual effect here and in what is started from here, even where pytest was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
