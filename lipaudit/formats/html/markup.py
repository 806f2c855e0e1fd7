"""Text and numbers as HTML: nothing from a report reaches the page but through :func:`text`."""

from __future__ import annotations

import html
from collections.abc import Iterable

from lipaudit.escaping import printable


def text(value: object) -> str:
    """A value from a report as the text of an element or of a quoted attribute; what is not printable is escaped.

    >>> text("</script><img src='x'>\\x00")
    '&lt;/script&gt;&lt;img src=&#x27;x&#x27;&gt;\\\\x00'
    """
    return html.escape(printable(str(value)))


def number(value: float) -> str:
    """A length or position in a drawing: at most two decimals.

    >>> number(3.0), number(1 / 3), number(-0.001)
    ('3', '0.33', '0')
    """
    short = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if short in ("-0", "") else short


def paragraphs(lines: Iterable[str]) -> str:
    """One paragraph per sentence of a section."""
    return "\n".join(f"<p>{text(line)}</p>" for line in lines)


def definitions(entries: Iterable[tuple[str, object]]) -> str:
    """A list of names with their values, without those that have none."""
    rows = (
        f"<div><dt>{text(name)}</dt><dd><bdi>{text(value)}</bdi></dd></div>" for name, value in entries if value != ""
    )
    return f"<dl>{''.join(rows)}</dl>"


def section(key: str, heading: str, *parts: str) -> str:
    """A part of the page that the contents at its head can name; empty where it has no parts."""
    body = "\n".join(part for part in parts if part)
    return (
        f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{heading}</h2>\n{body}\n</section>'
        if body
        else ""
    )
