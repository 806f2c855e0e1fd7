"""Tensors in files of their own (.npy, .npz, .pt): read without executing anything."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from lipaudit.errors.inputs import ReadFileError
from lipaudit.errors.reason import reason_of


def readable_file(text: str, option: str) -> Path:
    """The path of a file that can be read; ``option`` is the option with its value, for the message."""
    path = Path(text).expanduser()
    try:
        readable = path.is_file() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # too long, a null byte
        readable = False
    if not readable:
        raise ReadFileError(option, "there is no file of this name that can be read; check the path")
    return path


def read_tensor(text: str, option: str) -> torch.Tensor:
    """The one tensor in a file (.npy, .pt, .pth), on the CPU; ``option`` is the option with its value, for the message.

    Pickles are read with ``weights_only``, arrays without pickles. Raises :class:`~lipaudit.errors.inputs.ReadFileError` for anything else.
    """
    content = read_content(text, option)
    if not isinstance(content, torch.Tensor):
        raise ReadFileError(option, f"it holds {type(content).__name__}, not one tensor")
    return content


def read_content(text: str, option: str) -> object:
    """What a tensor file (.npy, .npz, .pt, .pth) holds: a tensor, tensors by name (.npz), or what was saved, on the CPU."""
    path = readable_file(text, option)
    try:
        if path.suffix.lower() in (".npy", ".npz"):
            import numpy as np

            content = np.load(path, allow_pickle=False)
            if isinstance(content, np.ndarray):
                return torch.from_numpy(content)
            with content:
                return {name: torch.from_numpy(content[name]) for name in content.files}
        saved: object = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise ReadFileError(option, f"no tensor can be read from it ({reason_of(error)})") from error
    return saved.detach() if isinstance(saved, torch.Tensor) else saved
