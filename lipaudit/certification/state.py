"""The state of a run, from which the same command continues: a file of JSON Lines, written chunk by chunk.

The first line says which run it is and has what all chunks rest on: the bounds of pairs of classes, the time. Every other line is a chunk
of images with their records. A line is written at once and forced to the disk; one that was cut off is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from lipaudit.errors import CannotWriteError
from lipaudit.errors.certification import OtherRunError, StateFileError
from lipaudit.fleet.lock import lock
from lipaudit.records.certification import ImageRecord
from lipaudit.records.codec import decode, encode

_KIND = "certification state"


class State:
    """The chunks that are done; see :func:`opened`."""

    def __init__(self, file: BinaryIO | None, path: Path | None, run: dict[str, Any]) -> None:
        self._file, self._path, self._run = file, path, run
        self.chunks: dict[int, list[ImageRecord]] = {}
        self.head: dict[str, Any] = {}
        if file is not None:
            self._read(file)

    def begin(self, head: dict[str, Any]) -> None:
        """Write the first line: what every chunk rests on."""
        self.head = head
        self._write({"kind": _KIND, "run": self._run, "head": head})

    def add(self, number: int, images: Sequence[ImageRecord]) -> None:
        """Keep a chunk."""
        self.chunks[number] = list(images)
        self._write({"chunk": number, "images": [encode(image) for image in images]})

    def _read(self, file: BinaryIO) -> None:
        file.seek(0)
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if not lines and content:
            raise StateFileError(self._path, "its first line has no end")
        for number, line in enumerate(lines, start=1):
            try:
                entry = json.loads(line)
                self._take(entry, number)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise StateFileError(self._path, f"line {number}: {type(error).__name__}: {error}") from None
        os.ftruncate(file.fileno(), len(whole))

    def _take(self, entry: Any, number: int) -> None:
        if number == 1:
            if entry["kind"] != _KIND:
                raise ValueError(f"its kind is {entry['kind']!r}")
            different = [
                key for key in sorted({*self._run, *entry["run"]}) if entry["run"].get(key) != self._run.get(key)
            ]
            if different:
                raise OtherRunError(self._path, f"other {', '.join(different)}")
            self.head = entry["head"]
            return
        self.chunks[int(entry["chunk"])] = [decode(ImageRecord, image, "image") for image in entry["images"]]

    def _write(self, entry: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            os.lseek(self._file.fileno(), 0, os.SEEK_END)
            data = json.dumps(entry, allow_nan=False).encode() + b"\n"
            while data:
                data = data[os.write(self._file.fileno(), data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CannotWriteError(self._path, error.strerror, what="the state") from None


@contextmanager
def opened(path: str | None, run: dict[str, Any]) -> Iterator[State]:
    """The state in a file, which no other process may use meanwhile; without a path one that is forgotten.

    ``run`` tells runs apart. Raises :class:`~lipaudit.errors.UsageError` where the file is no state, or that of another run.
    """
    if path is None:
        yield State(None, None, run)
        return
    place = Path(path).expanduser()
    try:
        file = lock(place)
    except OSError as error:
        raise CannotWriteError(place, error.strerror, what="the state") from None
    with file:
        yield State(file, place, run)
