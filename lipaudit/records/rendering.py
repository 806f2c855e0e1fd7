"""How a record is shown. The renderers stand in a package above this one, so that they are found by their module's name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_RENDERERS = "lipaudit.formats.render"


def render(record: object, form: str) -> str:
    """A report, comparison or diff as text; ``form`` is ``table`` or another format that the record has."""
    return str(_renderers().render_record(record, form))


def render_for_file(record: object, file: Path) -> str | bytes:
    """The content of a file with a report, as the ending of its name asks for.

    Raises :class:`~lipaudit.errors.UsageError` for an ending without a format.
    """
    content: str | bytes = _renderers().render_for_file(record, file)
    return content


def _renderers() -> Any:
    return import_module(_RENDERERS)
