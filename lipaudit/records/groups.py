"""Rows taken together: everything below one module path, or the equal layers of repeated blocks.

A group shows what can be claimed of its rows: the sum of their shares and the largest of their factors. The product of the factors
bounds the part only where the rows follow each other and nothing is added or joined between them; where a report proves that
(:func:`is_chain`), a group of consecutive rows has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lipaudit.records.report import AuditReport, LayerRecord

# Branches, and several outputs, move the network's figure away from the product of its rows by more than this (log10).
_SAME = 1e-6
_SEPARATORS = re.compile(r"([./])")
_STATUSES = ("unsupported", "unbounded", "finite")


@dataclass(frozen=True)
class Group:
    """Several rows shown as one.

    Args:
        path: the module path above them; or their common name with ``[0-3]`` or ``*`` for the numbers that differ.
        layers: the rows, in the order of the report.
        repeated: they are equal layers of repeated blocks (same operation, weight shape, input size and geometry).
        chain: they follow each other directly, so that the product of their factors bounds the part.
    """

    path: str
    layers: tuple[LayerRecord, ...]
    repeated: bool = False
    chain: bool = False

    @property
    def label(self) -> str:
        """The path with the number of rows that it stands for."""
        if self.repeated:
            return f"{self.path} ×{len(self.layers)}"
        return f"{self.path} ({len(self.layers)} layer{'s' if len(self.layers) > 1 else ''})"

    @property
    def status(self) -> str:
        """The worst status among the rows, so that grouping hides no missing bound."""
        statuses = {layer.status for layer in self.layers}
        return next(status for status in _STATUSES if status in statuses)

    @property
    def share(self) -> float | None:
        """The sum of the shares; None where a row has none."""
        shares = [layer.share for layer in self.layers if layer.share is not None]
        return math.fsum(shares) if len(shares) == len(self.layers) else None

    @property
    def largest(self) -> LayerRecord:
        """The row with the largest figure; the first of equal ones."""
        return max(self.layers, key=lambda layer: layer.log10)

    @property
    def log10_product(self) -> float | None:
        """log10 of the product of the factors, rounded up, where it bounds the part; minus infinity where it is 0."""
        if not self.chain or self.status != "finite":
            return None
        total = math.fsum(layer.log10 for layer in self.layers)
        return math.nextafter(total, math.inf) if math.isfinite(total) else total


Row = LayerRecord | Group


def layers_of(row: Row) -> tuple[LayerRecord, ...]:
    """The layers that a row stands for."""
    return row.layers if isinstance(row, Group) else (row,)


def name_of(row: Row) -> str:
    """What a row is called."""
    return row.label if isinstance(row, Group) else row.name


def group_by_path(layers: Sequence[LayerRecord], depth: int | None, chain: bool = False) -> tuple[Row, ...]:
    """Rows whose path has at most ``depth`` components stay; deeper ones join one group per path of that length.

    Components are separated by dots or slashes, and a leading slash begins none: ``/block1/conv1/Conv`` has three. The
    path is the module's, or the shown name where that one has slashes (as in ONNX files) or there is no module. A group
    stands where its first row stood. ``depth=None`` keeps every row. ``chain`` says that all layers follow each other directly.

    >>> a, b = (LayerRecord(n, "conv2d", "convolution", (), "finite", module=n) for n in ("body.0.conv", "body.1"))
    >>> [name_of(row) for row in group_by_path((a, b), 1)]
    ['body (2 layers)']
    """
    if depth is None:
        return tuple(layers)
    members: dict[str, list[int]] = {}
    order: list[LayerRecord | str] = []
    for position, layer in enumerate(layers):
        whole = layer.name if "/" in layer.name or not layer.module else layer.module
        parts = list(re.finditer(r"[^./]+", whole))
        if len(parts) <= depth:
            order.append(layer)
            continue
        path = whole[: parts[depth - 1].end()]
        if path not in members:
            members[path] = []
            order.append(path)
        members[path].append(position)
    return tuple(_part(entry, layers, members[entry], chain) if isinstance(entry, str) else entry for entry in order)


def _part(path: str, layers: Sequence[LayerRecord], positions: list[int], chain: bool) -> Group:
    consecutive = positions[-1] - positions[0] == len(positions) - 1
    return Group(path, tuple(layers[i] for i in positions), chain=chain and consecutive)


def group_repeated(layers: Sequence[LayerRecord]) -> tuple[Row, ...]:
    """Equal layers of repeated blocks as one group each, where their first row stood; every other row as it is.

    Equal are layers whose names differ only in whole numbers between dots or slashes, of the same operation, status, weight
    shape, input size and geometry.

    >>> rows = [LayerRecord(f"blocks.{i}.norm1", "layer_norm", "layer_norm", (), "finite") for i in range(12)]
    >>> [name_of(row) for row in group_repeated(rows)]
    ['blocks.[0-11].norm1 ×12']
    """
    kinds: dict[tuple[object, ...], list[LayerRecord]] = {}
    for layer in layers:
        kinds.setdefault(_kind(layer), []).append(layer)
    groups = {members[0].name: members for kind in kinds.values() for members in _runs(kind)}
    return tuple(
        groups[layer.name][0]
        if len(groups[layer.name]) == 1
        else Group(_common_name([m.name for m in groups[layer.name]]), tuple(groups[layer.name]), repeated=True)
        for layer in layers
        if layer.name in groups
    )


def _runs(kind: list[LayerRecord]) -> list[list[LayerRecord]]:
    """Equal layers in lists in which one number differs; rows without a bound stay together, whatever differs."""
    parts = [_SEPARATORS.split(layer.name) for layer in kind]
    numbers = [i for i in range(len(parts[0])) if len({part[i] for part in parts}) > 1]
    if len(numbers) <= 1 or kind[0].status != "finite":
        return [kind]

    def split(at: int) -> list[list[LayerRecord]]:
        runs: dict[tuple[str, ...], list[LayerRecord]] = {}
        for layer, part in zip(kind, parts, strict=True):
            runs.setdefault((*part[:at], *part[at + 1 :]), []).append(layer)
        return list(runs.values())

    return min(map(split, numbers), key=len)


def _kind(layer: LayerRecord) -> tuple[object, ...]:
    """What equal layers have in common. An operation without a bound has no size that matters."""
    pattern = tuple(None if part.isdigit() else part for part in _SEPARATORS.split(layer.name))
    if layer.status != "finite":
        return (pattern, layer.op, layer.status, layer.reason)
    return (pattern, layer.op, layer.status, layer.weight_shape, layer.input_size, layer.details)


def _common_name(names: Sequence[str]) -> str:
    """The names as one, with the numbers that differ.

    >>> _common_name(["a.0.b", "a.1.b", "a.2.b"]), _common_name(["a.0.b.1", "a.1.b.3"]), _common_name(["a.0", "a.4"])
    ('a.[0-2].b', 'a.*.b.*', 'a.[0,4]')
    """
    columns = list(zip(*(_SEPARATORS.split(name) for name in names), strict=True))
    differ = sum(len(set(column)) > 1 for column in columns)
    return "".join(
        column[0] if len(set(column)) == 1 else "*" if differ > 1 else f"[{','.join(_ranges(map(int, column)))}]"
        for column in columns
    )


def _ranges(numbers: Iterator[int]) -> list[str]:
    """Numbers as ranges.

    >>> _ranges(iter((0, 1, 2, 4, 6, 7)))
    ['0-2', '4', '6,7']
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]


def is_chain(report: AuditReport) -> bool:
    """Whether the network's rows follow each other and nothing is added or joined between them.

    A report says which rows a row reads, but not how their values are joined. A chain is recognised by its rows, each of which
    reads the one before and nothing else, and by its figure: the product of the rows' bounds is the network's.
    """
    network, rows = report.network, report.layers
    if network.log10_upper_bound is None or len(network.outputs) > 1 or len(report.model.input_shapes) > 1:
        return False
    if not rows or any(row.log10_upper_bound is None or len(row.inputs) != 1 for row in rows):
        return False
    names = [row.name for row in rows]
    follows = all(row.inputs == (before,) for row, before in zip(rows[1:], names, strict=False))
    starts = rows[0].inputs[0] not in names
    product = math.fsum(row.log10_upper_bound or 0.0 for row in rows)
    return follows and starts and abs(product - network.log10_upper_bound) <= _SAME * max(1.0, abs(product))
