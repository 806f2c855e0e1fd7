"""The network as a drawing: one line per row, coloured by its factor, its values as lanes to the left of the names."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lipaudit.escaping import printable
from lipaudit.formats.columns import cell
from lipaudit.formats.html.lanes import Item, arrange
from lipaudit.formats.html.markup import number, text
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
_SHAPES = {
    "bound": '<circle class="mark" cx="{x}" cy="{y}" r="6" fill="{fill}"/>',
    "plain": '<circle class="mark hollow" cx="{x}" cy="{y}" r="5.5"/>',
    "estimate": '<circle class="mark hollow dashed" cx="{x}" cy="{y}" r="6"/><circle cx="{x}" cy="{y}" r="3" fill="{fill}"/>',
    "unbounded": '<path class="mark" d="M{x} {y}m-8 0l8-8 8 8-8 8z" fill="url(#unbounded)"/>',
    "unsupported": '<path class="mark" d="M{x} {y}m-6.5-6.5h13v13h-13z" fill="url(#unsupported)"/>',
    "join": '<circle class="join" cx="{x}" cy="{y}" r="3.5"/>',
}


@dataclass(frozen=True)
class _Frame:
    """Where things are: the middle of every item's line, the distance of the lanes, where figures end and names begin."""

    middles: tuple[float, ...]
    pitch: float
    figure: float
    name: float

    def x(self, item: Item) -> float:
        return _EDGE + self.pitch * item.lane


def draw(rows: Sequence[LayerRecord], scale: Scale | None) -> tuple[str, str]:
    """The legend, and the drawing as SVG; every row links to its line in the table of layers."""
    items = arrange(rows)
    names = shorten_paths([printable(row.name) for row in rows], _NAME)
    ops = [shorten_end(printable(row.op), _OP) for row in rows]
    figures = [cell("upper", row) for row in rows]
    frame, height = _frame(items, max(map(_width, figures), default=0))
    texts = [*(f"{name}  {op}" for name, op in zip(names, ops, strict=True)), *map(_input_name, items)]
    width = frame.name + max(map(_width, texts), default=0) * _CHARACTER + _EDGE
    lines = "".join(_lines(items, frame))
    marks = []
    for i, item in enumerate(items):
        if item.kind == "row":
            row = rows[item.index]
            marks.append(
                _row(i, item, row, (figures[item.index], names[item.index], ops[item.index]), frame, width, scale)
            )
        else:
            marks.append(_point(i, item, frame))
    svg = (
        f'<svg class="network" width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}">'
        f'<g class="lanes">{lines}</g>{"".join(marks)}</svg>'
    )
    return _legend({kind(row) for row in rows} | {item.kind for item in items}, scale), svg


def _legend(kinds: Collection[str], scale: Scale | None) -> str:
    """What the colours and the shapes say, for those that occur."""
    entries = []
    if scale is not None:
        steps = "".join(
            f'<rect x="{i * 5}%" width="5.2%" height="10" fill="{colour((i + 0.5) / 20)}"/>' for i in range(20)
        )
        entries.append(
            f'<li><span>10^{scale.low:g}</span><svg class="ramp" aria-hidden="true" height="10">{steps}</svg>'
            f"<span>10^{scale.high:g}</span> <span>factor, by its logarithm</span></li>"
        )
    entries += [f"<li>{_sample(key)} {meaning}</li>" for key, meaning in _MEANINGS.items() if key in kinds]
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _sample(key: str) -> str:
    return f'<svg class="sample" aria-hidden="true">{_SHAPES[key].format(x=10, y=10, fill=colour(0.5))}</svg>'


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


def _lines(items: Sequence[Item], frame: _Frame) -> Iterable[str]:
    """Every value's lane down to where it is read last, and a bend from there to every row in another lane."""
    readers: dict[int, list[int]] = {}
    for i, item in enumerate(items):
        for source in item.reads:
            readers.setdefault(source, []).append(i)
    for source, found in readers.items():
        x, end = frame.x(items[source]), frame.middles[source]
        for i in found:
            if items[i].lane == items[source].lane:
                end = frame.middles[i]
                continue
            bend = max(frame.middles[source], frame.middles[i] - _LINE * 0.75)
            end = max(end, bend)
            yield (
                f'<path data-f="{source}" data-t="{i}" d="M{number(x)} {number(bend)}'
                f"C{number(x)} {number(frame.middles[i])} {number(frame.x(items[i]))} {number(bend)}"
                f' {number(frame.x(items[i]))} {number(frame.middles[i])}"/>'
            )
        if end > frame.middles[source]:
            yield f'<path data-f="{source}" d="M{number(x)} {number(frame.middles[source])}V{number(end)}"/>'


def _row(
    i: int, item: Item, row: LayerRecord, texts: tuple[str, str, str], frame: _Frame, width: float, scale: Scale | None
) -> str:
    figure, name, op = map(text, texts)
    what, log10 = kind(row), log10_figure(row)
    fill = scale.colour(log10) if scale is not None and log10 is not None else "none"
    y = number(frame.middles[i])
    shape = _SHAPES[what].format(x=number(frame.x(item)), y=y, fill=fill)
    top, base = number(frame.middles[i] - _LINE / 2), number(frame.middles[i] + 4)
    return (
        f'<a href="#row-{item.index + 1}" data-i="{i}" class="{what}"><title>{text(words(row))}</title>'
        f'<rect class="hit" y="{top}" width="{number(width)}" height="{_LINE}"/>{shape}'
        f'<text class="figure" x="{number(frame.figure)}" y="{base}">{figure}</text>'
        f'<text x="{number(frame.name)}" y="{base}"><tspan class="name">{name}</tspan><tspan class="op" dx="10">{op}</tspan></text></a>\n'
    )


def _point(i: int, item: Item, frame: _Frame) -> str:
    x, y = number(frame.x(item)), number(frame.middles[i])
    if item.kind == "join":
        return _SHAPES["join"].format(x=x, y=y) + "\n"
    return (
        f'<path class="input" d="M{x} {y}m-6-4h12l-6 9z"/><text class="input" x="{number(frame.name)}" '
        f'y="{number(frame.middles[i] + 4)}">{text(_input_name(item))}</text>\n'
    )


def _input_name(item: Item) -> str:
    if item.kind != "input":
        return ""
    return "input" if item.name == "input" else f"input {shorten_end(printable(item.name), _NAME)}"


def _width(line: str) -> int:
    """The room that a line takes, in characters of the usual width."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" or ord(c) > 0x2E7F else 1 for c in line)
