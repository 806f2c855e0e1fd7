"""The files that an audit reads, and their hashes: how a record knows whether a model is still the one that was audited."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lipaudit.errors import LipauditError
from lipaudit.frontends.files import existing_file, sha256
from lipaudit.frontends.image_files import files_of
from lipaudit.frontends.spec import Kind, file_of, parse_spec


def named_files(
    spec: str,
    weights: str | None = None,
    around: str | None = None,
    fix: Mapping[str, object] | None = None,
    images: str | None = None,
) -> list[str]:
    """The files that options name: the model, its weights, the centres of balls, the values of held inputs, images."""
    parsed = parse_spec(spec)
    names = [parsed.name] if parsed.kind is Kind.FILE else []
    names += [weights] if weights else []
    names += [file for text in (around, images) if text for file in files_of(text)]
    return names + [file for value in (fix or {}).values() if (file := file_of(value))]


def external_files(spec: str) -> list[str]:
    """The files in which an ONNX file keeps its tensors; none where it cannot be read, of which the audit says what is wrong."""
    parsed = parse_spec(spec)
    if parsed.suffix != ".onnx":
        return []
    from lipaudit.frontends.onnx.file import external_locations

    try:
        names = external_locations(existing_file(parsed.name))
    except (LipauditError, OSError):
        return []
    return [str(Path(parsed.name).parent / name) for name in names]


def read_where(output: Path, spec: str, named: Sequence[str]) -> list[str]:
    """The ``named`` files and those external ones that ``output`` could be: they lie in the folder of their model or below it."""
    target, parsed = Path(os.path.realpath(output)), parse_spec(spec)
    if parsed.suffix != ".onnx" or not target.exists():
        return list(named)
    folder = os.path.realpath(Path(os.path.expanduser(parsed.name)).parent)
    return [*named, *external_files(spec)] if target.is_relative_to(folder) else list(named)


def file_hashes(names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of every file; what is no readable file is left out, of which the audit says what is wrong."""
    hashes = {}
    for name in names:
        try:
            hashes[name] = sha256(existing_file(name))
        except (LipauditError, OSError):
            continue
    return hashes


def are_unchanged(hashes: Mapping[str, str]) -> bool:
    """Whether every file still has its content."""
    return file_hashes(hashes) == hashes
