"""A comparison as text: tables for a terminal, Markdown, and tab-separated values.

Methods that do not fit beside each other stand in further blocks below. ``~`` marks an estimate, ``!`` a figure below the certified
lower bound of the layer, ``<`` one that is below it in its last digits only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lipaudit.escaping import escape_markdown, printable
from lipaudit.formats.grid import Column, Grid
from lipaudit.formats.options import DEFAULT, Options
from lipaudit.records.comparison import REFERENCE, Comparison, FigureRecord, MethodComparison
from lipaudit.text.answer import short_title
from lipaudit.text.lines import wrapped
from lipaudit.text.method import steps_text
from lipaudit.text.numbers import estimate_text, lower_bound_text, upper_bound_text
from lipaudit.text.summary import title

_BELOW, _BARELY = "!", "<"
Columns = dict[str, list[str]]


def table(found: Comparison, options: Options = DEFAULT) -> str:
    """What the methods say of the network, then of every layer, and what the marks mean."""
    width = options.layout.width
    lines = [*wrapped(short_title(found.model), width), "", "Networks", ""]
    lines += [_networks(found).terminal(width), ""]
    for head, grid in _layers(found, marked=True):
        lines += [head, "", grid.terminal(width), ""]
    for line in _explained(found):
        lines += wrapped(line, width, indent="  ")
    return "\n".join(lines)


def markdown(found: Comparison, _options: Options = DEFAULT) -> str:
    """The same content in GitHub-flavoured Markdown, every method in one table."""
    lines = [f"## Comparison of methods on {escape_markdown(title(found.model))}", ""]
    lines += ["### Networks", "", _networks(found).markdown(), ""]
    for head, grid in _layers(found):
        lines += [f"### {head}", "", grid.markdown(), ""]
    lines += [f"- {escape_markdown(line)}" for line in _explained(found)]
    return "\n".join(lines)


_TSV = (
    *(
        "model",
        "layer",
        "op",
        "weight_shape",
        "input_size",
        "details",
        "lower_bound",
        "upper_bound",
        "method",
        "outcome",
    ),
    *("figure", "log10_figure", "rigor", "below_lower_bound", "shortfall", "seconds", "reason"),
)
# columns that only rows of networks fill
_TSV_NETWORK = ("network_status", "ratio_to_ryu2019", "violations", "violations_in_last_digits", "worst_shortfall")


def tsv(found: Comparison, _options: Options = DEFAULT) -> str:
    """One row per layer and method with raw numbers, then one per method with the network's figure and an empty layer."""
    return Grid.of((*_TSV, *_TSV_NETWORK), _raw(found)).tsv()


def csv(found: Comparison, _options: Options = DEFAULT) -> str:
    """The same table as comma-separated values."""
    return Grid.of((*_TSV, *_TSV_NETWORK), _raw(found)).csv()


def _raw(found: Comparison) -> Iterable[tuple[object, ...]]:
    """The rows of the TSV."""
    for layer in found.layers:
        place = (layer.name, layer.op, layer.weight_shape, layer.input_size, layer.details)
        for f in layer.figures:
            figure = (f.method, f.outcome, f.figure, f.log10_figure, f.rigor, str(f.below_lower_bound).lower())
            last = (f.shortfall, f.seconds, f.reason, *(None for _ in _TSV_NETWORK))
            yield (found.model.spec, *place, layer.lower_bound, layer.upper_bound, *figure, *last)
    for m in found.methods:
        figures = (m.network_figure, m.log10_network_figure, m.network_rigor)
        blank = (None,) * 7
        last = tuple(getattr(m, name) for name in _TSV_NETWORK)
        yield (found.model.spec, *blank, m.name, None, *figures, None, None, m.seconds, m.reason, *last)


def _networks(found: Comparison) -> Grid:
    """One row per method: its figure of the network, and how its figures of the layers did."""
    return _grid({"method": [m.name for m in found.methods]}, {}, _summary(found))


def _layers(found: Comparison, marked: bool = False) -> Iterable[tuple[str, Grid]]:
    """The figures of every method in every layer, and the seconds that they took; with room for marks where they are ``marked``."""
    if not found.layers:
        return
    names = {"layer": [layer.name for layer in found.layers]}
    notes = _notes(found)
    bounds = {
        "lower": [lower_bound_text(layer.lower_bound, layer.log10_lower_bound) for layer in found.layers],
        "upper": [upper_bound_text(layer.upper_bound, layer.log10_upper_bound) for layer in found.layers],
    }
    figures = _by_method(found, lambda figure: _cell(figure, notes))
    if marked:
        figures = {key: _with_room(cells) for key, cells in figures.items()}
    yield "Figures", _grid(names, bounds, figures)
    seconds = _by_method(found, lambda f: _seconds(f.seconds) if f.outcome == "measured" else "")
    yield "Seconds", _grid(names, {"bounds": [_seconds(layer.seconds) for layer in found.layers]}, seconds)


