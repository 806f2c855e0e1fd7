"""Text that must fit a width: module paths shortened in the middle, staying unique and recognisable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

ELLIPSIS = "…"


def shorten_end(text: str, width: int) -> str:
    """The beginning of a text, with an ellipsis where something was cut.

    >>> shorten_end("conv_transpose2d", 8)
    'conv_tr…'
    """
    return text if len(text) <= width else text[: width - 1] + ELLIPSIS


def shorten_paths(paths: Sequence[str], width: int) -> list[str]:
    """Each path within ``width`` characters; different paths stay different.

    The cut is in the middle: as many of the last components as fit stay whole, and what is left goes to the beginning. Where this
    makes two paths equal, or nothing fits, a third of the room goes to the beginning; then other divisions are tried: first one
    for all paths, then one for each that no other path begins and ends like. Where there is none, the paths are numbered.

    >>> shorten_paths(["/blocks/blocks.0/norm1/LayerNormalization", "/blocks/blocks.0/norm2/LayerNormalization"], 28)
    ['….0/norm1/LayerNormalization', '….0/norm2/LayerNormalization']
    >>> shorten_paths(["features.denseblock1.denselayer1.conv1", "features.denseblock2.denselayer1.conv1"], 24)
    ['feat…1.denselayer1.conv1', 'feat…2.denselayer1.conv1']
    """
    different = list(dict.fromkeys(paths))
    third = (width - 1) // 3
    cuts: list[Callable[[str], str]] = [partial(_before_components, width=width)]
    cuts += [partial(_middle, width=width, head=head) for head in sorted(range(width), key=lambda h: abs(h - third))]
    for cut in cuts:
        if len(set(map(cut, different))) == len(different):
            return [cut(path) for path in paths]
    counts = [(cut, Counter(map(cut, different))) for cut in cuts]
    short: dict[str, str] = {}
    for number, path in enumerate(different, start=1):
        unique = (cut(path) for cut, count in counts if count[cut(path)] == 1)
        short[path] = next(unique, _numbered(path, width, number))
    if len(set(short.values())) < len(different):
        short = {path: _numbered(path, width, number) for number, path in enumerate(different, start=1)}
    return [short[path] for path in paths]


def _middle(path: str, width: int, head: int) -> str:
    if len(path) <= width:
        return path
    tail = width - 1 - head
    return path[:head] + ELLIPSIS + (path[-tail:] if tail else "")


def _before_components(path: str, width: int) -> str:
    """A path cut in front of its last components, as many as fit; with a third for the beginning where none fits."""
    tails = (len(path) - i for i, character in enumerate(path) if character in "./" and len(path) - i < width)
    tail = next(tails, None)
    return _middle(path, width, (width - 1) // 3 if tail is None else width - 1 - tail)


def _numbered(path: str, width: int, number: int) -> str:
    mark = f"({number})"
    return shorten_end(path, width - len(mark)) + mark
