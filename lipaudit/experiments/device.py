"""Where an experiment computes, and how its times are taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from lipaudit.errors import DeviceUnavailableError

T = TypeVar("T")


def find_device(name: str) -> torch.device:
    """The device called ``auto``, ``cpu`` or ``cuda``; a :class:`DeviceUnavailableError` where there is no such device."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise DeviceUnavailableError("no CUDA device is available here; use --device cpu")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and available) else "cpu")


def describe(device: torch.device) -> str:
    """The device in words, for the setting of a result."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU, {threads} thread{'s' if threads > 1 else ''}"


def finish(device: torch.device) -> None:
    """Wait for what a GPU still has to do, so that a clock read afterwards counts it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def now(device: torch.device) -> float:
    """Seconds on a clock that only runs forward, read when the device is idle."""
    finish(device)
    return time.perf_counter()


def timed(function: Callable[[], T], device: torch.device) -> tuple[T, float]:
    """A function's value and the seconds it took."""
    start = now(device)
    value = function()
    return value, now(device) - start


@contextmanager
def full_precision() -> Iterator[None]:
    """Float32 products and convolutions in float32, not in TF32 (11 bits), which is torch's default for convolutions."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.backends.cudnn.flags(allow_tf32=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
