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
from lipaudit.formats.card_marks import find_marks

BEGIN, END = "<!-- lipaudit:begin -->", "<!-- lipaudit:end -->"
_FRONT = re.compile(r"(\ufeff?\s*---(?:\r\n|\r|\n))(|.*?(?:\r\n|\r|\n))(---[ \t]*(?:\r\n|\n|\Z).*)", re.DOTALL)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
# the same with blanks behind a line of dashes, which not every version of huggingface_hub takes for one
_BLANKS = re.compile(
    r"\ufeff?\s*---(?P<first>[ \t]*)(?:\r\n|\r|\n)(|.*?(?:\r\n|\r|\n))---(?P<last>[ \t]*)(?:\r\n|\n|\Z).*", re.DOTALL
)
_DEEPEST = 100
_TOO_DEEP = f"its metadata nests more than {_DEEPEST} lists or mappings in each other"


class CardError(UsageError):
    """A card that cannot be edited without changing what is not the audit's: the ``problem``, and what to do about it."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        what_to_do = f": {remedy}" if remedy else ""
        super().__init__(f"lipaudit cannot edit this card in place: {problem}{what_to_do}; the card is unchanged")


@dataclass(frozen=True)
class Card:
    """A card in three parts: up to its metadata, the metadata's YAML (empty or ending a line), and from the closing line on."""

    head: str
    metadata: str
    tail: str
    line_end: str

    @classmethod
    def parse(cls, text: str) -> Card:
        """The parts of a card; one without metadata gets room for it.

        Raises :class:`CardError` where ``huggingface_hub`` does not see the metadata that a reader sees.
        """
        first_end = re.search(r"\r\n|\r|\n", text)
        end = first_end[0] if first_end else "\n"
        if end == "\r":
            raise CardError("its lines end in CR alone, and huggingface_hub then finds no metadata", "write LF or CRLF")
        if (blanks := _BLANKS.fullmatch(text)) and (blanks["first"] or blanks["last"]):
            which = "opening" if blanks["first"] else "closing"
            problem = (
                f"there are blanks behind the {which} line --- of its metadata, and huggingface_hub may then find none"
            )
            raise CardError(problem, "remove them")
        if front := _FRONT.fullmatch(text):
            return cls(front[1], front[2], front[3], end)
        bom = "\ufeff" if text.startswith("\ufeff") else ""
        body = text.removeprefix(bom)
        return cls(f"{bom}---{end}", "", f"---{end}" + (end if body else "") + body, end)

    def __str__(self) -> str:
        return self.head + self.metadata + self.tail


def metadata_node(card: Card) -> yaml.MappingNode:
    """The metadata as YAML nodes. Raises :class:`CardError` where it is no block of keys, one per line."""
    text = re.sub(r"(\r\n|\r|\n)\Z", "", card.metadata)  # the last line end belongs to the line of dashes
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise CardError(f"its metadata is no valid YAML ({' '.join(str(error).split())})") from None
    except RecursionError:
        raise CardError(_TOO_DEEP) from None
    if root is not None and _depth(root) > _DEEPEST:
        raise CardError(_TOO_DEEP)
    if root is None:
        return yaml.MappingNode("tag:yaml.org,2002:map", [], flow_style=False)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise CardError("what is between its first two lines --- is read as metadata and must be keys, one per line")
    return root


def set_key(card: Card, key: str, value: yaml.Node) -> Card:
    """The card with ``key: value`` in its metadata, in the place of what the key had, else as the last key.

    Raises :class:`CardError` where the metadata cannot be read, or where that would change another key.
    """
    root = metadata_node(card)
    starts = [(name.value, name.start_mark) for name, _ in root.value]
    places = [i for i, (name, _) in enumerate(starts) if name == key]
    if len(places) > 1:
        raise CardError(f"its metadata has the key {key} {len(places)} times", "keep one")
    dumped = _dump(yaml.MappingNode("tag:yaml.org,2002:map", [(_text(key), value)], flow_style=False), card.line_end)
    old = card.metadata
    if not places:
        new = old + dumped
    else:
        place = places[0]
        start = starts[place][1].index
        stop = starts[place + 1][1].index if place + 1 < len(starts) else len(old)
        new = old[:start] + dumped + old[_end(old, start, stop, root.value[place][1]) :]
    edited = Card(card.head, new, card.tail, card.line_end)
    if problem := _side_effect(edited, root, key):
        raise CardError(
            f"with the key {key} set, {problem}",
            f"write a line `{key}:` at the left margin, without an anchor that another key uses and with nothing but keys behind it",
        )
    return edited


