"""The order of the rows by every column: by the exact values of the record, never by what is shown of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from lipaudit.formats.columns import COLUMNS
from lipaudit.formats.html.rows import kind
from lipaudit.records.figure import Figure
from lipaudit.records.report import LayerRecord

_AFTER = {"bound": 0, "estimate": 0, "plain": 1, "unbounded": 2, "unsupported": 3}


def ranks(key: str, rows: Sequence[LayerRecord]) -> list[int]:
    """The position of every row in ascending order of a column; rows with equal values have the same.

    A row without a value comes first, a row without a bound after every bound.

    >>> ranks("layer", [LayerRecord(name, "linear", "dense", (), "finite") for name in ("b10", "b9", "a")])
    [2, 1, 0]
    """
    value = _VALUES.get(key) or (lambda row: _natural(COLUMNS[key].cell(row)))
    values = [value(row) for row in rows]
    position = {entry: place for place, entry in enumerate(sorted(set(values)))}
    return [position[entry] for entry in values]


def _natural(name: str) -> tuple[Any, ...]:
    """Text in the order in which people count: ``block2`` before ``block10``."""
    parts = re.split(r"([0-9]+)", name)
    counts = [digits.lstrip("0") for digits in (*parts[1::2], "")]
    pairs = tuple((part.casefold(), len(n), n) for part, n in zip(parts[::2], counts, strict=True))
    return (pairs, name)


def _size(shape: tuple[int, ...] | None) -> tuple[Any, ...]:
    return () if shape is None else (math.prod(shape), *shape)


def _exact(figure: Figure | None) -> tuple[float, float]:
    """Plain values among themselves; what no float holds is above or below them all, by its logarithm."""
    if figure is None:
        return (-2, 0.0)
    return (math.copysign(1, figure.log10), figure.log10) if figure.value is None else (0, figure.value)


def _optional(value: float | None) -> tuple[float, ...]:
    return () if value is None else (value,)


_VALUES: dict[str, Callable[[LayerRecord], tuple[Any, ...]]] = {
    "weight": lambda row: _size(row.weight_shape),
    "input": lambda row: _size(row.input_size),
    "lower": lambda row: _exact(row.lower),
    "upper": lambda row: (_AFTER[kind(row)], *_exact(row.figure)),
    "tightness": lambda row: _optional(row.tightness),
    "share": lambda row: _optional(row.share),
}
