"""Exported programs (.pt2): checked as data, then loaded by torch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from lipaudit.errors import ModelLoadError
from lipaudit.errors.reason import reason_of
from lipaudit.frontends.files import sha256
from lipaudit.frontends.held_inputs import NOTHING, Fixed
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.program import load_program
from lipaudit.frontends.program_memory import require_room
from lipaudit.frontends.pt2_check import checked_archive
from lipaudit.frontends.shapes import Shape


def load_pt2(
    path: Path, *, spec: str, input_shapes: Mapping[str, Shape] | None = None, fixed: Fixed = NOTHING
) -> LoadedModel:
    """Load a program saved by ``torch.export.save``.

    An open batch axis becomes 1; other open axes have the size that they were exported with unless another is asked for, which
    the program's own conditions must allow. Raises :class:`ModelLoadError` for an archive that holds anything but plain data, for a
    truncated one, and for a program exported in training mode or with a fixed batch other than 1.
    """
    archive = checked_archive(path)
    try:
        with _quiet():
            program = torch.export.load(archive)
    except Exception as error:
        raise ModelLoadError(
            f"{path} cannot be read by torch {torch.__version__} ({reason_of(error)}): export it again"
        ) from error
    loaded = load_program(
        program,
        spec=spec,
        source="pt2",
        weights=path.name,
        requested=input_shapes,
        fixed=fixed,
        file_sha256=sha256(path),
    )
    require_room(loaded)
    return loaded


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch logs the traceback of what it also raises; the message of the raised error is enough."""
    logger = logging.getLogger("torch.export")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
