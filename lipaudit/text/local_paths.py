"""Paths of the user's machine, which are nobody else's business and stay out of reports."""

from __future__ import annotations

import os
from pathlib import Path


def without_folders(text: str) -> str:
    """An absolute path as one below the working directory, or its last part; any other text as it is.

    A path that starts with ``~`` counts as absolute. Texts that only look like paths, such as ``package.module:factory``, stay.

    >>> without_folders("models/net.onnx"), without_folders("/home/someone/net.onnx"), without_folders("timm:resnet18")
    ('models/net.onnx', 'net.onnx', 'timm:resnet18')
    """
    expanded = os.path.expanduser(text)
    if not os.path.isabs(expanded):
        return text
    path = Path(os.path.normpath(expanded))
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) and path != here else path.name
