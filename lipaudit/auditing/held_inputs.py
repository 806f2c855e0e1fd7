"""What a report says of the values that inputs are held at (``--fix``)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import torch

from lipaudit.records.settings import HeldInput

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
