"""Which lines of Markdown are the two markers of a section, and which are only text in a block of code, a list or HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# what opens HTML whose lines are HTML, too; in the others of its kinds they are text or part of a comment (CommonMark 0.31, 4.6)
_TAG = re.compile(r" {0,3}</?(?!(?:pre|script|style|textarea)(?:\s|>|\Z))[a-z]", re.I)


@dataclass(frozen=True)
class Marks:
    """The markers by line, and the first line of a block that would take up what is appended; empty where there is none."""

    lines: tuple[tuple[int, str], ...]
    open_block: str


def find_marks(lines: Sequence[str], markers: Sequence[str]) -> Marks:
    """Where ``markers``, comments of HTML, stand alone on a line, outside of lists, code and what HTML takes for text (CommonMark).

    >>> find_marks(["- item", "  ```", "  <!-- a -->", "", "<!-- a -->", "~~~"], ("<!-- a -->",))
    Marks(lines=((4, '<!-- a -->'),), open_block='~~~')
    """
    from markdown_it import MarkdownIt

    bare = [line.rstrip().replace("\r", " ") for line in lines]
    appended = len(bare) + 1
    blocks = [
        (token.map[0], token.map[1], token.type)
        for token in MarkdownIt("commonmark").parse("\n".join([*bare, "", markers[0]]))
        if token.level == 0 and token.map
    ]
    bare += ["", markers[0]]
    marks = [
        (number, bare[number])
        for start, end, kind in blocks
        if kind == "html_block" and (bare[start] in markers or _TAG.match(bare[start]))
        for number in range(start, end)
        if bare[number] in markers
    ]
    if marks and marks[-1][0] == appended:
        return Marks(tuple(marks[:-1]), "")
    return Marks(tuple(marks), next(bare[start] for start, end, _ in blocks if start <= appended < end))
