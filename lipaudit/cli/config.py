"""The table ``[tool.lipaudit]`` of a project's ``pyproject.toml``: values of options that one command line need not repeat."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lipaudit.errors import UsageError

_NO_CONFIG = "correct the file, or say --no-config to leave it aside"


@dataclass(frozen=True)
class Config:
    """The file, and its values by the option's name with underscores."""

    file: Path
    values: dict[str, Any]


def find_config(folder: Path) -> Config | None:
    """The table of the first ``pyproject.toml`` that has one, in ``folder`` or above it, but not above a repository's root.

    Raises :class:`~lipaudit.errors.UsageError` for a file that cannot be read, an unknown key or a value of another type.
    """
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        try:
            table = _table(file) if os.path.lexists(file) else None
            at_root = (place / ".git").exists()
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}; {_NO_CONFIG}") from None
        if table is not None:
            return Config(file, _checked(file, table))
        if at_root:
            return None
    return None


def _table(file: Path) -> Any:
    if not file.is_file():  # gates must not be lost without a word
        raise UsageError(
            f"{file} is no file (a folder, a pipe, a link that leads nowhere): remove it, or say --no-config"
        )
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no TOML, no text, numbers or nesting without measure
        raise UsageError(f"{file} is no TOML: {error}; {_NO_CONFIG}") from None
    tools = document.get("tool")
    return tools.get("lipaudit") if isinstance(tools, dict) else None


def _checked(file: Path, table: Any) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise UsageError(f"{file}: tool.lipaudit should be a table; {_NO_CONFIG}")
    values = {}
    for key, value in table.items():
        if key not in _KEYS:
            raise UsageError(f"{file}: [tool.lipaudit] has no key {key!r} (there are {', '.join(_KEYS)}); {_NO_CONFIG}")
        wanted, accepts = _KEYS[key]
        if not accepts(value):
            raise UsageError(f"{file}: {key} in [tool.lipaudit] should be {wanted}, not {value!r}; {_NO_CONFIG}")
        values[key.replace("-", "_")] = _typed(value) if key in ("mean", "std") else value
    if len({"mean", "std"} & values.keys()) == 1:
        raise UsageError(f"{file}: mean and std in [tool.lipaudit] belong together: give both; {_NO_CONFIG}")
    return values


def _typed(value: Any) -> str:
    """Numbers per channel as one types them."""
    return ",".join(repr(float(number)) for number in (value if isinstance(value, list) else [value]))


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond floats
        return False


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_mean(value: Any) -> bool:
    return bool(value) and all(map(_is_number, value)) if isinstance(value, list) else _is_number(value)


def _is_std(value: Any) -> bool:
    return _is_mean(value) and value != 0 and not (isinstance(value, list) and 0 in value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


_KEYS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "max-log10-bound": ("a finite number", _is_number),
    "max-layer": ("a finite number above 0", _is_positive),
    "no-unbounded": ("true or false", _is_flag),
    "strict": ("true or false", _is_flag),
    "domain": ('"global" or "pixels"', lambda value: value in ("global", "pixels")),
    "mean": ("a finite number or a list of one per channel", _is_mean),
    "std": ("a finite number other than 0 or a list of one per channel", _is_std),
    "tol": ("a finite number above 0", _is_positive),
}
