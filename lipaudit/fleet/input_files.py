"""The files that an audit reads, by their content: how a record knows whether a model is still the one that was audited."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lipaudit.errors import LipauditError
from lipaudit.frontends.files import existing_file, sha256
from lipaudit.frontends.held_inputs import file_of
from lipaudit.frontends.spec import Kind, parse_spec


def named_files(spec: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The files that a request names, as the loader understands it, with their SHA-256: the model, its weights, the centre of the
    ball, the values of held inputs.

    What is no readable file is left out: the audit says what is wrong with it.
    """
    return _hashed(_named(spec, arguments))


def external_files(spec: str) -> dict[str, str]:
    """The files in which an ONNX file keeps its tensors, with their SHA-256."""
    return _hashed(_external(spec))


def read_where(output: Path, spec: str, arguments: Mapping[str, Any]) -> list[str]:
    """The files of a request that ``output`` could be one of. External data lies in the folder of its model or below it."""
    named = _named(spec, arguments)
    target, parsed = Path(os.path.realpath(output)), parse_spec(spec)
    if parsed.suffix != ".onnx" or not target.exists():
        return named
    folder = os.path.realpath(Path(os.path.expanduser(parsed.name)).parent)
    return [*named, *_external(spec)] if target.is_relative_to(folder) else named


def unchanged(files: Mapping[str, str]) -> bool:
    """Whether every file still has its content."""
    return _hashed(files) == files


def _named(spec: str, arguments: Mapping[str, Any]) -> list[str]:
    parsed = parse_spec(spec)
    texts = [parsed.name] if parsed.kind is Kind.FILE else []
    texts += [text for name in ("weights", "around") if (text := arguments.get(name))]
    return texts + [file for value in (arguments.get("fix") or {}).values() if (file := file_of(value))]


def _external(spec: str) -> list[str]:
    parsed = parse_spec(spec)
    if parsed.suffix != ".onnx":
        return []
    from lipaudit.frontends.onnx.file import external_locations

    try:
        names = external_locations(existing_file(parsed.name))
    except (LipauditError, OSError):
        return []
    return [str(Path(parsed.name).parent / name) for name in names]


def _hashed(texts: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        try:
            found[text] = sha256(existing_file(text))
        except (LipauditError, OSError):
            continue
    return found
