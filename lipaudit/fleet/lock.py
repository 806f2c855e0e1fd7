"""One writer per file: an advisory lock that the system takes back when the process ends, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from lipaudit.errors.fleets import NotARegularFileError, RecordInUseError


def lock(path: Path) -> BinaryIO:
    """The file, open for reading and appending without a buffer, made if it is missing, and locked until it is closed.

    Raises :class:`~lipaudit.errors.UsageError` where another process holds the lock, or the path is no regular file. Windows
    has no such lock: there nothing keeps two runs apart.
    """
    while True:
        if path.exists() and not path.is_file():
            raise NotARegularFileError(path)
        file = path.open("a+b", buffering=0)
        try:
            _take(file, path)
            # the run that held the lock may have replaced the file since it was opened here
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _take(file: BinaryIO, path: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RecordInUseError(path) from None
