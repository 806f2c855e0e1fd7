"""A report file appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from lipaudit.errors import OutputError, UsageError


def check_writable(path: Path) -> None:
    """Raise :class:`~lipaudit.errors.OutputError` where a report could not be written to ``path``.

    To be called before the audit, so that nobody waits for a result that then cannot be kept.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise OutputError(f"cannot write the report to {path}: it is a folder; name a file")
        if not target.parent.is_dir():
            raise OutputError(f"cannot write the report to {path}: there is no folder {target.parent}; create it first")
        if _is_special(target):
            with target.open("a"):
                return
        temporary = _temporary(target)
        with temporary.open("x"):
            temporary.unlink()
    except OSError as error:
        raise OutputError(f"cannot write the report to {path}: {error.strerror}; choose another file") from None


def check_no_model(path: Path, models: Sequence[str], reader: str = "audit", option: str = "-o") -> None:
    """Raise :class:`~lipaudit.errors.UsageError` where what ``option`` writes would replace a file that its ``reader`` reads."""
    for model in models:
        same = False
        with suppress(OSError, ValueError):  # a model that is no file has nothing to lose
            same = os.path.samefile(path, os.path.expanduser(model))
        if same:
            raise UsageError(f"{option} {path} would replace {model}, which the {reader} reads; name another file")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write ``content`` to a temporary file beside ``path``, then rename it over ``path``.

    Links are followed, and what is no regular file (a device, a pipe) is written to directly. An interruption leaves no
    temporary file. Text is written as UTF-8; what that lacks (bytes of a file name that are no text) becomes a backslash
    escape. Raises :class:`~lipaudit.errors.OutputError` where the system refuses.
    """
    target = Path(os.path.realpath(path))
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        if _is_special(target):
            target.write_bytes(data)
            return
        with replacing(target) as file:
            file.write(data)
    except OSError as error:
        raise OutputError(f"cannot write the report to {path}: {error.strerror}; the old file is untouched") from None


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


def _is_special(target: Path) -> bool:
    return target.exists() and not target.is_file()


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.tmp")
