"""The files that an audit reads, by their content: how a record knows whether a model is still the one that was audited."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lipaudit.errors import LipauditError
from lipaudit.frontends.files import existing_file, sha256
from lipaudit.frontends.spec import Kind, parse_spec


def named_files(spec: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The files that a request names, as typed, with their SHA-256: the model, its weights, the centre of the ball.

    What is no readable file is left out: the audit says what is wrong with it.
    """
    texts = [spec] if parse_spec(spec).kind is Kind.FILE else []
    texts += [text for name in ("weights", "around") if (text := arguments.get(name))]
    return _hashed(texts)


def external_files(spec: str) -> dict[str, str]:
    """The files in which an ONNX file keeps its tensors, with their SHA-256."""
    if parse_spec(spec).suffix != ".onnx":
        return {}
    from lipaudit.frontends.onnx.file import external_locations

    try:
        names = external_locations(existing_file(spec))
    except (LipauditError, OSError):
        return {}
    return _hashed([str(Path(spec).parent / name) for name in names])


def unchanged(files: Mapping[str, str]) -> bool:
    """Whether every file still has its content."""
    return _hashed(files) == files


def _hashed(texts: Mapping[str, str] | list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        try:
            found[text] = sha256(existing_file(text))
        except (LipauditError, OSError):
            continue
    return found
