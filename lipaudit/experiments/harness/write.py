"""The files of an experiment: each table as CSV with all digits, the plots as one PNG. A file appears whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from lipaudit.errors import OutputError
from lipaudit.experiments.harness.plot import draw
from lipaudit.experiments.harness.result import Cell, Result, Table
from lipaudit.files import replacing
from lipaudit.formats.matplotlib_ import plot_problem


@contextmanager
def output_folder(folder: Path, names: Sequence[str]) -> Iterator[None]:
    """The folder for the files of the experiments ``names``, created where it is missing; what is created and stays empty goes again.

    Raises :class:`~lipaudit.errors.OutputError` where it cannot be written to, or holds a folder in the place of a file, before
    anything is computed.
    """
    missing = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        _prepare(folder, names)
        yield
    finally:
        for path in missing:  # the innermost first
            with suppress(OSError):  # it holds something, or was never made
                path.rmdir()


def _prepare(folder: Path, names: Sequence[str]) -> None:
    if folder.is_symlink() and not folder.exists():
        raise OutputError(
            f"cannot write to {folder}: it is a link to something that does not exist; name a folder with -o"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".lipaudit.{os.getpid()}.tmp"
        probe.touch()
        probe.unlink()
        taken = [path for path in sorted(folder.iterdir()) if path.is_dir() and not path.is_symlink()]
    except FileExistsError:
        raise OutputError(f"cannot write to {folder}: it is a file; name a folder with -o") from None
    except OSError as error:
        raise OutputError(f"cannot write to {folder}: {error.strerror}; name another folder with -o") from None
    for path in taken:
        if path.suffix in (".csv", ".png") and any(path.stem == n or path.stem.startswith(f"{n}-") for n in names):
            raise OutputError(f"cannot write {path}: it is a folder; remove it, or name another folder with -o")


def write(result: Result, folder: Path) -> list[Path]:
    """Write ``NAME.csv`` (``NAME-part.csv`` per table) and, where matplotlib can be used, ``NAME.png``.

    Returns the files written. Raises :class:`~lipaudit.errors.OutputError` where the system refuses.
    """
    written = []
    for table in result.tables:
        path = folder / f"{result.name}{'-' if table.part else ''}{table.part}.csv"
        _write_whole(path, csv_text(table).encode("utf-8"))
        written.append(path)
    if result.plots and not plot_problem():
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
    return repr(float(value)) if isinstance(value, float) else str(value)


def _write_whole(path: Path, content: bytes) -> None:
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; name another folder with -o") from None
