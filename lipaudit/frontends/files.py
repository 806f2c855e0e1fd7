"""Model files: the checks that come before any of them is opened."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lipaudit.errors import ModelLoadError, ModelNotFoundError


def existing_file(text: str) -> Path:
    """The path of a non-empty regular file; a directory, a missing and an empty file raise with the path in the message."""
    try:
        path = Path(text).expanduser()
        path.stat()
    except FileNotFoundError:
        raise ModelNotFoundError(f"there is no file {text}: check the path") from None
    except (OSError, RuntimeError, ValueError) as error:  # too long, no such user, a null byte
        reason = getattr(error, "strerror", None) or error
        raise ModelNotFoundError(f"{text[:200]} is not the path of a file ({reason}): check the path") from error
    if path.is_dir():
        raise ModelLoadError(
            f"{text} is a directory: name one model file in it (.onnx, .pt2, .ts, .pt, .pth, .bin, .ckpt or .safetensors)"
        )
    if not path.is_file():
        raise ModelLoadError(f"{text} is not a regular file")
    try:
        with path.open("rb") as stream:
            first = stream.read(1)
    except OSError as error:
        raise ModelLoadError(f"{text} cannot be read: {error.strerror or error}") from error
    if not first:
        raise ModelLoadError(f"{text} is empty: fetch or export the model again")
    return path


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
