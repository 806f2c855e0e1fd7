"""Markdown for the generated pages: prose of help texts and schemas with what Markdown would act on escaped."""

from __future__ import annotations

import re

from lipaudit.escaping import escape_markdown


def prose(text: str) -> str:
    r"""The text on one line, with spans in backquotes kept as code.

    >>> prose("a_b:\n  see `lipaudit list a_*`")
    'a\\_b: see `lipaudit list a_*`'
    """
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else escape_markdown(part) for part in parts)


def cell(text: str) -> str:
    r"""Code in a cell of a table.

    >>> cell("a|b")
    '`a\\|b`'
    """
    return f"`{text}`".replace("|", "\\|")


def page(*parts: str) -> str:
    """Parts of a page, one empty line between them."""
    return "\n\n".join(part for part in parts if part) + "\n"
