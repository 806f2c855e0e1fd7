"""What a report says of the values that inputs are held at (``--fix``)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import torch

from lipaudit.report.record import HeldInput

# tensors of more entries, which are not all equal, are known by their hash
_LISTED = 16


def held_inputs(fixed: Mapping[str, object]) -> dict[str, HeldInput]:
    """The record of every held input.

    >>> held_inputs({"rate": 16000, "mask": torch.ones(1, 64)})["mask"]
    HeldInput(shape=(1, 64), dtype='float32', value=1.0, sha256=None)
    """
    return {name: _recorded(value) for name, value in fixed.items()}


def _recorded(value: object) -> HeldInput:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, float) and not math.isfinite(value):
        return _tensor(torch.tensor(value, dtype=torch.float64))
    if value is None:
        return HeldInput((), "none")
    if isinstance(value, bool | int | float | str):
        return HeldInput((), type(value).__name__, value)
    if isinstance(value, list | tuple):
        try:
            return _tensor(torch.tensor(value))
        except (TypeError, ValueError, RuntimeError):
            return HeldInput((), type(value).__name__)
    return HeldInput((), type(value).__name__)


def _tensor(value: torch.Tensor) -> HeldInput:
    here = value.detach().cpu().contiguous()
    shape, kind = tuple(here.shape), str(here.dtype).removeprefix("torch.")
    flat = here.reshape(-1)
    if here.is_complex() or not bool(torch.isfinite(flat).all()):  # JSON has no numbers for these
        return HeldInput(shape, kind, sha256=_hash(flat))
    if flat.numel() and bool((flat == flat[0]).all()):
        return HeldInput(shape, kind, flat[0].item())
    if flat.numel() <= _LISTED:
        return HeldInput(shape, kind, here.tolist())
    return HeldInput(shape, kind, sha256=_hash(flat))


def _hash(flat: torch.Tensor) -> str:
    return hashlib.sha256(flat.view(torch.uint8).numpy().tobytes()).hexdigest()


def shown(held: HeldInput | None) -> str:
    """A held value in a sentence; None is an input that is not held.

    >>> shown(HeldInput((1, 2), "int64", [[1, 2]])), shown(HeldInput((1, 99), "int64", sha256="0c73" * 16)), shown(None)
    ('[[1, 2]]', '1x99 numbers of int64 (SHA-256 0c730c730c73)', 'not held')
    """
    if held is None:
        return "not held"
    if held.sha256 is not None:
        return f"{'x'.join(map(str, held.shape)) or 'a single'} numbers of {held.dtype} (SHA-256 {held.sha256[:12]})"
    return str(value_of(held))[:60]


def value_of(held: HeldInput) -> Any:
    """The value, or its hash, or for what has neither the name of its type."""
    if held.sha256 is not None:
        return held.sha256
    return held.dtype if held.value is None else held.value
