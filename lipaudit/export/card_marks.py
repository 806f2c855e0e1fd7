"""Which lines of Markdown are the two markers of a section, and which are only text in a block of code or of HTML.

Blocks are those of CommonMark 0.31: fenced code (4.5), also in a list item or a quotation, which end it with themselves (5.1, 5.2), and
HTML that ends with a tag or a comment of its own (4.6, kinds 1 and 2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BOX = r"(?P<box>(?: {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]+| {0,3}>[ \t]?)*)"
_FENCE = re.compile(_BOX + r" {0,3}(?P<fence>`{3,}(?=[^`]*\Z)|~{3,})")
_HTML = (
    (
        re.compile(r" {0,3}<(pre|script|style|textarea)(\s|>|\Z)", re.I),
        re.compile(r"</(pre|script|style|textarea)>", re.I),
    ),
    (re.compile(r" {0,3}<!--"), re.compile(r"-->")),
)


@dataclass(frozen=True)
class _Block:
    """An open block: its first line, the list item or quotation it is in, and what ends it, a fence or something of HTML."""

    line: str
    box: str = ""
    fence: str = ""
    end: re.Pattern[str] | None = None

    def is_left_by(self, line: str) -> bool:
        """Whether the list item or quotation that the block is in ends before the line."""
        if self.box.lstrip().startswith(">"):
            return not line.lstrip().startswith(">")
        indent = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
        return line.strip() != "" and indent < len(self.box.expandtabs(4))

    def is_closed_by(self, line: str) -> bool:
        """Whether the line is the block's last."""
        if self.end is not None:
            return self.end.search(line) is not None
        text = re.sub(r"\A[ \t>]*", "", line) if self.box else line
        found = _FENCE.match(text)
        return found is not None and found["fence"].startswith(self.fence) and text.strip() == found["fence"]


@dataclass(frozen=True)
class Marks:
    """The markers by line, and the first line of a block that is never closed; empty where there is none."""

    lines: tuple[tuple[int, str], ...]
    open_block: str


def find_marks(lines: Sequence[str], markers: Sequence[str]) -> Marks:
    """Where ``markers`` stand alone on a line outside of other blocks."""
    found: list[tuple[int, str]] = []
    block: _Block | None = None
    for number, line in enumerate(lines):
        bare = line.rstrip()
        if block is not None and block.box and block.is_left_by(bare):
            block = None
        if block is not None:
            block = None if block.is_closed_by(bare) else block
        elif bare in markers:
            found.append((number, bare))
        else:
            block = _opened(bare)
    # what is appended ends a list item or a quotation, and a block in it
    return Marks(tuple(found), block.line if block is not None and not block.box else "")


def _opened(line: str) -> _Block | None:
    """The block that begins in a line and goes on behind it."""
    for start, end in _HTML:
        if found := start.match(line):
            rest = line[found.start(1) :] if start.groups else line[found.end() :]
            return None if end.search(rest) else _Block(line, end=end)
    fence = _FENCE.match(line)
    return _Block(line, fence["box"], fence["fence"]) if fence else None
