"""The files of an experiment: each table as CSV with all digits, the plots as one PNG. A file appears whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from lipaudit.errors import OutputError
from lipaudit.experiments.plot import can_draw, draw
from lipaudit.experiments.result import Cell, Result, Table


def prepare_folder(folder: Path) -> None:
    """Create the folder where it is missing, and refuse one that cannot be written to, before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".lipaudit.{os.getpid()}.tmp"
        probe.touch()
        probe.unlink()
    except FileExistsError:
        raise OutputError(f"cannot write to {folder}: it is a file; name a folder with -o") from None
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}; name another folder with -o") from None


def write(result: Result, folder: Path) -> list[Path]:
    """Write ``NAME.csv`` (``NAME-part.csv`` per table) and, where matplotlib is installed, ``NAME.png``.

    Returns the files written. Raises :class:`~lipaudit.errors.OutputError` where the system refuses.
    """
    written = []
    for table in result.tables:
        path = folder / f"{result.name}{'-' if table.part else ''}{table.part}.csv"
        _write_whole(path, csv_text(table).encode("utf-8"))
        written.append(path)
    if result.plots and can_draw():
        path = folder / f"{result.name}.png"
        _write_whole(path, draw(result.plots, f"{result.name}: {result.setting}"))
        written.append(path)
    return written


def csv_text(table: Table) -> str:
    """A header and one line per row; floats read back to the same value, what is not known is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    return buffer.getvalue()


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            temporary.write_bytes(content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; name another folder with -o") from None
