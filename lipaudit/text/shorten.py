"""Text that must fit a width: module paths shortened in the middle, staying unique and recognisable."""

from __future__ import annotations

from collections.abc import Sequence

ELLIPSIS = "…"
WIDTH = 100  # characters of a line of a table on a terminal


def shorten_end(text: str, width: int) -> str:
    """The beginning of a text, with an ellipsis where something was cut.

    >>> shorten_end("conv_transpose2d", 8)
    'conv_tr…'
    """
    return text if len(text) <= width else text[: width - 1] + ELLIPSIS


def shorten_paths(paths: Sequence[str], width: int) -> list[str]:
    """Each path within ``width`` characters; different paths stay different.

    The cut is in the middle: a third of the room goes to the beginning, the rest to the end. Where this makes two paths
    equal, other divisions are tried; where none keeps them apart, the paths are numbered.

    >>> shorten_paths(["features.denseblock1.denselayer1.conv1", "features.denseblock2.denselayer1.conv1"], 24)
    ['feat…1.denselayer1.conv1', 'feat…2.denselayer1.conv1']
    """
    different = set(paths)
    third = (width - 1) // 3
    for head in sorted(range(width), key=lambda h: abs(h - third)):
        short = {path: _middle(path, width, head) for path in different}
        if len(set(short.values())) == len(different):
            return [short[path] for path in paths]
    number = {path: i for i, path in enumerate(dict.fromkeys(paths), start=1)}
    return [_numbered(path, width, number[path]) for path in paths]


def _middle(path: str, width: int, head: int) -> str:
    if len(path) <= width:
        return path
    tail = width - 1 - head
    return path[:head] + ELLIPSIS + (path[-tail:] if tail else "")


def _numbered(path: str, width: int, number: int) -> str:
    mark = f"~{number}"
    return shorten_end(path, width - len(mark)) + mark
