"""A record of a fleet: how it is recognised, and its outcomes for commands that only read it. Torch is not imported."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lipaudit.errors.fleets import RecordLineError
from lipaudit.fleet.entry import Entry
from lipaudit.fleet.model import FleetModel
from lipaudit.records.document import check_version, is_ours

KIND = "fleet"
SCHEMA_VERSION = "1.0"


@dataclass(frozen=True)
class Record:
    """The last outcome of every model, in the order of the file; ``torn`` says that the last line was cut off and is not among them."""

    entries: tuple[Entry, ...]
    torn: bool = False


def is_header(value: Any) -> bool:
    """Whether a parsed line is the first of a record."""
    return is_ours(value) and bool(value.get("kind") == KIND)


def is_record(content: bytes) -> bool:
    """Whether the first line is that of a record."""
    try:
        return is_header(json.loads(content.partition(b"\n")[0]))
    except (ValueError, RecursionError):
        return False


def read_record(content: bytes) -> Record:
    """The outcomes in a record.

    Raises :class:`~lipaudit.errors.UsageError` for another version of the record, and for a line that is no outcome, with its number.
    """
    header, *lines = content.split(b"\n")
    check_version(json.loads(header).get("schema_version"), SCHEMA_VERSION, "record of a fleet")
    entries: dict[str, Entry] = {}
    last = lines.pop() if lines else b""  # empty behind a line that was written whole
    for number, line in enumerate(lines, start=2):
        try:
            entry = Entry.from_json(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise RecordLineError(number, error) from None
        entries[FleetModel(entry.spec, entry.options).key] = entry
    return Record(tuple(entries.values()), torn=last != b"")
