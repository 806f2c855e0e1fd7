"""How a record is shown. The renderers stand in a package above this one, so that they are found by their module's name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_RENDERERS = "lipaudit.formats.render"


def render(record: object, form: str) -> str:
    """A report, comparison or diff as text; ``form`` is ``table`` or another format that the record has."""
    return str(_renderers().render_record(record, form))


def render_for_file(record: object, file: Path) -> str:
    """A report as the suffix of a file's name asks for; a :class:`~lipaudit.errors.UsageError` refuses a suffix without a format."""
    return str(_renderers().render_for_file(record, file))


def _renderers() -> Any:
    return import_module(_RENDERERS)
