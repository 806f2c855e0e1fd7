"""How much memory a file may ask for: a few bytes can describe a tensor of any size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lipaudit.errors import InvalidValueError, ModelLoadError
from lipaudit.option_names import spell

DEFAULT = "4GB"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)B?\s*", re.IGNORECASE)
_allowed: ContextVar[int] = ContextVar("allowed", default=4 * 10**9)


def parse_memory(size: int | str) -> int:
    """Bytes from a number, or from a text with a unit (powers of 1000). Raises an error for anything else.

    >>> parse_memory("16GB"), parse_memory("512m"), parse_memory(10**9)
    (16000000000, 512000000, 1000000000)
    """
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is not None:
        size = int(float(match[1]) * _UNITS[match[2].upper()])
    if isinstance(size, bool) or not isinstance(size, int) or size <= 0:
        raise InvalidValueError(spell("max_memory"), "a size, such as 16GB", size)
    return size


@contextmanager
def allowed_memory(size: int | str | None) -> Iterator[None]:
    """Within the block files may ask for that much memory; None: for :data:`DEFAULT`."""
    token = _allowed.set(parse_memory(DEFAULT if size is None else size))
    try:
        yield
    finally:
        _allowed.reset(token)


def require(needed: int, what: str) -> None:
    """Raise :class:`ModelLoadError` if ``what``, the subject of a sentence, needs more bytes than are allowed."""
    allowed = _allowed.get()
    if needed > allowed:
        raise ModelLoadError(
            f"{what} would need about {in_words(needed)} of memory, and a file may ask for {in_words(allowed)}: allow more with "
            f"{spell('max_memory', in_words(needed, up=True))} or audit a smaller input"
        )


def in_words(size: int, up: bool = False) -> str:
    """A number of bytes to two digits, rounded up on request.

    >>> in_words(7_680_000_000), in_words(512), in_words(1_234_567, up=True)
    ('7.7GB', '512B', '1.3MB')
    """
    exponent = min(max(0, (len(str(size)) - 1) // 3), 4)
    unit = ("B", "KB", "MB", "GB", "TB")[exponent]
    tenths = size * 10 // 1000**exponent + (1 if up and exponent else 0)
    if not up and exponent:
        tenths = round(size * 10 / 1000**exponent)
    return f"{tenths // 10}{unit}" if tenths % 10 == 0 else f"{tenths / 10}{unit}"
