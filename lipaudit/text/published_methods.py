"""What a figure of a published method is worth, in words. Nothing here imports torch: reports are rendered without it.

The methods are registered in :mod:`lipaudit.spectral.published`, whose files need torch. Their declarations are therefore kept beside this
file; ``python -m lipaudit.catalog.collect`` writes them, and a test compares them with the registry.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class MethodEntry:
    """A way to find norms: what it computes, and what its figure is worth."""

    method: str
    title: str
    computes: str
    claim: str
    default_iterations: int | None
    reference: str


@cache
def method_entries() -> tuple[MethodEntry, ...]:
    """The methods, by name."""
    return tuple(MethodEntry(**entry) for entry in json.loads(FILE.read_text(encoding="utf-8")))
