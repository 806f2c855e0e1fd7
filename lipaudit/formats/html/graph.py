"""The network as a drawing: one line per row, coloured by its factor, its values as lanes to the left of the names."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lipaudit.escaping import printable
from lipaudit.formats.columns import cell
from lipaudit.formats.html.environment import number
from lipaudit.formats.html.lanes import Item, arrange
from lipaudit.formats.html.rows import kind, log10_figure, words
from lipaudit.formats.html.scale import Scale, colour
from lipaudit.records.report import LayerRecord
from lipaudit.text.shorten import shorten_end, shorten_paths

_LINE, _JOIN = 24, 14  # heights
_EDGE, _PITCH, _LANES = 14, 16, 24  # margin, distance of lanes, and how many of them have that distance
_CHARACTER = 7.6  # of the monospaced text, a little more than the widest font in use
_NAME = 48  # characters of a name
_OP = 28

_MEANINGS = {
    "estimate": "estimate, no bound",
    "plain": "finite",
    "unbounded": "unbounded",
    "unsupported": "unsupported",
    "join": "values that are read together",
}
_STEPS = 20  # of the colours in the legend


@dataclass(frozen=True)
class Line:
    """A line of the drawing: a ``row`` (by its number) with the texts beside its mark, an ``input`` or a ``join``."""

    kind: str
    x: str
    y: str
    base: str
    top: str = ""
    number: int = 0
    row: int = 0
    fill: str = "none"
    words: str = ""
    figure: str = ""
    name: str = ""
    op: str = ""


@dataclass(frozen=True)
class Graph:
    """The drawing. ``figure`` and ``name`` are where figures end and names begin; a line of ``lines`` leads from an item to another.

    ``meanings`` says what the marks stand for that occur, ``ramp`` holds the colours of the
    ``scale`` from its low to its high end, and ``sample`` one from its middle.
    """

    width: float
    height: float
    figure: str
    name: str
    scale: Scale | None
    ramp: tuple[str, ...]
    sample: str
    meanings: tuple[tuple[str, str], ...]
    lines: tuple[tuple[int, int | None, str], ...]
    items: tuple[Line, ...]


@dataclass(frozen=True)
class _Frame:
    """Where things are: the middle of every item's line, the distance of the lanes, where figures end and names begin."""

    middles: tuple[float, ...]
    pitch: float
    figure: float
    name: float

    def x(self, item: Item) -> float:
        return _EDGE + self.pitch * item.lane


def graph(rows: Sequence[LayerRecord], scale: Scale | None) -> Graph:
    """The drawing of a network; every row leads to its line in the table of layers."""
    items = arrange(rows)
    names = shorten_paths([printable(row.name) for row in rows], _NAME)
    ops = [shorten_end(printable(row.op), _OP) for row in rows]
    figures = [cell("upper", row) for row in rows]
    frame, height = _frame(items, max(map(_width, figures), default=0))
    texts = [*(f"{name}  {op}" for name, op in zip(names, ops, strict=True)), *map(_input_name, items)]
    kinds = {kind(row) for row in rows} | {item.kind for item in items}
    drawn = []
    for i, item in enumerate(items):
        y = frame.middles[i]
        where = (number(frame.x(item)), number(y), number(y + 4))
        if item.kind != "row":
            drawn.append(Line(item.kind, *where, name=_input_name(item)))
            continue
        row, log10 = rows[item.index], log10_figure(rows[item.index])
        fill = scale.colour(log10) if scale is not None and log10 is not None else "none"
        shown = (fill, words(row), figures[item.index], names[item.index], ops[item.index])
        drawn.append(Line(kind(row), *where, number(y - _LINE / 2), i, item.index + 1, *shown))
    return Graph(
        width=frame.name + max(map(_width, texts), default=0) * _CHARACTER + _EDGE,
        height=height,
        figure=number(frame.figure),
        name=number(frame.name),
        scale=scale,
        ramp=tuple(colour((i + 0.5) / _STEPS) for i in range(_STEPS)),
        sample=colour(0.5),
        meanings=tuple((key, meaning) for key, meaning in _MEANINGS.items() if key in kinds),
        lines=tuple(_lines(items, frame)),
        items=tuple(drawn),
    )


def _frame(items: Sequence[Item], characters: int) -> tuple[_Frame, float]:
    middles, top = [], 4.0
    for item in items:
        height = _JOIN if item.kind == "join" else _LINE
        middles.append(top + height / 2)
        top += height
    lanes = 1 + max((item.lane for item in items), default=0)
    pitch = min(_PITCH, _PITCH * _LANES / lanes)
    figure = 2 * _EDGE + pitch * (lanes - 1) + characters * _CHARACTER
    return _Frame(tuple(middles), pitch, figure, figure + _EDGE), top + 4


def _lines(items: Sequence[Item], frame: _Frame) -> Iterable[tuple[int, int | None, str]]:
    """Every value's lane down to where it is read last, and a bend from there to every row in another lane."""
    readers: dict[int, list[int]] = {}
    for i, item in enumerate(items):
        for source in item.reads:
            readers.setdefault(source, []).append(i)
    for source, targets in readers.items():
        x, end = frame.x(items[source]), frame.middles[source]
        for i in targets:
            if items[i].lane == items[source].lane:
                end = frame.middles[i]
                continue
            bend = max(frame.middles[source], frame.middles[i] - _LINE * 0.75)
            end = max(end, bend)
            across, below = number(frame.x(items[i])), number(frame.middles[i])
            path = f"M{number(x)} {number(bend)}C{number(x)} {below} {across} {number(bend)} {across} {below}"
            yield source, i, path
        if end > frame.middles[source]:
            yield source, None, f"M{number(x)} {number(frame.middles[source])}V{number(end)}"


def _input_name(item: Item) -> str:
    if item.kind != "input":
        return ""
    return "input" if item.name == "input" else f"input {shorten_end(printable(item.name), _NAME)}"


def _width(line: str) -> int:
    """The room that a line takes, in characters of the usual width."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" or ord(c) > 0x2E7F else 1 for c in line)
