"""The file of two inputs between which a stretching was measured."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch

from lipaudit.errors import CannotWriteError
from lipaudit.network.stretch import Pair


def check_folder(name: str) -> None:
    """Raise :class:`~lipaudit.errors.CannotWriteError` where the file has no folder, before any model is loaded."""
    path = Path(name)
    if not path.absolute().parent.is_dir():
        raise CannotWriteError(name, f"there is no folder {path.parent}", "create it first", "the two inputs")


def write_pair(pair: Pair, path: Path) -> None:
    """The arrays ``x.INPUT`` and ``y.INPUT`` of every input, as a numpy archive; numpy has no bfloat16, float32 holds its numbers."""
    arrays = {
        f"{end}.{name}": (t.float() if t.dtype == torch.bfloat16 else t).detach().cpu().numpy()
        for end, point in (("x", pair.x), ("y", pair.y))
        for name, t in point.items()
    }
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    try:
        path.write_bytes(content.getvalue())
    except OSError as error:
        raise CannotWriteError(path, error.strerror, what="the two inputs") from None
