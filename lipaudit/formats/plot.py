"""The report as one picture, drawn by matplotlib (the extra ``plot``) without a display.

Left every row's bounds over depth, right how the network's figure builds up. The same report gives the same bytes with the same
matplotlib: an SVG has neither a date nor random names.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

from lipaudit.escaping import printable
from lipaudit.formats.cumulative import cumulative
from lipaudit.formats.options import Audits, Options
from lipaudit.records.report import AuditReport, LayerRecord
from lipaudit.text.domain import place
from lipaudit.text.numbers import estimate_text, upper_bound_text
from lipaudit.text.shorten import shorten_end, shorten_paths

FORMS = ("png", "svg")
_SALT = "lipaudit"
_MOST_NAMES = 32  # rows that are named below the axes
_NAME = 28  # characters of a name
_TITLE = 100
_COLOUR, _SOFT = "#0b5f6b", "#767b82"
_MISSING = {"unbounded": "//", "unsupported": ".."}


def png(audits: Audits, _options: Options) -> bytes:
    """The picture of one report as PNG."""
    return draw(audits.reports[0], "png")


def svg(audits: Audits, _options: Options) -> str:
    """The picture of one report as SVG."""
    return draw(audits.reports[0], "svg").decode("utf-8")


def draw(report: AuditReport, form: str) -> bytes:
    """The picture as the bytes of a ``png`` or ``svg`` file."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else {}
    with rc_context({"svg.hashsalt": _SALT, "text.usetex": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # names may hold any character
        compose(report).savefig(buffer, format=form, dpi=110, metadata=metadata)
    return buffer.getvalue()


def compose(report: AuditReport) -> Any:
    """The figure of matplotlib that :func:`draw` saves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_title(report), fontsize="medium", parse_math=False)
    if not report.layers:
        figure.text(0.5, 0.45, "No operation of this network can stretch a perturbation.", ha="center")
        return figure
    found = cumulative(report)
    axes = figure.subplots(1, 2 if found is not None else 1, squeeze=False)[0]
    _rows(axes[0], report.layers)
    axes[0].set_title("Factor of each row", fontsize="medium")
    if found is not None:
        _running(axes[1], found.values, found.kind)
    for one in axes:
        _dress(one, report.layers)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize="small")
    return figure


def _title(report: AuditReport) -> str:
    """The model and its figure, which is never a number without being one."""
    network = report.network
    name = shorten_end(printable(report.model.spec), _TITLE)
    where = f"over {place(report.settings, network.domain)}"
    if network.status != "finite":
        return textwrap.fill(f"{name}: {network.status.upper()} {where}, no bound of the network", _TITLE)
    if network.rigor is None:
        return textwrap.fill(f"{name}: finite {where}", _TITLE)
    if network.rigor == "estimate":
        figure = estimate_text(network.estimate, network.log10_estimate)
        said = f"ESTIMATE ({printable(report.settings.method)}), no bound: {figure} {where}"
    else:
        said = f"at most {upper_bound_text(network.upper_bound, network.log10_upper_bound)} {where} ({network.rigor})"
    return textwrap.fill(f"{name}: {said}", _TITLE)


def _rows(axes: Any, rows: Sequence[LayerRecord]) -> None:
    """A bar from the lower to the upper bound of every row, other marks where there is one figure or none."""
    from matplotlib.ticker import FuncFormatter

    figures = {i: row.log10 for i, row in enumerate(rows, start=1) if row.status == "finite"}
    drawn = {i: log for i, log in figures.items() if log > -math.inf}
    bounds = [i for i in drawn if rows[i - 1].rigor != "estimate"]
    estimates = [i for i in drawn if rows[i - 1].rigor == "estimate"]
    lowers = {i: low for i in bounds if (low := rows[i - 1].log10_lower_bound) is not None}
    axes.axhline(0, color=_SOFT, linewidth=0.8)
    size = max(2.5, min(6.0, 300 / len(rows)))
    if lowers:
        axes.vlines(list(lowers), list(lowers.values()), [drawn[i] for i in lowers], color=_SOFT, linewidth=size * 0.6)
        axes.plot(list(lowers), list(lowers.values()), "_", color=_SOFT, markersize=size * 1.6, label="lower bound")
    if bounds:
        axes.plot(
            bounds, [drawn[i] for i in bounds], "_", color=_COLOUR, markersize=size * 1.6, mew=2, label="upper bound"
        )
    if estimates:
        style = {"markerfacecolor": "none", "markersize": size, "color": _COLOUR}
        axes.plot(estimates, [drawn[i] for i in estimates], "o", **style, label="estimate, no bound")
    zeros = [i for i, log in figures.items() if log == -math.inf and rows[i - 1].rigor is not None]
    if zeros:  # a logarithmic axis has no place for them
        axes.plot(zeros, [0.02] * len(zeros), "v", color=_COLOUR, transform=axes.get_xaxis_transform(), label="0")
    for status, hatch in _MISSING.items():
        places = [i for i, row in enumerate(rows, start=1) if row.status == status]
        for i in places:
            label = status if i == places[0] else "_nolegend_"
            axes.axvspan(
                i - 0.5, i + 0.5, facecolor="none", edgecolor="#333333", hatch=hatch, linewidth=0.5, label=label
            )
    axes.yaxis.set_major_formatter(FuncFormatter(_power))


def _running(axes: Any, values: Sequence[float], kind: str) -> None:
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    axes.step(
        [0.5, *range(1, len(values) + 1), len(values) + 0.5], [0.0, *values, values[-1]], where="post", color=_COLOUR
    )
    axes.axhline(0, color=_SOFT, linewidth=0.8)
    if kind == "bound":
        axes.set_title("Upper bound of the network up to each row", fontsize="medium")
        axes.yaxis.set_major_formatter(FuncFormatter(_power))
    else:
        axes.set_title("Share of the stretching up to each row", fontsize="medium")
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def _dress(axes: Any, rows: Sequence[LayerRecord]) -> None:
    """Names below the axis: of all rows, or of so many that they can be read."""
    step = -(-len(rows) // _MOST_NAMES)
    names = shorten_paths([printable(row.name) for row in rows], _NAME)
    axes.set_xticks(range(1, len(rows) + 1, step), names[::step], rotation=90, fontsize="x-small", parse_math=False)
    axes.set_xlim(0.5, len(rows) + 0.5)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _power(value: float, _position: int) -> str:
    return f"$10^{{{value:g}}}$"