def _side_effect(edited: Card, before: yaml.MappingNode, key: str) -> str:
    """What an edit of one key would do to the rest of the metadata; empty where it does nothing."""
    try:
        after = metadata_node(edited)
    except CardError:
        return "its metadata would be no valid YAML"
    return "another key of its metadata would change" if _others(after, key) != _others(before, key) else ""


def _end(text: str, start: int, stop: int, value: yaml.Node) -> int:
    """Where a key that begins at ``start`` ends; the comments and blank lines between its value and ``stop`` are not the key's."""
    while isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        last = value.value[-1]
        value = last[1] if isinstance(last, tuple) else last
    # an alias has the place of what it stands for, which is before its key
    end = min(max(start, int(value.end_mark.index)), stop)
    lines = _LINE.findall(text[end:stop])
    first = lines.pop(0) if lines and text[end - 1 : end] not in ("\n", "\r") else ""
    while lines and lines[-1].lstrip()[:1] in ("", "#"):
        lines.pop()
    return end + len(first) + sum(map(len, lines))


def node(value: Any) -> yaml.Node:
    """Plain data as a YAML node; floats are written so that YAML 1.1 reads them as floats."""
    composed = yaml.compose(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), yaml.SafeLoader)
    assert composed is not None
    return composed


def set_section(card: Card, section: str) -> Card:
    """The card with ``section`` between the two markers of its body, which are added at the end where they are missing.

    Markers inside a block of code or HTML are text. Raises :class:`CardError` where the markers do not pair up.
    """
    end = card.line_end
    block = end.join((BEGIN, *section.splitlines(), END))
    lines = _LINE.findall(card.tail)
    marks = find_marks(lines, (BEGIN, END))
    if [kind for _, kind in marks.lines] == [BEGIN, END]:
        (first, _), (last, _) = marks.lines
        ending = lines[last][len(lines[last].rstrip("\r\n")) :]
        return Card(card.head, card.metadata, "".join(lines[:first]) + block + ending + "".join(lines[last + 1 :]), end)
    if marks.lines:
        raise CardError(f"it must have one line {BEGIN} and after it one line {END}, or neither")
    if marks.open_block:
        raise CardError(
            f"as far as lipaudit can see, the line {marks.open_block!r} opens a block that is never closed, and a section behind it would "
            "be part of that",
            f"close it, or put the two lines {BEGIN} and {END} above it",
        )
    tail = card.tail if card.tail.endswith(("\n", "\r")) else card.tail + end
    gap = "" if tail.endswith(end * 2) else end
    return Card(card.head, card.metadata, tail + gap + block + end, end)


def _text(value: str) -> yaml.Node:
    return yaml.ScalarNode("tag:yaml.org,2002:str", value)


def _dump(root: yaml.Node, line_end: str) -> str:
    text: str = yaml.serialize(_quoted(root), Dumper=yaml.SafeDumper, allow_unicode=True, width=1_000_000)
    # inside of double quotes, where YAML reads the escapes as the same characters
    escaped = "".join(c if c.isprintable() or c == "\n" else f"\\U{ord(c):08X}" for c in text)
    return escaped.replace("\n", line_end)


def _quoted(root: yaml.Node, known: dict[int, yaml.Node] | None = None) -> yaml.Node:
    """The node with every text in double quotes that holds a character without a glyph; what it shares stays shared."""
    known = {} if known is None else known
    if id(root) in known:
        return known[id(root)]
    if isinstance(root, yaml.ScalarNode):
        plain = root.value.replace("\n", "").isprintable()
        return root if plain else yaml.ScalarNode(root.tag, root.value, style='"')
    known[id(root)] = new = type(root)(root.tag, [], flow_style=root.flow_style)
    if isinstance(root, yaml.SequenceNode):
        new.value.extend(_quoted(part, known) for part in root.value)
    else:
        new.value.extend((_quoted(key, known), _quoted(value, known)) for key, value in root.value)
    return new


def _depth(root: yaml.Node) -> int:
    """How many nodes lie within each other, at most, through what they share."""
    depths: dict[int, int] = {}
    todo = [(root, False)]
    while todo:
        node, done = todo.pop()
        entries = node.value if isinstance(node, yaml.CollectionNode) else []
        parts = [part for entry in entries for part in (entry if isinstance(entry, tuple) else (entry,))]
        if done:
            depths[id(node)] = 1 + max((depths[id(part)] for part in parts), default=0)
        elif id(node) not in depths:
            depths[id(node)] = 0  # so that a node within itself ends
            todo += [(node, True), *((part, False) for part in parts)]
    return depths[id(root)]


def _others(root: yaml.MappingNode, key: str) -> list[tuple[str, str]]:
    return [(name.value, _dump(value, "\n")) for name, value in root.value if name.value != key]
