"""Tab- and comma-separated values: how a value is written, and how one form becomes the other."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from lipaudit.escaping import printable


def row(values: Iterable[object]) -> str:
    """The values as one tab-separated line.

    Floats are written with ``repr`` and read back to the same value; what is not known is an empty cell; the sizes of a
    shape are joined by ``x`` and names by a comma. Inside a text backslashes are doubled, and tabs, line ends and whatever
    else drives a terminal are written as backslash escapes, as Python writes them.

    >>> row(("conv", (3, 3), None, 0.5))
    'conv\\t3x3\\t\\t0.5'
    """
    return "\t".join(map(_cell, values))


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, tuple):
        joint = "x" if all(isinstance(part, int) for part in value) else ","
        return _escape(joint.join(map(str, value)))
    return _escape(str(value))


def _escape(text: str) -> str:
    return printable(text.replace("\\", "\\\\"))


def as_csv(text: str) -> str:
    """Tab-separated values as comma-separated ones (RFC 4180 but for the line ends); every cell stays as it is.

    >>> as_csv("a\\tb\\n1,5\\t")
    'a,b\\n"1,5",'
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(line.split("\t") for line in text.split("\n"))
    return stream.getvalue().removesuffix("\n")
