"""Plots of a result as one PNG image, drawn by matplotlib (the extra ``plot``) without a display."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from lipaudit.experiments.result import Plot, Series

NO_MATPLOTLIB = "matplotlib is not installed, so that no plot was written: pip install 'lipaudit[plot]'"
_STYLES = ("-", "--", "-.", ":")


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(plots: Sequence[Plot], title: str) -> bytes:
    """The plots side by side, up to three in a row, as the bytes of a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(3, len(plots))
    rows = -(-len(plots) // columns)
    figure = Figure(figsize=(6 * columns, 4.5 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(textwrap.fill(title, 50 * columns), fontsize="medium")
    for position, plot in enumerate(plots):
        _draw_one(figure.add_subplot(rows, columns, position + 1), plot)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _draw_one(axes: Any, plot: Plot) -> None:
    for position, series in enumerate(plot.series):
        points = [i for i in range(len(series.x)) if _is_drawn(series, i, plot)]
        x = [series.x[i] for i in points]
        (line,) = axes.plot(
            x,
            [series.y[i] for i in points],
            label=series.label,
            linestyle=_STYLES[position % len(_STYLES)],
            marker="." if len(points) < 50 else "",
        )
        if series.low:
            edges = [series.low[i] for i in points], [series.high[i] for i in points]
            axes.fill_between(x, *edges, alpha=0.2, color=line.get_color())
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label)
    if len(plot.series) <= 12:
        axes.legend(fontsize="small")


def _is_drawn(series: Series, i: int, plot: Plot) -> bool:
    """A logarithmic axis has no place for 0."""
    return (series.x[i] > 0 or not plot.log_x) and (series.y[i] > 0 or not plot.log_y)
