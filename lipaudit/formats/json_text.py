"""Documents as JSON that any reader takes: ASCII, no NaN, and no half of a surrogate pair."""

from __future__ import annotations

import json
from typing import Any, Protocol

from lipaudit.formats.options import Audits, Options


class Jsonable(Protocol):
    """What has a JSON document of its own: a diff, a comparison."""

    def to_json(self) -> str:
        """The document as text."""
        ...


def render_audits(audits: Audits, _options: Options) -> str:
    """One report as an object; of several models an array, which also names those that failed."""
    from lipaudit.records.report_array import to_json_array

    if len(audits.reports) == 1 and not audits.failures:
        return audits.reports[0].to_json()
    return to_json_array(audits.reports, audits.failures)


def render(document: Jsonable, _options: Options) -> str:
    """A diff or a comparison."""
    return document.to_json()


def json_text(document: Any) -> str:
    """The document as JSON text, indented, without a newline at the end."""
    return json.dumps(well_formed(document), indent=2, allow_nan=False)


def well_formed(value: Any) -> Any:
    r"""The value with every lone surrogate in its texts written as a backslash escape: file names may hold bytes that are no text.

    >>> print(well_formed({"name": "a\udc80"})["name"])
    a\udc80
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {well_formed(key): well_formed(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [well_formed(entry) for entry in value]
    return value
