"""The record of a fleet: a file of JSON Lines to which every outcome is appended as soon as it is there.

The first line says what the file is and with which settings its audits were made; every other line is an
:class:`~lipaudit.fleet.entry.Entry`. A line is written at once and forced to the disk, so that whatever ends the process can at
most tear the last one, which the next run drops. Of several lines for one model the last counts. A run that finishes writes the
file once more, whole: the models of the request in their order, one line each, then those that were not asked for this time.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from lipaudit import __version__
from lipaudit.errors import OutputError, UsageError
from lipaudit.fleet.content import unchanged
from lipaudit.fleet.entry import DONE, Entry
from lipaudit.fleet.lock import lock
from lipaudit.fleet.reading import KIND, SCHEMA_VERSION, is_header
from lipaudit.fleet.request import ModelRequest
from lipaudit.report.write import replacing


@dataclass(frozen=True)
class _Place:
    """Where a line stands, and what decides whether it still counts."""

    offset: int
    length: int
    done: bool
    version: str | None
    files: dict[str, str]


class Journal:
    """An open record; see :func:`opened`. Every method raises :class:`~lipaudit.errors.OutputError` where the disk refuses."""

    def __init__(self, file: BinaryIO, path: Path | None, settings: dict[str, Any]) -> None:
        self.path = path
        self.torn = False
        self._file = file
        self._places: dict[str, _Place] = {}
        self._end = 0
        self._read(settings)
        if not self._end:
            self._write(_header(settings))

    def state(self, request: ModelRequest) -> str:
        """What is known of a model: ``new``, ``failed``, ``done``, or ``changed`` where it is done with another file or lipaudit."""
        place = self._places.get(request.key)
        if place is None:
            return "new"
        if not place.done:
            return "failed"
        return "done" if place.version == __version__ and unchanged(place.files) else "changed"

    def append(self, entry: Entry) -> None:
        """Record an outcome, for good."""
        offset = self._end
        self._write(entry.to_line())
        self._index(entry, offset)

    def lines(self, requests: Iterable[ModelRequest]) -> Iterator[str]:
        """The header and the lines of the requests, without their ends."""
        yield self._line(0).decode()
        for request in requests:
            yield self._line(self._places[request.key].offset).decode()

    def entries(self, requests: Iterable[ModelRequest]) -> Iterator[Entry]:
        """The outcomes of the requests."""
        for request in requests:
            yield Entry.from_json(json.loads(self._line(self._places[request.key].offset)))

    def settle(self, requests: Sequence[ModelRequest]) -> None:
        """Write the file whole: one line for each request in their order, then the models of earlier requests."""
        if self.path is None:
            return
        asked = dict.fromkeys(request.key for request in requests)
        places = [self._places[key] for key in (*asked, *(key for key in self._places if key not in asked))]
        header = json.loads(self._line(0))
        before, header["tool"]["version"] = header["tool"]["version"], __version__
        if before == __version__ and self._are_all(places):
            return
        with _refused(self.path), replacing(Path(os.path.realpath(self.path))) as file:
            file.write(json.dumps(header).encode() + b"\n")
            for place in places:
                file.write(self._line(place.offset) + b"\n")

    def _are_all(self, places: Sequence[_Place]) -> bool:
        """Whether the lines follow one another in the file and nothing else does."""
        offset = len(self._line(0)) + 1
        for place in places:
            if place.offset != offset:
                return False
            offset += place.length
        return offset == self._end

    def _line(self, offset: int) -> bytes:
        self._file.seek(offset)
        return self._file.readline().rstrip(b"\n")

    def _write(self, line: str) -> None:
        data = line.encode() + b"\n"
        with _refused(self.path):
            self._file.seek(0, os.SEEK_END)
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
        self._end += len(data)

    def _index(self, entry: Entry, offset: int) -> None:
        key = ModelRequest(entry.spec, entry.options).key
        self._places[key] = _Place(offset, self._end - offset, entry.status == DONE, entry.version, entry.files)

    def _read(self, settings: dict[str, Any]) -> None:
        """Find the lines that earlier runs have left, and drop a last one that was torn."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        for number, line in enumerate(self._file, start=1):
            last = self._end + len(line) == size
            value = _parsed(line)
            if value is None and last and (number > 1 or _begins_a_header(line)):
                self.torn = number > 1
                break
            if number == 1:
                self._check_header(value, settings)
                self._end += len(line)
                continue
            try:
                entry = Entry.from_json(value)
            except ValueError as error:
                raise UsageError(
                    f"{self.path} is damaged: line {number} is no outcome of an audit ({error}); remove the line, name another "
                    "file with -o, or start over with --restart"
                ) from None
            self._end += len(line)
            self._index(entry, self._end - len(line))
        with _refused(self.path):
            self._file.truncate(self._end)

    def _check_header(self, header: Any, settings: dict[str, Any]) -> None:
        if not is_header(header):
            raise UsageError(f"{self.path} is there and no record of a fleet: name another file with -o")
        version = str(header.get("schema_version"))
        if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
            raise UsageError(
                f"{self.path} has the version {version} of the record and this lipaudit writes {SCHEMA_VERSION}: name another file"
            )
        before = header.get("settings")
        if before != settings:
            raise UsageError(
                f"{self.path} holds audits with other settings ({_differences(before, settings)}): name another file with -o, or "
                "start over with --restart"
            )


@contextmanager
def opened(path: Path | None, settings: dict[str, Any], restart: bool = False) -> Iterator[Journal]:
    """The record in a file, which no other process may use meanwhile; without a path one that is forgotten.

    ``restart`` forgets what the file holds. Raises :class:`~lipaudit.errors.UsageError` where the file is no record, is damaged,
    is in use, or was made with other settings.
    """
    if path is None:
        with tempfile.TemporaryFile() as forgotten:
            yield Journal(forgotten, None, settings)
        return
    with _refused(path):
        file = lock(path)
    with file:
        if restart:
            _empty(file, path)
        yield Journal(file, path, settings)


def _header(settings: dict[str, Any]) -> str:
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    tool = {"name": "lipaudit", "version": __version__}
    return json.dumps(
        {"kind": KIND, "schema_version": SCHEMA_VERSION, "tool": tool, "created": created, "settings": settings}
    )


def _empty(file: BinaryIO, path: Path) -> None:
    """Forget a record; what is none stays as it is."""
    file.seek(0)
    first = file.readline()
    if first and not is_header(_parsed(first)) and not _begins_a_header(first):
        raise UsageError(
            f"{path} is no record of a fleet, and --restart replaces nothing else: name another file with -o"
        )
    with _refused(path):
        file.truncate(0)


def _begins_a_header(line: bytes) -> bool:
    start = json.dumps({"kind": KIND})[:-1].encode()
    return line[: len(start)] == start[: len(line)]


def _parsed(line: bytes) -> Any:
    """The value of a whole line, None for a torn one."""
    if not line.endswith(b"\n"):
        return None
    try:
        return json.loads(line)
    except ValueError:
        return None


def _differences(before: Any, now: dict[str, Any]) -> str:
    if not isinstance(before, dict):
        return "its first line has none"
    names = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return ", ".join(f"{name} {json.dumps(before.get(name))}, now {json.dumps(now.get(name))}" for name in names)


@contextmanager
def _refused(path: Path | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"the record of the fleet cannot be kept in {path or 'a temporary file'}: {error.strerror}; what was recorded before "
            "is kept"
        ) from None