def _grid(names: Columns, repeated: Columns, others: Columns) -> Grid:
    """A table whose first column is a name; that one and those ``repeated`` stand in every block."""
    columns = (
        *(Column(key, cut="middle", floor=20, repeated=True) for key in names),
        *(Column(key, numeric=True, repeated=True) for key in repeated),
        *(Column(key, numeric=True) for key in others),
    )
    return Grid(columns, tuple(zip(*names.values(), *repeated.values(), *others.values(), strict=True)))


def _by_method(found: Comparison, text: Callable[[FigureRecord], str]) -> Columns:
    return {printable(m.name): [text(layer.figures[i]) for layer in found.layers] for i, m in enumerate(found.methods)}


def _cell(figure: FigureRecord, notes: Sequence[str]) -> str:
    if figure.outcome == "undefined":
        return f"n/a [{notes.index(figure.reason) + 1}]"
    if figure.outcome == "skipped":
        return "skipped"
    mark = "" if not figure.below_lower_bound else _BARELY if figure.in_last_digits else _BELOW
    return _said(figure.figure, figure.log10_figure, figure.rigor) + mark


def _said(value: float | None, log10: float | None, rigor: str | None) -> str:
    return estimate_text(value, log10) if rigor == "estimate" else upper_bound_text(value, log10)


def _notes(found: Comparison) -> list[str]:
    """Why methods have no figure, each reason once."""
    figures = [figure for layer in found.layers for figure in layer.figures]
    return list(dict.fromkeys(figure.reason for figure in figures if figure.outcome == "undefined"))


def _summary(found: Comparison) -> Columns:
    methods, layers = found.methods, len(found.layers)
    reference = next((m for m in methods if m.name == REFERENCE), None)
    ratios = {f"/ {REFERENCE}": [_ratio(m, reference) for m in methods]} if reference is not None else {}
    return {
        "network": [_network(m) for m in methods],
        **ratios,
        "rigor": [m.network_rigor or "" for m in methods],
        "below": [f"{m.violations} of {m.measured}" for m in methods],
        "by <1e-6": [str(m.violations_in_last_digits) if m.violations else "" for m in methods],
        "worst": [_percent(m.worst_shortfall) for m in methods],
        "measured": [f"{m.measured} of {layers}" for m in methods],
        "seconds": [_seconds(m.seconds) for m in methods],
    }


def _network(m: MethodComparison) -> str:
    if m.network_status != "finite":
        return m.network_status
    return _said(m.network_figure, m.log10_network_figure, m.network_rigor)


def _ratio(m: MethodComparison, reference: MethodComparison) -> str:
    """The ratio of two figures, an estimate where one of them is."""
    text = estimate_text(m.ratio_to_ryu2019, None)
    return text if "estimate" in (m.network_rigor, reference.network_rigor) else text[1:]


def _percent(shortfall: float | None) -> str:
    """A part of the whole below it in percent, two significant digits."""
    if shortfall is None:
        return ""
    percent = 100 * shortfall
    return f"-{percent:.0f}%" if percent >= 10 else f"-{percent:.2g}%"


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _explained(found: Comparison) -> Iterable[str]:
    """What the marks mean, and what is missing."""
    if not found.layers:
        yield "The network has no convolution and no dense layer with constant weights, so there is nothing to compare by layers."
    yield (
        "~ marks an estimate, ! a figure below the certified lower bound of its layer, which is provably no bound, < one that is below it "
        "in the last digits only. `lipaudit explain compare` says what the columns are."
    )
    if any(m.name == REFERENCE for m in found.methods):
        yield f"/ {REFERENCE}: the figure of the network over that of {REFERENCE}, to the nearest; ~ where one of them is an estimate."
    for number, reason in enumerate(_notes(found), start=1):
        yield printable(f"n/a [{number}]: {reason}.")
    if any(m.skipped or m.network_status == "skipped" for m in found.methods):
        yield (
            f"skipped: the method had used up its {found.settings.time_limit:g} s (--time-limit), so the network has no figure."
        )
    for m in found.methods:
        if m.network_status in ("unbounded", "unsupported"):
            yield printable(f"{m.name}: no figure for the network, {m.network_status} at {m.reason}.")
    for m in found.methods:
        steps = "" if m.iterations is None else f", {steps_text(m.iterations)}"
        yield printable(f"{m.name}: {m.reference}{steps}; {m.claim}.")
    yield from map(printable, found.notes)


def _with_room(cells: list[str]) -> list[str]:
    """Room for the mark behind the figures of a column in which one has it, so that digits stay below each other."""
    marks = (_BELOW, _BARELY)
    marked = any(cell.endswith(marks) for cell in cells)
    return [cell if cell.endswith(marks) or not marked else f"{cell} " for cell in cells]
