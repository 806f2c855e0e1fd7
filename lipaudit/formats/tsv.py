"""Layers as tab-separated values for spreadsheets and scripts: raw numbers, one row per layer."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import fields

from lipaudit.escaping import printable
from lipaudit.records.report import AuditReport, LayerRecord
from lipaudit.text.domain import described

_FIELDS = tuple(entry.name for entry in fields(LayerRecord))
HEADER = ("model", *_FIELDS, "domain")


def render(reports: Sequence[AuditReport]) -> str:
    """A header and one row per layer of every report, the model first, last the domain over which the figures hold.

    Floats are written with ``repr`` and read back to the same value; what is not known is an empty cell; the sizes of a
    shape are joined by ``x`` and names by a comma. Inside a text backslashes are doubled, and tabs, line ends and whatever
    else drives a terminal are written as backslash escapes, as Python writes them.
    """
    lines = ["\t".join(HEADER)]
    for report in reports:
        for layer in report.layers:
            values = (report.model.spec, *(getattr(layer, name) for name in _FIELDS), described(report))
            lines.append(row(values))
    return "\n".join(lines)


def row(values: Iterable[object]) -> str:
    """The values as one line; see :func:`render`."""
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
