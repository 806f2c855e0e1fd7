"""JSON that any reader takes: ASCII, no NaN, and no half of a surrogate pair."""

from __future__ import annotations

import json
from typing import Any


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
