"""Text from model files, made harmless for whoever reads it on a terminal."""

from __future__ import annotations

import re


def printable(text: str) -> str:
    """The text with control characters escaped: names come from model files and must not drive a terminal.

    >>> printable("conv\\n1\\x1b[2J")
    'conv\\\\n1\\\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable_lines(text: str) -> str:
    """The same line by line: line feeds stay."""
    return "\n".join(map(printable, text.split("\n")))


def escape_markdown(text: str) -> str:
    r"""The text with every character escaped that Markdown, HTML or a terminal would act on.

    >>> escape_markdown("a_b|c"), escape_markdown("layer1.0 <b>")
    ('a\\_b\\|c', 'layer1.0 &lt;b&gt;')
    """
    text = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", text)
