"""Medians of times: CPU seconds of calls that take turns on one thread, and wall-clock seconds with a GPU.

Other work on a machine changes its speed from one second to the next. Calls that are to be compared therefore take turns, and each time
is a median. What the process itself spends is counted, so that it makes no difference how long the process waits.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Timing:
    """The median seconds of a call's repeats, and its last result."""

    seconds: float
    result: Any


@dataclass
class Call:
    """Something to be timed: ``repeats`` times, or ``few`` times where one takes longer than ``small`` seconds."""

    function: Callable[[], Any]
    repeats: int = 5
    few: int = 3
    small: float = 0.2


def take_turns(calls: Sequence[Call]) -> list[Timing]:
    """Time the calls one after the other, again and again, until each has its repeats.

    The first turn is not counted for calls that are small; it warms caches and the allocator.
    """
    seconds: list[list[float]] = [[] for _ in calls]
    wanted, results = [1] * len(calls), [None] * len(calls)
    turn = 0
    while any(len(done) < count for done, count in zip(seconds, wanted, strict=True)):
        for i, call in enumerate(calls):
            if len(seconds[i]) >= wanted[i]:
                continue
            start = time.process_time()
            results[i] = call.function()
            seconds[i].append(time.process_time() - start)
            if turn == 0:
                is_small = seconds[i][0] < call.small
                wanted[i] = 1 + call.repeats if is_small else max(1, min(call.few, call.repeats))
        turn += 1
    counted = [
        done[1:] if done[0] < call.small and len(done) > 1 else done for done, call in zip(seconds, calls, strict=True)
    ]
    return [Timing(statistics.median(done), result) for done, result in zip(counted, results, strict=True)]


def wall_clock(function: Callable[[], Any], device: str, repeats: int) -> Timing:
    """The median of the wall-clock seconds of several calls after one that is not counted."""
    seconds = []
    for _ in range(repeats + 1):
        _synchronise(device)
        start = time.perf_counter()
        result = function()
        _synchronise(device)
        seconds.append(time.perf_counter() - start)
    return Timing(statistics.median(seconds[1:]), result)


def read_backs(function: Callable[[], object]) -> int:
    """How often the host waits for the GPU."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            function()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing CUDA operation" in str(w.message) for w in caught)


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
