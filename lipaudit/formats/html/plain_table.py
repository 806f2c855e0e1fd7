"""A plain table: headings, rows of text or links, and which columns hold numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lipaudit.formats.html.markup import text


@dataclass(frozen=True)
class Link:
    """A cell that leads to the part ``key`` of the page."""

    key: str
    name: str


Cell = str | Link


def render(caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], numeric: Collection[str] = ()) -> str:
    """The table in a box that scrolls; the first column names the row."""
    kinds = [' class="number"' if name in numeric else "" for name in head]
    heads = "".join(f'<th scope="col"{kind}>{text(name)}</th>' for name, kind in zip(head, kinds, strict=True))
    body = "".join(
        f'<tr><th scope="row">{_inner(row[0])}</th>'
        + "".join(f"<td{kind}>{_inner(value)}</td>" for value, kind in zip(row[1:], kinds[1:], strict=True))
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="box" tabindex="0" role="region" aria-label="{text(caption)}"><table><caption class="unseen">{text(caption)}'
        f"</caption><thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def _inner(value: Cell) -> str:
    if isinstance(value, Link):
        return f'<a href="#{text(value.key)}"><bdi>{text(value.name)}</bdi></a>'
    return f"<bdi>{text(value)}</bdi>" if value else ""
