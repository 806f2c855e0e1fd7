"""The rows and columns of a report's table, for every rendering that shows one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lipaudit.errors import UsageError
from lipaudit.escaping import printable
from lipaudit.formats import grid
from lipaudit.records.groups import Group, Row, layers_of, name_of
from lipaudit.records.report import LayerRecord
from lipaudit.text.figures import factor_text, group_factor_text
from lipaudit.text.numbers import (
    log10_estimate_text,
    log10_upper_text,
    lower_bound_text,
    quotient_text,
    shape_text,
    share_text,
)


@dataclass(frozen=True)
class Column:
    """One column of a report: ``cell`` is its text for a layer, ``floor`` the width below which it is not narrowed.

    Text columns (``numeric`` false) may be shortened down to their floor. ``of_group`` is the text for several rows
    together; by default what they have in common.
    """

    key: str
    cell: Callable[[LayerRecord], str]
    floor: int = 0
    numeric: bool = False
    of_group: Callable[[Group], str] | None = None

    def text(self, row: Row) -> str:
        """The text of the column's cell in one row, with what could drive a terminal escaped."""
        if isinstance(row, LayerRecord):
            return printable(self.cell(row))
        if self.of_group is not None:
            return printable(self.of_group(row))
        texts = {self.cell(layer) for layer in row.layers}
        return printable(texts.pop()) if len(texts) == 1 and (len(row.layers) == 1 or not self.numeric) else ""

    def in_grid(self, heading: str) -> grid.Column:
        """The column of a :class:`~lipaudit.formats.grid.Grid` that shows it."""
        if self.numeric:
            return grid.Column(heading, numeric=True)
        first = self.key == "layer"
        return grid.Column(
            heading, cut="middle" if first else "end", floor=self.floor, order=0 if first else 1, repeated=first
        )


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


def _tightness(layer: LayerRecord) -> str:
    return "" if layer.tightness is None or layer.status != "finite" else quotient_text(layer.tightness)


def _share(layer: LayerRecord) -> str:
    return "" if layer.share is None else share_text(layer.share)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else shape_text(shape)


def _status_or(text: Callable[[LayerRecord], str]) -> Callable[[Group], str]:
    """The text for a group: that of its only layer, or a status other than finite, which no group hides."""

    def of_group(group: Group) -> str:
        if len(group.layers) == 1:
            return text(group.layers[0])
        return "" if group.status == "finite" else group.status

    return of_group


def _blocks(group: Group) -> str:
    """The block of all rows, or how many there are; nothing where a row is in none."""
    blocks = list(dict.fromkeys(layer.block for layer in group.layers))
    if "" in blocks:
        return ""
    return blocks[0] if len(blocks) == 1 else f"{len(blocks)} blocks"


def _note(layer: LayerRecord) -> str:
    return "; ".join(filter(None, (layer.reason, layer.note)))


_ALL = (
    Column("layer", lambda r: r.name, 14, of_group=name_of),
    Column("op", lambda r: r.op, 6),
    Column("weight", lambda r: _shape(r.weight_shape), 8),
    Column("input", lambda r: _shape(r.input_size), 7),
    Column("geometry", lambda r: r.details, 8),
    Column("factor", _upper, numeric=True, of_group=group_factor_text),
    Column("lower", _lower, numeric=True),
    Column("upper", _upper, numeric=True, of_group=_status_or(_upper)),
    Column("log10", _log10, numeric=True, of_group=_status_or(_log10)),
    Column("tightness", _tightness, numeric=True),
    Column("share", _share, numeric=True, of_group=lambda g: "" if g.share is None else share_text(g.share)),
    Column("rule", lambda r: r.rule, 6),
    Column("rigor", lambda r: r.rigor or "", 9),
    Column("status", lambda r: r.status, 11, of_group=lambda g: g.status),
    Column("note", _note, 8),
    Column("reads", lambda r: ", ".join(r.inputs), 7),
    Column("folded", lambda r: ", ".join(r.folded), 8),
    Column("block", lambda r: r.block, 24, of_group=_blocks),  # it ends in a figure
)
COLUMNS = {column.key: column for column in _ALL}
FIRST_COLUMNS = ("layer", "op", "weight", "factor", "share", "block")
DEFAULT_COLUMNS = ("layer", "op", "weight", "input", "geometry", "lower", "upper", "tightness", "share", "block")
_OF_GROUPS = ("layer", "op", "weight", "input", "geometry", "factor", "share", "block")


def default_columns(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns that a whole table shows unless others are asked for: those in which a row has something to say.

    Groups of rows have a factor instead of bounds from both sides. Lower bounds of estimates alone are left out.
    """
    return filled(_OF_GROUPS if any(isinstance(row, Group) for row in rows) else DEFAULT_COLUMNS, rows)


def filled(keys: Sequence[str], rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns among ``keys`` in which some row has a text."""
    two_sided = not has_estimates(rows) or any(layer.tightness is not None for row in rows for layer in layers_of(row))
    return tuple(key for key in keys if (two_sided or key != "lower") and any(cell(key, row) for row in rows))


def has_estimates(rows: Sequence[Row]) -> bool:
    """Whether a figure among the rows is an estimate."""
    return any(layer.rigor == "estimate" for row in rows for layer in layers_of(row))


def heading(key: str, rows: Sequence[Row]) -> str:
    """What a column is headed: its key, but ``figure`` for upper bounds among which there are estimates."""
    return "figure" if key == "upper" and has_estimates(rows) else key


def parse_columns(text: str) -> tuple[str, ...]:
    """The column names in a comma-separated list; a :class:`~lipaudit.errors.UsageError` names an unknown one.

    >>> parse_columns("layer, upper")
    ('layer', 'upper')
    """
    keys = tuple(key.strip() for key in text.split(","))
    for key in keys:
        if key not in COLUMNS:
            raise UsageError(f"There is no column {key!r}; choose from {', '.join(COLUMNS)}")
    if len(set(keys)) < len(keys):
        raise UsageError(f"The list of columns {text!r} names one twice")
    return keys


def cell(key: str, row: Row) -> str:
    """The text of one cell of a layer or of a group."""
    return COLUMNS[key].text(row)


def rows_grid(rows: Sequence[Row], keys: Sequence[str]) -> grid.Grid:
    """The rows as a table with these columns."""
    columns = tuple(COLUMNS[key].in_grid(heading(key, rows)) for key in keys)
    return grid.Grid(columns, tuple(tuple(cell(key, row) for key in keys) for row in rows))
