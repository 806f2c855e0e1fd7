"""Records as plain JSON values and back: every record of the project is a frozen dataclass that is written field by field.

A figure is written flat, under the keys of the :class:`FigureKeys` in the annotation of its field. Objects are open: keys that a record
does not know are ignored. What has another type than its field is refused, with its place; nothing is converted but whole numbers to
floats.
"""

from __future__ import annotations

import json
import math
import types
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from lipaudit.errors import UsageError
from lipaudit.records.figure import ESTIMATE, NUMERICAL, Figure, log10_of, value_of

T = TypeVar("T")
_TYPES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


class FieldTypeError(UsageError):
    """A field of a document has another type than it must have."""

    def __init__(self, where: str, wanted: str, value: object) -> None:
        super().__init__(f"{where} must be {wanted}, got {json.dumps(value)[:40]}")


class MissingFieldError(UsageError):
    """A document lacks a field."""

    def __init__(self, where: str, name: str) -> None:
        super().__init__(f"{where} lacks {name}: the file was cut, or is no file of lipaudit")


class FloatRangeError(UsageError):
    """A number of a document is beyond the range of floats."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} is too large for a float; constants beyond 1e308 belong in the log10 fields")


@dataclass(frozen=True)
class FigureKeys:
    """The keys of a JSON object that say together what one figure of it is.

    Attributes:
        value: the key of the figure in plain units.
        log10: the key of its decimal logarithm; None where that is not written.
        rigor: the key that says what the figure is worth, and is written with it; None where another figure of the record writes it.
        worth: the rigor where there is no such key; None for that of the key ``rigor``.
        estimates: the keys in the place of ``value`` and ``log10`` where the figure is an estimate; None where it has the same ones.
        upwards: whether the logarithm of a plain value is rounded up.
    """

    value: str
    log10: str | None = None
    rigor: str | None = None
    worth: str | None = None
    estimates: tuple[str, str] | None = None
    upwards: bool = True

    def encode(self, figure: Figure | None) -> dict[str, Any]:
        """The keys and what they say; all null where there is no figure."""
        keys = (self.value, self.log10)
        known = [key for key in (*keys, *(self.estimates or ()), self.rigor) if key is not None]
        entry: dict[str, Any] = dict.fromkeys(known)
        if figure is None:
            return entry
        value, log10 = self.estimates if self.estimates and figure.rigor == ESTIMATE else keys
        entry[value] = value_of(figure)
        if log10 is not None:
            entry[log10] = log10_of(figure)
        if self.rigor is not None:
            entry[self.rigor] = figure.rigor
        return entry

    def decode(self, entry: dict[str, Any], where: str) -> Figure | None:
        """The figure that the keys of an object describe; None where all of them are null or missing."""
        pairs = [(self.value, self.log10), *([self.estimates] if self.estimates else [])]
        for value_key, log10_key in pairs:
            value = _decode(float | None, entry.get(value_key), f"{where}.{value_key}")
            log10 = None if log10_key is None else _decode(float | None, entry.get(log10_key), f"{where}.{log10_key}")
            logarithm = log10 if log10 is not None else None if value is None else self._log10(value)
            if logarithm is not None:
                return Figure(logarithm, self._rigor(entry, where), value)
        return None

    def _log10(self, value: float) -> float:
        return Figure.of(value, upwards=self.upwards).log10

    def _rigor(self, entry: dict[str, Any], where: str) -> str:
        if self.worth is not None:
            return self.worth
        rigor = _decode(str | None, entry.get(self.rigor or "rigor"), f"{where}.{self.rigor or 'rigor'}")
        if rigor is None:
            raise MissingFieldError(where, self.rigor or "rigor")
        return NUMERICAL if rigor == ESTIMATE and not self.upwards else str(rigor)


def encode(record: object) -> dict[str, Any]:
    """A record as dictionaries and lists, its fields in their order."""
    entry: dict[str, Any] = {}
    for item in _layout(type(record)):  # type: ignore[arg-type]  # types are hashable
        value = getattr(record, item.name)
        if item.keys is not None:
            entry |= item.keys.encode(value)
        else:
            entry[item.name] = _plain(value)
    return entry


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return encode(value)
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def decode(cls: type[T], value: Any, where: str) -> T:
    """A record from its JSON, keys that it does not know ignored; ``where`` is how errors name the value.

    Raises :class:`~lipaudit.errors.UsageError` for what is missing or of another type, naming its place.
    """
    if not isinstance(value, dict):
        raise FieldTypeError(where, "an object", value)
    arguments = {}
    for item in _layout(cls):  # type: ignore[arg-type]  # types are hashable
        if item.keys is not None:
            arguments[item.name] = item.keys.decode(value, where)
        elif item.name in value:
            arguments[item.name] = _decode(item.hint, value[item.name], f"{where}.{item.name}")
        elif item.required:
            raise MissingFieldError(where, item.name)
    return cls(**arguments)


class _Item(NamedTuple):
    """A field of a record: its type, the keys of a figure, and whether it must be there."""

    name: str
    hint: Any
    keys: FigureKeys | None
    required: bool


@cache
def _layout(cls: type) -> tuple[_Item, ...]:
    """The fields of a record; a figure's keys stand in the annotation of its type."""
    hints = get_type_hints(cls, include_extras=True)
    items = []
    for item in fields(cls):
        keys = next((k for k in getattr(hints[item.name], "__metadata__", ()) if isinstance(k, FigureKeys)), None)
        required = item.default is MISSING and item.default_factory is MISSING
        items.append(_Item(item.name, hints[item.name], keys, required))
    return tuple(items)


def _decode(hint: Any, value: Any, where: str) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is types.UnionType:  # X | None
        return None if value is None else _decode(parts[0], value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise FieldTypeError(where, "an array", value)
        return tuple(_decode(parts[0], entry, f"{where}[{i}]") for i, entry in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise FieldTypeError(where, "an object", value)
        return {key: _decode(parts[1], entry, f"{where}.{key}") for key, entry in value.items()}
    if is_dataclass(hint):
        return decode(hint, value, where)  # type: ignore[arg-type]
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _float(value, where)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise FieldTypeError(where, _TYPES[hint], value)
    return value


def _float(value: int | float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise FloatRangeError(where)
    return number
