"""The rows and columns that the table and the Markdown rendering show."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lipaudit.errors import UsageError
from lipaudit.escaping import printable
from lipaudit.records.report import LayerRecord
from lipaudit.text.figures import factor_text
from lipaudit.text.numbers import (
    log10_estimate_text,
    log10_upper_text,
    lower_bound_text,
    shape_text,
    share_text,
    upper_text,
)


@dataclass(frozen=True)
class Group:
    """Several rows below one module path, shown as one: their shares add up, their bounds do not and are not shown."""

    path: str
    layers: tuple[LayerRecord, ...]

    @property
    def label(self) -> str:
        """The module path with the number of rows that it stands for."""
        return f"{self.path} ({len(self.layers)} layer{'s' if len(self.layers) > 1 else ''})"

    @property
    def status(self) -> str:
        """The worst status among the rows, so that grouping hides no missing bound."""
        statuses = {layer.status for layer in self.layers}
        return next(status for status in ("unsupported", "unbounded", "finite") if status in statuses)

    @property
    def share(self) -> float | None:
        """The sum of the shares; None where a row has none."""
        shares = [layer.share for layer in self.layers if layer.share is not None]
        return math.fsum(shares) if len(shares) == len(self.layers) else None


Row = LayerRecord | Group


def group_rows(layers: Sequence[LayerRecord], depth: int | None) -> tuple[Row, ...]:
    """Rows whose path has at most ``depth`` components stay; deeper ones join one group per path of that length.

    Components are separated by dots or slashes, and a leading slash begins none: ``/block1/conv1/Conv`` has three. The
    path is the module's, or the shown name where that one has slashes (as in ONNX files) or there is no module. A group
    stands where its first row stood. ``depth=None`` keeps every row.

    >>> a, b = (LayerRecord(n, "conv2d", "convolution", (), "finite", module=n) for n in ("body.0.conv", "body.1"))
    >>> [row.label for row in group_rows((a, b), 1)]
    ['body (2 layers)']
    """
    if depth is None:
        return tuple(layers)
    groups: dict[str, list[LayerRecord]] = {}
    order: list[LayerRecord | str] = []
    for layer in layers:
        whole = layer.name if "/" in layer.name or not layer.module else layer.module
        parts = list(re.finditer(r"[^./]+", whole))
        if len(parts) <= depth:
            order.append(layer)
            continue
        path = whole[: parts[depth - 1].end()]
        if path not in groups:
            groups[path] = []
            order.append(path)
        groups[path].append(layer)
    return tuple(Group(entry, tuple(groups[entry])) if isinstance(entry, str) else entry for entry in order)


@dataclass(frozen=True)
class Column:
    """One column: ``cell`` is its text for a layer, ``floor`` the width below which it is not narrowed.

    Text columns (``numeric`` false) may be shortened down to their floor; for numeric ones the floor is the widest
    figure that occurs. No floor is below the width of the heading.
    """

    key: str
    cell: Callable[[LayerRecord], str]
    floor: int
    numeric: bool = False


def _upper(layer: LayerRecord) -> str:
    if layer.status != "finite" or layer.rigor is None:  # without a rigor there is no figure, the status is the answer
        return layer.status
    return factor_text(layer)


def _log10(layer: LayerRecord) -> str:
    if layer.status != "finite" or layer.rigor is None:
        return layer.status
    if layer.rigor == "estimate":
        return "~-inf" if layer.log10_estimate is None else f"~{log10_estimate_text(layer.log10_estimate)}"
    return "-inf" if layer.log10_upper_bound is None else log10_upper_text(layer.log10_upper_bound)


def _lower(layer: LayerRecord) -> str:
    return lower_bound_text(layer.lower_bound, layer.log10_lower_bound) if layer.status == "finite" else ""


def _ratio(layer: LayerRecord) -> str:
    return "" if layer.tightness is None or layer.status != "finite" else upper_text(layer.tightness)


def _share(layer: LayerRecord) -> str:
    return "" if layer.share is None else share_text(layer.share)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else shape_text(shape)


def _note(layer: LayerRecord) -> str:
    return "; ".join(filter(None, (layer.reason, layer.note)))


_ALL = (
    Column("layer", lambda r: r.name, 14),
    Column("op", lambda r: r.op, 6),
    Column("weight", lambda r: _shape(r.weight_shape), 8),
    Column("input", lambda r: _shape(r.input_size), 7),
    Column("geometry", lambda r: r.details, 8),
    Column("lower", _lower, 11, numeric=True),
    Column("upper", _upper, 11, numeric=True),
    Column("log10", _log10, 11, numeric=True),
    Column("ratio", _ratio, 10, numeric=True),
    Column("share", _share, 7, numeric=True),
    Column("rule", lambda r: r.rule, 6),
    Column("rigor", lambda r: r.rigor or "", 9),
    Column("status", lambda r: r.status, 11),
    Column("note", _note, 8),
    Column("reads", lambda r: ", ".join(r.inputs), 7),
    Column("folded", lambda r: ", ".join(r.folded), 8),
)
COLUMNS = {column.key: column for column in _ALL}
DEFAULT_COLUMNS = ("layer", "op", "weight", "input", "geometry", "lower", "upper", "ratio", "share")
SEPARATOR = 2


def default_columns(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns that are shown unless others are asked for.

    Without the shares where no row has one, and where figures are estimates without lower bounds and ratios that no row has.
    """
    shared = any(row.share is not None for row in rows)
    two_sided = not has_estimates(rows) or any(layer.tightness is not None for layer in _layers(rows))
    dropped = {"share"} if not shared else set()
    dropped |= {"lower", "ratio"} if not two_sided else set()
    return tuple(key for key in DEFAULT_COLUMNS if key not in dropped)


def has_estimates(rows: Sequence[Row]) -> bool:
    """Whether a figure among the rows is an estimate."""
    return any(layer.rigor == "estimate" for layer in _layers(rows))


def heading(key: str, rows: Sequence[Row]) -> str:
    """What a column is headed: its key, but ``figure`` for upper bounds among which there are estimates."""
    return "figure" if key == "upper" and has_estimates(rows) else key


def _layers(rows: Sequence[Row]) -> list[LayerRecord]:
    return [layer for row in rows for layer in (row.layers if isinstance(row, Group) else (row,))]


def parse_columns(text: str) -> tuple[str, ...]:
    """The column names in a comma-separated list; a :class:`~lipaudit.errors.UsageError` names an unknown one.

    >>> parse_columns("layer, upper")
    ('layer', 'upper')
    """
    keys = tuple(key.strip() for key in text.split(","))
    for key in keys:
        if key not in COLUMNS:
            raise UsageError(f"there is no column {key!r}; choose from {', '.join(COLUMNS)}")
    if len(set(keys)) < len(keys):
        raise UsageError(f"the list of columns {text!r} names one twice")
    return keys


def least_width(keys: Sequence[str]) -> int:
    """The width in characters below which a table with these columns would have to cut a figure."""
    return sum(COLUMNS[key].floor for key in keys) + SEPARATOR * (len(keys) - 1)


def cell(key: str, row: Row) -> str:
    """The text of one cell; of a group only its label, its share and a status other than finite are known."""
    if isinstance(row, LayerRecord):
        return printable(COLUMNS[key].cell(row))
    known = {
        "layer": row.label,
        "share": "" if row.share is None else share_text(row.share),
        "upper": "" if row.status == "finite" else row.status,
        "status": row.status,
    }
    return printable(known.get(key, ""))
