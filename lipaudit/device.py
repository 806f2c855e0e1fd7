"""Where torch computes: devices by name, the precision of float32, and clocks.

TF32 rounds the factors of float32 products to 11 bits. Which operations may do so is a setting of torch for each library and
kind of operation; :func:`full_precision` switches it off for all of them at once. It neither reads nor writes torch's older settings
(``allow_tf32``), which cannot be read where the newer ones say otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from lipaudit.errors import DeviceUnavailableError

T = TypeVar("T")


def find_device(name: str) -> torch.device:
    """The device called ``auto``, ``cpu`` or ``cuda``; ``auto`` is a GPU where there is one.

    Raises:
        DeviceUnavailableError: where there is no such device.

    >>> find_device("cpu")
    device(type='cpu')
    """
    check_available(name)
    return torch.device("cuda" if name == "auto" and torch.cuda.is_available() else name.replace("auto", "cpu"))


def check_available(name: str) -> None:
    """Refuse ``cuda`` where there is no such device, with a :class:`~lipaudit.errors.DeviceUnavailableError`."""
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceUnavailableError("no CUDA device is available here; use --device cpu")


def describe(device: torch.device) -> str:
    """The device in words: the name of a GPU, or the number of threads of a CPU."""
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
    """Products, convolutions and recurrent layers of float32 in float32 on every device, whatever was set; restored at the end."""
    kinds = _kinds()
    before = [kind.fp32_precision for kind in kinds]
    try:
        for kind in kinds:
            kind.fp32_precision = "ieee"
        yield
    finally:
        for kind, precision in zip(kinds, before, strict=True):
            kind.fp32_precision = precision


@contextmanager
def without_cudnn() -> Iterator[None]:
    """Convolutions by other libraries than cuDNN, whose algorithms may be other than sums of products (FFT, Winograd)."""
    before = torch.backends.cudnn.enabled
    torch.backends.cudnn.enabled = False
    try:
        yield
    finally:
        torch.backends.cudnn.enabled = before


def _kinds() -> tuple[Any, ...]:
    """What has a setting of its own: products on a GPU, convolutions and recurrent layers there, and the same on a CPU."""
    cuda, cudnn, mkldnn = torch.backends.cuda, torch.backends.cudnn, torch.backends.mkldnn
    return (cuda.matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn)  # type: ignore[attr-defined]
