"""Held inputs in words, for readers of reports; torch is not imported."""

from __future__ import annotations

from typing import Any

from lipaudit.records.settings import HeldInput


def shown(held: HeldInput | None) -> str:
    """A held value in a sentence; None is an input that is not held.

    >>> shown(HeldInput((1, 2), "int64", [[1, 2]])), shown(HeldInput((1, 99), "int64", sha256="0c73" * 16)), shown(None)
    ('[[1, 2]]', '1x99 numbers of int64 (SHA-256 0c730c730c73)', 'not held')
    """
    if held is None:
        return "not held"
    if held.dtype == "none":
        return "none"
    if held.sha256 is not None:
        return f"{'x'.join(map(str, held.shape)) or 'a single'} numbers of {held.dtype} (SHA-256 {held.sha256[:12]})"
    return str(value_of(held))[:60]


def value_of(held: HeldInput) -> Any:
    """The value, or its hash, or for what has neither the name of its type."""
    if held.sha256 is not None:
        return held.sha256
    return held.dtype if held.value is None else held.value
