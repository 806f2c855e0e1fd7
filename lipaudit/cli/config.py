"""The table ``[tool.lipaudit]`` of a project's ``pyproject.toml``: values of options that one command line need not repeat."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lipaudit.auditing.request import AuditOptions
from lipaudit.errors import InvalidValueError, UnknownChoiceError, UsageError
from lipaudit.option_names import command_line


class ConfigError(UsageError):
    """The project's file cannot be used: gates must not be lost without a word."""

    def __init__(self, file: Path, problem: object) -> None:
        super().__init__(f"{file}: {problem}; correct the file, or leave it aside with --no-config")


@dataclass(frozen=True)
class Config:
    """The file, and its values by the option's name with underscores."""

    file: Path
    values: dict[str, Any]


def find_config(folder: Path) -> Config | None:
    """The table of the first ``pyproject.toml`` that has one, in ``folder`` or above it, but not above a repository's root.

    Raises :class:`ConfigError` for a file that cannot be read, an unknown key or a value of another type.
    """
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        try:
            table = _table(file) if os.path.lexists(file) else None
            at_root = (place / ".git").exists()
        except OSError as error:
            raise ConfigError(file, f"it cannot be read ({error.strerror})") from None
        if table is not None:
            return Config(file, _checked(file, table))
        if at_root:
            return None
    return None


def _table(file: Path) -> Any:
    if not file.is_file():
        raise ConfigError(file, "it is not a file, but a folder, a pipe or a link that leads nowhere")
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no TOML, no text, numbers or nesting without measure
        raise ConfigError(file, f"it is not valid TOML ({error})") from None
    tools = document.get("tool")
    return tools.get("lipaudit") if isinstance(tools, dict) else None


def _checked(file: Path, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ConfigError(file, InvalidValueError("tool.lipaudit", "a table", table))
    for key, value in table.items():
        if key in _GATES:
            expected, accepts = _GATES[key]
            if not accepts(value):
                raise ConfigError(file, InvalidValueError(f"{key} in [tool.lipaudit]", expected, value))
        elif key not in _OPTIONS:
            raise ConfigError(file, UnknownChoiceError("key of [tool.lipaudit]", key, (*_GATES, *_OPTIONS)))
    if table.get("domain") not in (None, "global", "pixels"):
        raise ConfigError(file, InvalidValueError("domain in [tool.lipaudit]", '"global" or "pixels"', table["domain"]))
    try:
        with command_line(False):  # keys have no dashes in front
            AuditOptions(**{key: value for key, value in table.items() if key in _OPTIONS})
    except UsageError as error:
        raise ConfigError(file, error) from None
    return {key.replace("-", "_"): _typed(value) if key in ("mean", "std") else value for key, value in table.items()}


def _typed(value: Any) -> str:
    """Numbers per channel as one types them."""
    return ",".join(repr(float(number)) for number in (value if isinstance(value, list) else [value]))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


_OPTIONS = ("domain", "effort", "mean", "std", "tol")
_GATES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "max-log10-bound": ("a finite number", _is_number),
    "max-layer": ("a finite number above 0", _is_positive),
    "claim": ("a finite number above 0", _is_positive),
    "claim-tolerance": ("a finite number from 0", lambda value: _is_number(value) and value >= 0),
    "no-unbounded": ("true or false", _is_flag),
    "strict": ("true or false", _is_flag),
}
