"""What every JSON document of lipaudit says of itself: that lipaudit wrote it, its kind, and the version of its layout."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from lipaudit.errors import UsageError


class VersionError(UsageError):
    """A document is in a major version of its layout that this lipaudit does not read."""

    def __init__(self, what: str, version: object, major: str) -> None:
        super().__init__(
            f"the {what} has schema version {version}, this lipaudit reads {major}.x; install the lipaudit that wrote it or a newer one"
        )


def parse(text: str | bytes, what: str) -> Any:
    """The value of a JSON text; a :class:`~lipaudit.errors.UsageError` says that it is no ``what``."""
    if not isinstance(text, str | bytes | bytearray):
        raise UsageError(f"a {what} is read from its JSON text (str or bytes), not from {type(text).__name__}")
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:  # no JSON, no text, numbers or nesting without measure
        raise UsageError(f"this is not JSON, so it is no {what}: {error}") from None


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinity where JSON is parsed."""
    raise UsageError(f"the document holds {name}, which is neither JSON nor a bound")


def is_ours(document: Any) -> bool:
    """Whether a JSON value says that lipaudit wrote it."""
    tool = document.get("tool") if isinstance(document, dict) else None
    return isinstance(tool, dict) and tool.get("name") == "lipaudit"


def check_kind(document: Any, kind: str, verb: str, supported: str) -> None:
    """Refuse what is no document of lipaudit of that kind, as ``verb`` writes it, in the major version of ``supported``."""
    if not is_ours(document) or document.get("kind") != kind:
        raise UsageError(
            f"this JSON is no {kind}: its kind is not {kind!r}; use a file written by `lipaudit {verb} --format json`"
        )
    check_version(document.get("schema_version"), supported, kind)


def check_version(version: object, supported: str, what: str) -> None:
    """Refuse another major version of a layout than that of ``supported``.

    >>> check_version("1.7", "1.1", "report")
    """
    major = supported.split(".")[0]
    if str(version).split(".")[0] != major:
        raise VersionError(what, version, major)
