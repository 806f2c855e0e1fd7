"""Plots of a result as one PNG image, drawn by matplotlib (the extra ``plot``) without a display.

One legend below all axes, so that it covers no curve. A label has the same colour and line style everywhere.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from typing import Any

from lipaudit.experiments.harness.result import Plot, Series

_STYLES = ("-", "--", "-.", ":")
_MOST_LABELS = 12
_BARS = 0.8  # width of the bars of one category


def draw(plots: Sequence[Plot], title: str) -> bytes:
    """The plots side by side, up to three in a row, as the bytes of a PNG file."""
    buffer = io.BytesIO()
    compose(plots, title).savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def compose(plots: Sequence[Plot], title: str) -> Any:
    """The figure of matplotlib that :func:`draw` saves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(3, len(plots))
    rows = -(-len(plots) // columns)
    figure = Figure(figsize=(6 * columns, 4.5 * rows + 0.8), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(textwrap.fill(title, 50 * columns), fontsize="medium")
    places = {label: i for i, label in enumerate(dict.fromkeys(s.label for plot in plots for s in plot.series))}
    handles: dict[str, Any] = {}
    for position, plot in enumerate(plots):
        axes = figure.add_subplot(rows, columns, position + 1)
        drawn = _bars(axes, plot, places) if plot.categories else _lines(axes, plot, places)
        _dress(axes, plot)
        if len(drawn) <= _MOST_LABELS:
            handles |= {label: handle for label, handle in drawn.items() if label not in handles}
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=2 * columns, fontsize="small"
    )
    return figure


def _lines(axes: Any, plot: Plot, places: dict[str, int]) -> dict[str, Any]:
    """One line per series, with a band where it has one."""
    handles = {}
    for series in plot.series:
        points = [i for i in range(len(series.x)) if _is_drawn(series, i, plot)]
        x = [series.x[i] for i in points]
        (handles[series.label],) = axes.plot(
            x,
            [series.y[i] for i in points],
            color=_colour(places[series.label]),
            linestyle=_STYLES[places[series.label] % len(_STYLES)],
            marker="." if len(points) < 50 else "",
        )
        if series.low:
            edges = [series.low[i] for i in points], [series.high[i] for i in points]
            axes.fill_between(x, *edges, alpha=0.2, color=_colour(places[series.label]))
    return handles


def _bars(axes: Any, plot: Plot, places: dict[str, int]) -> dict[str, Any]:
    """The bars of all series side by side at every category."""
    handles = {}
    width = _BARS / len(plot.series)
    for position, series in enumerate(plot.series):
        shift = (position + 0.5) * width - _BARS / 2
        x = [value + shift for value in series.x]
        handles[series.label] = axes.bar(x, series.y, width, color=_colour(places[series.label]))
    axes.set_xticks(range(len(plot.categories)), plot.categories)
    return handles


def _dress(axes: Any, plot: Plot) -> None:
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label)


def _colour(place: int) -> str:
    return f"C{place % 10}"


def _is_drawn(series: Series, i: int, plot: Plot) -> bool:
    """A logarithmic axis has no place for 0."""
    return (series.x[i] > 0 or not plot.log_x) and (series.y[i] > 0 or not plot.log_y)
