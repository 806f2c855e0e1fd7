"""The rules as ``rules.json`` holds them; :mod:`lipaudit.text.published_methods` has the methods.

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

from lipaudit.text.published_methods import MethodEntry

FILE = Path(__file__).with_name("rules.json")


@dataclass(frozen=True)
class RuleEntry:
    """What is known of some operations: ``constant`` in one line of plain text, ``source`` names the theorem that it rests on.

    ``norms`` are those in which the operations have a constant, ``constant`` is that of the l2 norm.
    """

    rule: str
    family: str
    operations: tuple[str, ...]
    constant: str
    source: str
    exact: bool
    needs_bounded_operands: bool
    norms: tuple[str, ...]


@cache
def rule_entries() -> tuple[RuleEntry, ...]:
    """The rules, by family."""
    entries: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(
        RuleEntry(**{**entry, "operations": tuple(entry["operations"]), "norms": tuple(entry["norms"])})
        for entry in entries
    )


def as_json(entries: Iterable[RuleEntry | MethodEntry]) -> str:
    """Entries as the commands print and the files hold them."""
    return json.dumps([asdict(entry) for entry in entries], indent=2)
