"""Text that must fit a width: module paths shortened in the middle, staying unique and recognisable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

ELLIPSIS = "…"


def shorten_end(text: str, width: int) -> str:
    """The beginning of a text, with an ellipsis where something was cut.

    >>> shorten_end("conv_transpose2d", 8)
    'conv_tr…'
    """
    return text if len(text) <= width else text[: width - 1] + ELLIPSIS


def shorten_paths(paths: Sequence[str], width: int) -> list[str]:
    """Each path within ``width`` characters; different paths stay different.

    The cut is in the middle: a third of the room goes to the beginning, the rest to the end. Where this makes two paths
    equal, other divisions are tried, first one for all paths, then one for each that no other path begins and ends like; where
    there is none, the paths are numbered.

    >>> shorten_paths(["features.denseblock1.denselayer1.conv1", "features.denseblock2.denselayer1.conv1"], 24)
    ['feat…1.denselayer1.conv1', 'feat…2.denselayer1.conv1']
    """
    different = list(dict.fromkeys(paths))
    third = (width - 1) // 3
    heads = sorted(range(width), key=lambda h: abs(h - third))
    for head in heads:
        if len({_middle(path, width, head) for path in different}) == len(different):
            return [_middle(path, width, head) for path in paths]
    counts = {head: Counter(_middle(path, width, head) for path in different) for head in heads}
    short: dict[str, str] = {}
    for number, path in enumerate(different, start=1):
        cuts = (_middle(path, width, head) for head in heads if counts[head][_middle(path, width, head)] == 1)
        short[path] = next(cuts, _numbered(path, width, number))
    if len(set(short.values())) < len(different):
        short = {path: _numbered(path, width, number) for number, path in enumerate(different, start=1)}
    return [short[path] for path in paths]


def _middle(path: str, width: int, head: int) -> str:
    if len(path) <= width:
        return path
    tail = width - 1 - head
    return path[:head] + ELLIPSIS + (path[-tail:] if tail else "")


def _numbered(path: str, width: int, number: int) -> str:
    mark = f"~{number}"
    return shorten_end(path, width - len(mark)) + mark
