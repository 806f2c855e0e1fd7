"""The rows from the first to the last: every factor, and how the network's figure builds up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lipaudit.formats.cumulative import Cumulative, cumulative
from lipaudit.formats.html.environment import number
from lipaudit.formats.html.rows import kind, log10_figure, words
from lipaudit.formats.html.scale import Scale
from lipaudit.records.report import AuditReport, LayerRecord

_WIDTH, _HEIGHT = 1000, 200  # as in templates/depth.html
_INTERVALS = 5  # between the lines of a chart, about

_HEADINGS = {
    "bound": "Bound of the network up to each row, on a logarithmic scale: the factors multiply",
    "share": "Share of the stretching up to each row: positive and negative shares add up",
}


@dataclass(frozen=True)
class Bar:
    """The bar of a row in a chart."""

    row: int
    kind: str
    words: str
    x: float
    width: float
    top: float
    height: float
    fill: str = ""


@dataclass(frozen=True)
class Chart:
    """Bars, or a line along ``path``, on horizontal ``lines`` (height, whether it is that of 0) with their ``labels``."""

    heading: str
    count: int
    lines: tuple[tuple[float, bool], ...]
    labels: tuple[str, ...]
    bars: tuple[Bar, ...] = ()
    path: str = ""


def charts(report: AuditReport, scale: Scale | None) -> list[Chart]:
    """One chart of the factors and, where it makes sense, one of their running product or sum; empty without figures."""
    if scale is None or len(report.layers) < 2:
        return []
    running = cumulative(report)
    return [_factors(report.layers, scale), *([_running(running)] if running is not None else [])]


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


def _factors(rows: Sequence[LayerRecord], scale: Scale) -> Chart:
    marks = ticks(min(0.0, scale.low), max(0.0, scale.high))
    width = _WIDTH / len(rows)
    bars = []
    for i, row in enumerate(rows):
        log10, what = log10_figure(row), kind(row)
        x, inner = i * width + width * 0.1, width * 0.8
        if what in ("unbounded", "unsupported"):
            bars.append(Bar(i + 1, what, words(row), x, inner, 0, _HEIGHT))
        elif log10 is not None:
            top, base = sorted((_y(max(log10, marks[0]), marks), _y(0.0, marks)))
            bars.append(Bar(i + 1, what, words(row), x, inner, top, max(base - top, 1), scale.colour(log10)))
    labels = tuple(f"10^{mark:g}" for mark in marks)
    return Chart("Factor of each row, on a logarithmic scale", len(rows), _lines(marks), labels, tuple(bars))


def _running(running: Cumulative) -> Chart:
    marks = ticks(min(0.0, *running.values), max(0.0, *running.values))
    width = _WIDTH / len(running.values)
    path = f"M0 {number(_y(0.0, marks))}"
    for i, value in enumerate(running.values):
        path += f"H{number((i + 0.5) * width)}V{number(_y(value, marks))}"
    labels = tuple(f"10^{mark:g}" if running.kind == "bound" else f"{mark * 100:g}%" for mark in marks)
    return Chart(_HEADINGS[running.kind], len(running.values), _lines(marks), labels, path=f"{path}H{_WIDTH}")


def _lines(marks: Sequence[float]) -> tuple[tuple[float, bool], ...]:
    return tuple((_y(mark, marks), mark == 0) for mark in marks)


def _y(value: float, marks: Sequence[float]) -> float:
    return _HEIGHT * (marks[-1] - value) / (marks[-1] - marks[0])
