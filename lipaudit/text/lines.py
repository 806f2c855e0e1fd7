"""Lines of a terminal: sentences broken to a width, beside a label or below an indentation."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

LEAST_WIDTH = 80  # a narrower terminal breaks the lines itself
LABEL = 12  # characters of a label and the room behind it
_READABLE = 100  # lines longer than that are hard to read, however wide the terminal is


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """The lines of a text; all but the first are indented.

    >>> wrapped("no words are broken", 12, indent="  ")
    ['no words are', '  broken']
    """
    return textwrap.wrap(text, min(width, _READABLE), subsequent_indent=indent, break_on_hyphens=False)


def labelled(label: str, sentences: Sequence[str], width: int, margin: int = LABEL) -> list[str]:
    """The lines of sentences beside their label, which stands before the first.

    >>> labelled("Notes", ["one", "two"], 80)
    ['Notes       one', '            two']
    """
    lines: list[str] = []
    for sentence in sentences:
        lines += textwrap.wrap(
            sentence,
            min(width, _READABLE),
            initial_indent=label.ljust(margin),
            subsequent_indent=" " * margin,
            break_on_hyphens=False,
        )
        label = ""
    return lines
