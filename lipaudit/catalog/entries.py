"""The entries of the catalogue, as ``rules.json`` and ``methods.json`` hold them.

The registries stand in files that need torch, which takes seconds to import. Their declarations are therefore kept beside this file;
``python -m lipaudit.catalog.collect`` writes them, and a test compares them with the registries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class RuleEntry:
    """What is known of some operations: ``constant`` in one line of plain text, ``source`` names the theorem that it rests on."""

    rule: str
    family: str
    operations: tuple[str, ...]
    constant: str
    source: str
    exact: bool
    needs_bounded_operands: bool


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
def rule_entries() -> tuple[RuleEntry, ...]:
    """The rules, by family."""
    return tuple(RuleEntry(**{**entry, "operations": tuple(entry["operations"])}) for entry in _read("rules"))


@cache
def method_entries() -> tuple[MethodEntry, ...]:
    """The methods, by name."""
    return tuple(MethodEntry(**entry) for entry in _read("methods"))


def as_json(entries: Iterable[RuleEntry | MethodEntry]) -> str:
    """Entries as the commands print and the files hold them."""
    return json.dumps([asdict(entry) for entry in entries], indent=2)


def _read(name: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return entries
