"""The record of a fleet: a file of JSON Lines to which every outcome is appended as soon as it is there.

Lines of JSON and no database: the one file can be read, copied and kept while it is written and after a kill, which leaves a database
of SQLite that writes ahead in three files, of which the first alone may be empty; it is read by any tool, and lies on file systems that
machines share.

The first line says what the file is and with which settings its audits were made; every other line is an
:class:`~lipaudit.fleet.entry.Entry`. A line is written at once and forced to the disk, so that whatever ends the process can at
most tear the last one, which the next run drops. Of several lines for one model the last counts. A run that finishes writes the
file once more, whole: the models of the request in their order, one line each, then those that were not asked for this time.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lipaudit.errors import LipauditError
from lipaudit.errors.fleets import DamagedRecordError, NotARecordError, RecordOutputError, ReplacedRecordError
from lipaudit.files import replacing
from lipaudit.fleet.entry import DONE, Entry
from lipaudit.fleet.header import begins_a_header, check_header, header_line
from lipaudit.fleet.lock import lock
from lipaudit.fleet.model import FleetModel
from lipaudit.fleet.reading import is_header
from lipaudit.frontends.input_files import are_unchanged
from lipaudit.records.report import AuditReport
from lipaudit.version import __version__


@dataclass(frozen=True)
class _Place:
    """Where a line stands, and what decides whether it still counts."""

    number: int
    offset: int
    length: int
    done: bool
    version: str | None
    files: dict[str, str]


class Journal:
    """An open record; see :func:`opened`. Every method raises :class:`~lipaudit.errors.OutputError` where the disk refuses."""

    def __init__(self, file: BinaryIO, path: Path | None, settings: dict[str, Any], restart: bool = False) -> None:
        self.path = path
        self.torn = False
        self._file = file
        self._settings = settings
        self._places: dict[str, _Place] = {}
        self._number = self._header_length = self._end = 0
        if restart:
            self._check_kind()
        else:
            self._read(settings)
            self.begin()

    def begin(self) -> None:
        """Forget what the file holds, where that was asked for and has not been done yet, and write the first line of a new one."""
        if self._end:
            return
        with _refused(self.path):
            os.ftruncate(self._file.fileno(), 0)
        self._write(header_line(self._settings))
        self._header_length = self._end

    def state(self, model: FleetModel) -> str:
        """What is known of a model: ``new``, ``failed``, ``done``, or ``changed`` where it is done with another file or lipaudit."""
        place = self._places.get(model.key)
        if place is None:
            return "new"
        if not place.done:
            return "failed"
        return "done" if place.version == __version__ and are_unchanged(place.files) else "changed"

    def append(self, entry: Entry) -> None:
        """Record an outcome, for good."""
        self.begin()
        offset = self._end
        self._write(entry.to_line())
        self._index(entry, offset)

    def lines(self, models: Iterable[FleetModel]) -> Iterator[str]:
        """The header and the lines of the requests, without their ends."""
        yield self._header_line().decode()
        for model in models:
            yield self._line(self._places[model.key]).decode()

    def entries(self, models: Iterable[FleetModel]) -> Iterator[Entry]:
        """The outcomes of the requests."""
        for model in models:
            yield Entry.from_json(json.loads(self._line(self._places[model.key])))

    def outcomes(self, models: Iterable[FleetModel]) -> Iterator[tuple[Entry, AuditReport | None]]:
        """The outcomes of the requests with their reports; a :class:`~lipaudit.errors.UsageError` names the line of one that is none."""
        for model, entry in zip(models, self.entries(models), strict=True):
            try:
                report = entry.audit_report()
            except (LipauditError, ValueError, RecursionError) as error:
                place = self._places[model.key]
                raise DamagedRecordError(self.path, place.number, f"holds no report of an audit ({error})") from None
            yield entry, report

    def settle(self, models: Sequence[FleetModel]) -> None:
        """Write the file whole: one line for each of the models in their order, then the models of earlier runs.

        Also where the file was removed meanwhile. Where another has taken its place, that one is left alone, and an
        :class:`~lipaudit.errors.OutputError` says where the record is instead.
        """
        if self.path is None:
            return
        asked = dict.fromkeys(model.key for model in models)
        places = [self._places[key] for key in (*asked, *(key for key in self._places if key not in asked))]
        header = json.loads(self._header_line())
        before, header["tool"]["version"] = header["tool"]["version"], __version__
        here = self._is_here()
        if here and before == __version__ and self._are_all(places):
            return
        target = Path(os.path.realpath(self.path))
        if here is False:
            target = target.with_name(f"{target.stem}.{os.getpid()}{target.suffix}")
        with _refused(target), replacing(target) as file:
            file.write(json.dumps(header).encode() + b"\n")
            for place in places:
                file.write(self._line(place) + b"\n")
        if here is False:
            raise ReplacedRecordError(self.path, target)

    def restore(self) -> None:
        """Write the file once more where the path no longer leads to it."""
        if self.path is not None and not self._is_here():
            self.settle([])

    def _is_here(self) -> bool | None:
        """Whether the path still leads to the file that was opened; None where it leads nowhere."""
        assert self.path is not None
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except OSError:
            return None

    def _are_all(self, places: Sequence[_Place]) -> bool:
        """Whether the lines follow one another in the file and nothing else does."""
        offset = self._header_length
        for place in places:
            if place.offset != offset:
                return False
            offset += place.length
        return offset == self._end

    def _line(self, place: _Place) -> bytes:
        return self._bytes(place.offset, place.length).rstrip(b"\n")

    def _header_line(self) -> bytes:
        return self._bytes(0, self._header_length).rstrip(b"\n")

    def _bytes(self, offset: int, length: int) -> bytes:
        content, number = b"", self._file.fileno()
        with _refused(self.path):
            os.lseek(number, offset, os.SEEK_SET)
            while len(content) < length and (block := os.read(number, length - len(content))):
                content += block
        return content

    def _write(self, line: str) -> None:
        """Append a line, or nothing."""
        data, written, number = line.encode() + b"\n", 0, self._file.fileno()
        with _refused(self.path):
            os.lseek(number, 0, os.SEEK_END)
            try:
                while written < len(data):
                    written += os.write(number, data[written:])
                os.fsync(number)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(number, self._end)
                raise
        self._end += len(data)
        self._number += 1

    def _index(self, entry: Entry, offset: int) -> None:
        key = FleetModel(entry.spec, entry.options).key
        length = self._end - offset
        self._places[key] = _Place(self._number, offset, length, entry.status == DONE, entry.version, entry.files)

    def _read(self, settings: dict[str, Any]) -> None:
        """Find the lines that earlier runs have left, and drop a last one that was torn."""
        size = self._file.seek(0, os.SEEK_END)
        for number, line in enumerate(_lines(self._file), start=1):
            last = self._end + len(line) == size
            if last and _is_torn(line) and (number > 1 or begins_a_header(line)):
                self.torn = number > 1
                break
            if number == 1:
                check_header(_parsed(line), settings, self.path)
                self._header_length = self._end = len(line)
                self._number = 1
                continue
            try:
                entry = Entry.from_json(_parsed(line))
            except ValueError as error:
                raise DamagedRecordError(self.path, number, f"is not the outcome of an audit ({error})") from None
            self._end += len(line)
            self._number = number
            self._index(entry, self._end - len(line))
        with _refused(self.path):
            os.ftruncate(self._file.fileno(), self._end)

    def _check_kind(self) -> None:
        """Refuse to discard a file that is not a record."""
        first = next(_lines(self._file), b"")
        if first and not is_header(_parsed(first)) and not begins_a_header(first):
            raise NotARecordError(self.path, restart=True)


@contextmanager
def opened(path: Path | None, settings: dict[str, Any], restart: bool = False) -> Iterator[Journal]:
    """The record in a file, which no other process may use meanwhile; without a path one that is forgotten.

    ``restart`` forgets what the file holds, as soon as the first outcome is there or :meth:`Journal.begin` is called. Raises
    :class:`~lipaudit.errors.UsageError` where the file is no record, is damaged, is in use, or was made with other settings.
    """
    if path is None:
        with _refused(path):
            forgotten = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed below, where the error of the block is its own
        with forgotten:
            yield Journal(forgotten, None, settings)
        return
    with _refused(path):
        file = lock(path)
    with file:
        yield Journal(file, path, settings, restart)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    with io.BufferedReader(io.FileIO(file.fileno(), closefd=False)) as buffered:
        yield from buffered


def _parsed(line: bytes) -> Any:
    """The value of a line, None where it has none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_torn(line: bytes) -> bool:
    """Whether a line was not written to its end; a system that loses power may leave null bytes in its place."""
    return not line.endswith(b"\n") or b"\0" in line


@contextmanager
def _refused(path: Path | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordOutputError(path, error) from None
