"""The first line of a fleet's record: what the file is, and with which settings its audits were made."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lipaudit.errors.fleets import DamagedRecordError, NotARecordError, OtherSettingsError
from lipaudit.fleet.reading import KIND, SCHEMA_VERSION, is_header
from lipaudit.records.document import check_version
from lipaudit.version import __version__


def header_line(settings: dict[str, Any]) -> str:
    """The first line of a new record, without its end."""
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    tool = {"name": "lipaudit", "version": __version__}
    return json.dumps(
        {"kind": KIND, "schema_version": SCHEMA_VERSION, "tool": tool, "created": created, "settings": settings}
    )


def begins_a_header(line: bytes) -> bool:
    """Whether a line is a first one of which the end is missing."""
    start = json.dumps({"kind": KIND})[:-1].encode()
    return line[: len(start)] == start[: len(line)]


def check_header(header: Any, settings: dict[str, Any], path: Path | None) -> None:
    """Raise :class:`~lipaudit.errors.UsageError` where a parsed first line is none, or belongs to audits with other settings."""
    if not is_header(header):
        raise NotARecordError(path)
    check_version(header.get("schema_version"), SCHEMA_VERSION, f"record of a fleet {path}")
    if not isinstance(header["tool"].get("version"), str):
        raise DamagedRecordError(path, 1, "does not say which lipaudit wrote it (tool.version)")
    before = header.get("settings")
    if before != settings:
        raise OtherSettingsError(path, _differences(before, settings))


def _differences(before: Any, now: dict[str, Any]) -> str:
    if not isinstance(before, dict):
        return "its first line has none"

    def value_of(settings: dict[str, Any], name: str) -> str:
        return json.dumps(settings[name]) if name in settings else "missing"

    pairs = [(name, value_of(before, name), value_of(now, name)) for name in sorted({*before, *now})]
    return ", ".join(f"{name} {old}, now {new}" for name, old, new in pairs if old != new)
