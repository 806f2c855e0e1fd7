"""Norms that were found once, kept in a file: one row per content, tolerance, kind of device and version of the code.

The figures are as certified as when they were found: the key names everything that they depend on, the source of this package
included, so that a newer lipaudit finds its own. A damaged row is as good as none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

import torch

from lipaudit.errors import OutputError
from lipaudit.option_names import spell
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.linear_map import OperatorNorm

FILE = "norms.sqlite"
_WAIT = 60.0  # seconds for another process that writes
_ASKED = 500  # keys of one query
_COLUMNS = "key, log_lower, log_upper, rigor, note, check_sum"
_TABLE = "CREATE TABLE IF NOT EXISTS norms (key BLOB PRIMARY KEY, log_lower REAL, log_upper REAL, rigor TEXT, note TEXT, check_sum BLOB)"


class NormStore:
    """Norms in the file ``norms.sqlite`` of a folder, which is made if it does not exist.

    Several processes may use one folder. Every method raises :class:`~lipaudit.errors.OutputError` where the file cannot be used.

    >>> import tempfile
    >>> store = NormStore(Path(tempfile.mkdtemp()))
    >>> store.write({b"key": OperatorNorm(Bracket.exact(2.0), "matrix")})
    >>> store.read([b"key", b"other"])[b"key"].note
    'matrix'
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE
        with self._refused():
            folder.mkdir(parents=True, exist_ok=True)
        with self._opened() as connection:
            connection.execute(_TABLE)
            connection.execute(f"SELECT {_COLUMNS} FROM norms LIMIT 0")  # another table of that name is found here

    def read(self, keys: Iterable[bytes]) -> dict[bytes, OperatorNorm]:
        """What is known of the keys."""
        wanted = list(keys)
        norms = {}
        with self._opened() as connection:
            for start in range(0, len(wanted), _ASKED):
                some = wanted[start : start + _ASKED]
                places = ",".join("?" * len(some))
                rows = connection.execute(f"SELECT {_COLUMNS} FROM norms WHERE key IN ({places})", some).fetchall()
                norms.update({row[0]: _norm(row) for row in rows if row[5] == _check_sum(row[:5])})
        return norms

    def write(self, norms: Mapping[bytes, OperatorNorm]) -> None:
        """Keep norms, all of them or none."""
        rows = []
        for key, norm in norms.items():
            # SQLite keeps no negative zero
            row = (key, norm.bracket.log_lower + 0.0, norm.bracket.log_upper + 0.0, norm.bracket.rigor.value, norm.note)
            rows.append((*row, _check_sum(row)))
        with self._opened() as connection:
            connection.executemany(f"INSERT OR REPLACE INTO norms ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", rows)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._refused(), closing(sqlite3.connect(self.file, timeout=_WAIT)) as connection, connection:
            yield connection

    @contextmanager
    def _refused(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, ValueError) as error:  # text that is no UTF-8 is a ValueError
            raise OutputError(
                f"norms cannot be kept in {self.file} ({error}): name another folder, or delete the file if it is damaged "
                f"({spell('cache')})"
            ) from error


def stored_key(content: bytes, tolerance: float, device: torch.device) -> bytes:
    """The key of a row: what was measured, how closely, on which kind of device and by which code."""
    return blake2b(content + f"{tolerance!r} {device.type} ".encode() + _code(), digest_size=32).digest()


@lru_cache(maxsize=1)
def _code() -> bytes:
    """A digest of the source that finds norms and of the version of torch that it runs on."""
    digest = blake2b(torch.__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


def _check_sum(row: tuple[object, ...]) -> bytes:
    return blake2b(repr(row).encode(), digest_size=16).digest()


def _norm(row: tuple[bytes, float, float, str, str, bytes]) -> OperatorNorm:
    _, log_lower, log_upper, rigor, note, _ = row
    return OperatorNorm(Bracket(log_lower, log_upper, Rigor(rigor)), note)
