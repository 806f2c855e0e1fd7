"""The rows from the first to the last: every factor, and how the network's figure builds up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lipaudit.formats.cumulative import Cumulative, cumulative
from lipaudit.formats.html.markup import number, text
from lipaudit.formats.html.rows import kind, log10_figure, words
from lipaudit.formats.html.scale import Scale
from lipaudit.records.report import AuditReport, LayerRecord

_WIDTH, _HEIGHT = 1000, 200
_INTERVALS = 5  # between the lines of a chart, about

_HEADINGS = {
    "bound": "Bound of the network up to each row, on a logarithmic scale: the factors multiply",
    "share": "Share of the stretching up to each row: positive and negative shares add up",
}


def render(report: AuditReport, scale: Scale | None) -> str:
    """One chart of the factors and, where it makes sense, one of their running product or sum; empty without figures."""
    if scale is None or len(report.layers) < 2:
        return ""
    charts = [_factors(report.layers, scale)]
    found = cumulative(report)
    if found is not None:
        charts.append(_running(found))
    return "".join(charts)


def ticks(low: float, high: float) -> list[float]:
    """Evenly spaced round numbers that enclose an interval, at most seven.

    >>> ticks(-0.3, 2.4)
    [-1.0, 0.0, 1.0, 2.0, 3.0]
    """
    rough = max(high - low, 1e-6) / _INTERVALS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10, 20) if unit * factor >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, max(last, first + 1) + 1)]


def _factors(rows: Sequence[LayerRecord], scale: Scale) -> str:
    marks = ticks(min(0.0, scale.low), max(0.0, scale.high))
    width = _WIDTH / len(rows)
    bars = []
    for i, row in enumerate(rows):
        log10, what = log10_figure(row), kind(row)
        x, inner = number(i * width + width * 0.1), number(width * 0.8)
        if what in ("unbounded", "unsupported"):
            shape = f'<rect class="outlined" x="{x}" y="0" width="{inner}" height="{_HEIGHT}" fill="url(#{what})"/>'
        elif log10 is None:
            continue
        else:
            top, base = sorted((_y(max(log10, marks[0]), marks), _y(0.0, marks)))
            style = f'fill="{scale.colour(log10)}"' if what == "bound" else 'class="hollow dashed"'
            shape = f'<rect x="{x}" y="{number(top)}" width="{inner}" height="{number(max(base - top, 1))}" {style}/>'
        bars.append(f'<a href="#row-{i + 1}" tabindex="-1"><title>{text(words(row))}</title>{shape}</a>\n')
    return _chart(
        "Factor of each row, on a logarithmic scale",
        marks,
        [f"10^{mark:g}" for mark in marks],
        "".join(bars),
        len(rows),
    )


def _running(found: Cumulative) -> str:
    marks = ticks(min(0.0, *found.values), max(0.0, *found.values))
    width = _WIDTH / len(found.values)
    path = f"M0 {number(_y(0.0, marks))}"
    for i, value in enumerate(found.values):
        path += f"H{number((i + 0.5) * width)}V{number(_y(value, marks))}"
    line = f'<path class="running" d="{path}H{_WIDTH}"/>'
    labels = [f"10^{mark:g}" if found.kind == "bound" else f"{mark * 100:g}%" for mark in marks]
    return _chart(_HEADINGS[found.kind], marks, labels, line, len(found.values))


def _y(value: float, marks: Sequence[float]) -> float:
    return _HEIGHT * (marks[-1] - value) / (marks[-1] - marks[0])


def _chart(heading: str, marks: Sequence[float], labels: Sequence[str], content: str, count: int) -> str:
    lines = "".join(
        f'<path class="{"zero" if mark == 0 else "grid"}" d="M0 {number(_y(mark, marks))}H{_WIDTH}"/>' for mark in marks
    )
    scale = "".join(f"<li>{label}</li>" for label in reversed(labels))
    return (
        f'<figure class="plot"><figcaption>{heading}</figcaption><div class="frame"><ol class="scale" aria-hidden="true">{scale}</ol>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{heading}">{lines}{content}</svg>'
        f'<p class="ends" aria-hidden="true"><span>row 1</span><span>row {count}</span></p></div></figure>\n'
    )
