"""Edits of a model card that leave everything else as it is, byte for byte.

A card is Markdown behind an optional block of YAML between two lines of ``---``, as ``huggingface_hub`` reads it. One key of
that block, and one section of the body between two HTML comments, can be set; comments, order and line ends of the rest stay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from lipaudit.errors import UsageError

BEGIN, END = "<!-- lipaudit:begin -->", "<!-- lipaudit:end -->"
_FRONT = re.compile(r"(\ufeff?\s*---(?:\r\n|\r|\n))(|.*?(?:\r\n|\r|\n))(---[ \t]*(?:\r\n|\n|\Z).*)", re.DOTALL)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*\Z)|~{3,})")
_WHOLE = "the card is unchanged"


@dataclass(frozen=True)
class Card:
    """A card in three parts: up to its metadata, the metadata's YAML (empty or ending a line), and from the closing line on."""

    head: str
    metadata: str
    tail: str
    line_end: str

    @classmethod
    def parse(cls, text: str) -> Card:
        """The parts of a card; one without metadata gets room for it."""
        found = re.search(r"\r\n|\r|\n", text)
        end = found[0] if found else "\n"
        if front := _FRONT.fullmatch(text):
            return cls(front[1], front[2], front[3], end)
        bom = "\ufeff" if text.startswith("\ufeff") else ""
        body = text.removeprefix(bom)
        return cls(f"{bom}---{end}", "", f"---{end}" + (end if body else "") + body, end)

    def __str__(self) -> str:
        return self.head + self.metadata + self.tail


def metadata_node(card: Card) -> yaml.MappingNode:
    """The metadata as YAML nodes. Raises :class:`~lipaudit.errors.UsageError` where it is no block of keys, one per line."""
    text = re.sub(r"(\r\n|\r|\n)\Z", "", card.metadata)  # the last line end belongs to the line of dashes
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise UsageError(
            f"the metadata of the card is no valid YAML ({' '.join(str(error).split())}); {_WHOLE}"
        ) from None
    if root is None:
        return yaml.MappingNode("tag:yaml.org,2002:map", [], flow_style=False)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise UsageError(f"the metadata of the card must be keys, one per line; {_WHOLE}")
    return root


def set_key(card: Card, key: str, value: yaml.Node) -> Card:
    """The card with ``key: value`` in its metadata, in the place of what the key had, else as the last key.

    Raises :class:`~lipaudit.errors.UsageError` where the metadata cannot be read, or where that would change another key.
    """
    root = metadata_node(card)
    starts = [(name.value, name.start_mark) for name, _ in root.value]
    places = [i for i, (name, _) in enumerate(starts) if name == key]
    if len(places) > 1:
        raise UsageError(f"the metadata of the card has the key {key} {len(places)} times: keep one; {_WHOLE}")
    dumped = _dump(yaml.MappingNode("tag:yaml.org,2002:map", [(_text(key), value)], flow_style=False), card.line_end)
    old = card.metadata
    if not places:
        new = old + dumped
    else:
        start = starts[places[0]][1].index
        following = places[0] + 1
        stop = starts[following][1].index if following < len(starts) else len(old)
        lines = _LINE.findall(old[start:stop])
        while len(lines) > 1 and (not lines[-1].strip() or lines[-1].startswith("#")):  # these belong to what follows
            stop -= len(lines.pop())
        new = old[:start] + dumped + old[stop:]
    edited = Card(card.head, new, card.tail, card.line_end)
    if _others(metadata_node(edited), key) != _others(root, key):
        raise UsageError(
            f"the key {key} cannot be set without a change of other metadata: write the line `{key}:` yourself; {_WHOLE}"
        )
    return edited


def node(value: Any) -> yaml.Node:
    """Plain data as a YAML node; floats are written so that YAML 1.1 reads them as floats."""
    composed = yaml.compose(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), yaml.SafeLoader)
    assert composed is not None
    return composed


def set_section(card: Card, section: str) -> Card:
    """The card with ``section`` between the two markers of its body, which are added at the end where they are missing.

    Markers inside a fenced block of code are text. Raises :class:`~lipaudit.errors.UsageError` where the markers do not pair up.
    """
    end = card.line_end
    block = end.join((BEGIN, *section.splitlines(), END))
    lines = _LINE.findall(card.tail)
    marks, open_fence = _marks(lines)
    if [kind for _, kind in marks] == [BEGIN, END]:
        (first, _), (last, _) = marks
        ending = lines[last][len(lines[last].rstrip("\r\n")) :]
        return Card(card.head, card.metadata, "".join(lines[:first]) + block + ending + "".join(lines[last + 1 :]), end)
    if marks:
        raise UsageError(f"the card must have one line {BEGIN} and after it one line {END}, or neither; {_WHOLE}")
    if open_fence:
        raise UsageError(f"a block of code in the card is never closed ({open_fence}): close it first; {_WHOLE}")
    tail = card.tail if card.tail.endswith(("\n", "\r")) else card.tail + end
    gap = "" if tail.endswith(end * 2) else end
    return Card(card.head, card.metadata, tail + gap + block + end, end)


def _marks(lines: list[str]) -> tuple[list[tuple[int, str]], str]:
    """The lines that are markers, and the fence that is still open at the end."""
    marks, fence = [], ""
    for number, line in enumerate(lines):
        bare = line.rstrip()
        found = _FENCE.match(bare)
        if fence:
            closes = found is not None and found[1].startswith(fence) and bare.strip() == found[1]
            fence = "" if closes else fence
        elif found is not None:
            fence = found[1]
        elif bare in (BEGIN, END):
            marks.append((number, bare))
    return marks, fence


def _text(value: str) -> yaml.Node:
    return yaml.ScalarNode("tag:yaml.org,2002:str", value)


def _dump(root: yaml.Node, line_end: str) -> str:
    text: str = yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=1_000_000)
    return text.replace("\n", line_end)


def _others(root: yaml.MappingNode, key: str) -> list[tuple[str, str]]:
    return [(name.value, _dump(value, "\n")) for name, value in root.value if name.value != key]
