"""A certification as one picture: the accuracy that is certified, and that is left by the attack, over the radius (the extra ``plot``)."""

from __future__ import annotations

import io
from typing import Any

from lipaudit.escaping import printable
from lipaudit.formats.options import Options
from lipaudit.records.certification import Certification
from lipaudit.text.answer import short_title

_COLOUR, _SOFT = "#0b5f6b", "#767b82"


def png(found: Certification, _options: Options) -> bytes:
    """The picture as PNG."""
    return draw(found, "png")


def svg(found: Certification, _options: Options) -> str:
    """The picture as SVG."""
    return draw(found, "svg").decode("utf-8")


def draw(found: Certification, form: str) -> bytes:
    """The picture as the bytes of a ``png`` or ``svg`` file; the same certification gives the same bytes with the same matplotlib."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else {}
    with rc_context({"svg.hashsalt": "lipaudit", "text.usetex": False}):
        compose(found).savefig(buffer, format=form, dpi=110, metadata=metadata)
    return buffer.getvalue()


def compose(found: Certification) -> Any:
    """The figure of matplotlib that :func:`draw` saves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    figure.suptitle(printable(short_title(found.model)), fontsize="medium", parse_math=False)
    radii = [row.radius for row in found.curve]
    for name, style, values in curves(found):
        axes.plot(
            radii,
            values,
            label=name,
            drawstyle="steps-pre",
            color=_COLOUR if style == "solid" else _SOFT,
            linestyle=style,
        )
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, radii[-1])
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel(
        "l2 radius in pixels in [0, 1]" if found.settings.units == "pixels" else "l2 radius in the network's input"
    )
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize="small")
    return figure


def curves(found: Certification) -> list[tuple[str, str, list[float]]]:
    """Names, line styles and values of what is drawn, in the order of :attr:`~lipaudit.records.certification.Certification.curve`."""
    certified = [row.certified_accuracy for row in found.curve]
    attacked = [row.attacked_accuracy for row in found.curve]
    if any(value is None for value in certified):
        return [("certified decisions", "solid", [row.certified for row in found.curve])]
    drawn = [("certified accuracy", "solid", [value or 0.0 for value in certified])]
    if all(value is not None for value in attacked):
        drawn.append(("accuracy under attack", "dashed", [value or 0.0 for value in attacked]))
    return drawn
