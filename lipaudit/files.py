"""A report file appears whole or not at all.

That holds of regular files, which are replaced by a rename. What is open already (``/dev/stdout``, ``/dev/fd/63``), a device or a pipe
cannot be replaced and is written to.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from lipaudit.errors import CannotWriteError
from lipaudit.errors.commands import ReplacedInputError

# the folders whose entries stand for what a process has open; Linux has the first, others the second
_DESCRIPTORS = re.compile(r"/proc/(?P<process>\d+)(/task/\d+)?/fd|/dev/fd")


def check_writable(path: Path) -> None:
    """Raise :class:`~lipaudit.errors.OutputError` where a report could not be written to ``path``.

    To be called before the audit, so that nobody waits for a result that then cannot be kept. A pipe is not opened: that would wait
    for its reader.
    """
    try:
        target = _place(path)
        mode = _mode(target)
        if mode is not None and stat.S_ISDIR(mode):
            raise CannotWriteError(path, "it is a folder", "name a file")
        if (descriptor := _descriptor(target)) is not None:
            os.write(descriptor, b"")
        elif _is_replaced(target):
            if not target.parent.is_dir():
                raise CannotWriteError(path, f"there is no folder {target.parent}", "create it first")
            temporary = _temporary(target)
            with temporary.open("x"):
                temporary.unlink()
        elif not os.access(target, os.W_OK):
            raise CannotWriteError(path, "you may not write to it")
    except OSError as error:
        raise CannotWriteError(path, error.strerror) from None


def check_no_model(path: Path, models: Sequence[str], reader: str = "audit", option: str = "-o") -> None:
    """Raise :class:`~lipaudit.errors.UsageError` where what ``option`` writes would replace a file that its ``reader`` reads."""
    for model in models:
        same = False
        with suppress(OSError, ValueError):  # a model that is no file has nothing to lose
            same = os.path.samefile(path, os.path.expanduser(model))
        if same:
            raise ReplacedInputError(option, path, model, reader)


def write_whole(path: Path, content: str | bytes) -> None:
    """Write ``content`` to a temporary file beside ``path``, then rename it over ``path``.

    Links are followed. Where the path leads to something open, a device or a pipe, the content is added to that. An interruption
    leaves no temporary file. Text is written as UTF-8; what that lacks (bytes of a file name that are no text) becomes a backslash
    escape. Raises :class:`~lipaudit.errors.OutputError` where the system refuses.
    """
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        target = _place(path)
        if not _is_replaced(target):
            with _added_to(target) as file:
                file.write(data)
            return
    except OSError as error:
        raise CannotWriteError(path, error.strerror) from None
    try:
        with replacing(target) as file:
            file.write(data)
    except OSError as error:
        raise CannotWriteError(path, error.strerror, "the old file is untouched") from None


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A file for bytes that takes the place of ``target`` when everything is written and on the disk, or never does."""
    temporary = _temporary(target)
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _place(path: Path) -> Path:
    """Where links lead, without the last step out of a folder of descriptors: there a link names no file but what is open."""
    place = _in_real_folder(path)
    _mode(place)  # refuses links that go round in circles
    while place.is_symlink() and not _DESCRIPTORS.fullmatch(str(place.parent)):
        place = _in_real_folder(place.parent / place.readlink())
    return place


def _in_real_folder(path: Path) -> Path:
    return (
        Path(os.path.realpath(path.parent)) / path.name if path.name not in ("", "..") else Path(os.path.realpath(path))
    )


def _mode(place: Path) -> int | None:
    """The kind of what is there, links followed; None where nothing is."""
    try:
        return place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_replaced(place: Path) -> bool:
    """Whether the place is a regular file, or could be one."""
    mode = _mode(place)
    return not _DESCRIPTORS.fullmatch(str(place.parent)) and (mode is None or stat.S_ISREG(mode))


def _descriptor(place: Path) -> int | None:
    """The number of the open file of this process that a place stands for."""
    match = _DESCRIPTORS.fullmatch(str(place.parent))
    ours = match is not None and match["process"] in (None, str(os.getpid()))
    return int(place.name) if ours and place.name.isdecimal() else None


def _added_to(place: Path) -> BinaryIO:
    """Behind what is there; an open file is shared, so that whoever opened it goes on after the content."""
    descriptor = _descriptor(place)
    opened = os.open(place, os.O_WRONLY | os.O_APPEND) if descriptor is None else os.dup(descriptor)
    return os.fdopen(opened, "wb")


def _temporary(target: Path) -> Path:
    """A short name of its own, for the target's may be as long as names can be."""
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]
    return target.with_name(f".lipaudit-{name}.{os.getpid()}.tmp")
