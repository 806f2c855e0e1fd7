"""What one evaluation of a form costs: the sizes of its columns, followed through the elimination without any number."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.network.entrywise import returns_its_operand
from lipaudit.network.forms.elimination import replaces_first
from lipaudit.network.forms.filters import Filter
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Groups, Linear, Program, Slopes, Step
from lipaudit.network.forms.symbol_space import SymbolSpace

# A computer with 1e10 operations per second does so many of them while Python prepares a step.
_PER_STEP = 2e6
# Reading and writing a number of a tensor, an eigenvalue problem of size n, relative to n^3, and the way forward, relative to the way back.
_PER_NUMBER, _EIGENVALUES, _FORWARD = 8.0, 10.0, 1.1
# A dense convolution with more entries than this is applied to columns without being written out.
_WRITTEN_OUT = 2**22


@dataclass
class _Shapes:
    """Of which tensors a form has a diagonal or columns, for how many frequencies the columns of each, and how many there are."""

    sizes: dict[str, int]
    diagonals: set[str] = field(default_factory=set)
    columns: dict[str, int] = field(default_factory=dict)
    width: int = 0
    total: float = 0.0
    kept: int = 0
    """Numbers in the columns that are kept for the way forward."""
    largest: int = 0
    """The most numbers in columns at one time."""

    def replace(self, merged: str | None, unit: float) -> None:
        names = [*self.columns, *([merged] if merged is not None and merged not in self.columns else [])]
        size = sum(self.sizes[name] for name in names)
        batch = max(self.columns.values(), default=1)
        self.total += batch * unit * (size**2 * self.width + size**3) + _PER_NUMBER * batch * size**2
        self.columns = dict.fromkeys(names, batch)
        if merged is not None:
            self.diagonals.discard(merged)
        self.width = size


def cost(program: Program, space: Space, frequencies: int | None = None) -> float:
    """Floating-point operations of one value and gradient: products, factorisations and solutions with the columns that there are.

    A product of complex numbers and its sum count as four operations, of real ones as one.

    Args:
        frequencies: of how many frequencies, all by default.
    """
    return _followed(program, space, frequencies).total


def entries(program: Program, space: Space, *, kept: bool) -> int:
    """The numbers of one frequency's columns: all that are kept for the way forward, or the most at one time."""
    shapes = _followed(program, space, 1)
    return shapes.kept if kept else shapes.largest


def _followed(program: Program, space: Space, frequencies: int | None) -> _Shapes:
    unit = 4.0 if space.extends_by_zero else 1.0
    count = (space.frequencies if isinstance(space, SymbolSpace) else 1) if frequencies is None else frequencies
    shapes = _Shapes({tensor.name: space.positions(tensor) for tensor in program.tensors})
    shapes.diagonals.update(tensor.name for tensor in program.outputs)
    for step in reversed(program.steps):
        name = step.output.name
        if name not in shapes.diagonals and name not in shapes.columns:
            continue
        shapes.total += _PER_STEP
        if isinstance(step, Linear):
            _put_in(shapes, step, space, unit, count)
        else:
            _maximise(shapes, step, unit)
        numbers = shapes.width * sum(shapes.sizes[other] for other in shapes.columns)
        shapes.kept += numbers
        shapes.largest = max(shapes.largest, numbers)
    shapes.total *= _FORWARD
    size = sum(shapes.sizes[tensor.name] for tensor in program.inputs)
    batch = max(shapes.columns.values(), default=1)
    shapes.total += batch * unit * (size**2 * shapes.width + _EIGENVALUES * size**3)
    return shapes


def _put_in(shapes: _Shapes, step: Linear, space: Space, unit: float, count: int) -> None:
    name, sizes = step.output.name, shapes.sizes
    size, single = sizes[name], len(step.sources) == 1 and _acts_by_itself(step, 0, space)
    if name in shapes.diagonals and single:
        shapes.diagonals.discard(name)
        shapes.diagonals.add(step.sources[0].name)
    if name in shapes.diagonals:
        others = sum(sizes[other] for other in shapes.columns if other != name)
        after = others + sum(sizes[source.name] for source in step.sources if source.name not in shapes.columns)
        if replaces_first(shapes.width, size, others + size, after):
            shapes.replace(name, unit)
    batch = shapes.columns.pop(name, 0)
    added = size if name in shapes.diagonals else 0
    shapes.diagonals.discard(name)
    if not batch and not added:
        return
    for i, source in enumerate(step.sources):
        per_column, every = _map_cost(step, i, space)
        frequencies = max(batch, count if every else 1, shapes.columns.get(source.name, 0))
        shapes.total += frequencies * (unit * per_column + _PER_NUMBER * sizes[source.name]) * (shapes.width + added)
        shapes.columns[source.name] = frequencies
    shapes.width += added
    if shapes.width > sum(sizes[other] for other in shapes.columns):
        shapes.replace(None, unit)


def _maximise(shapes: _Shapes, step: Step, unit: float) -> None:
    name, size = step.output.name, shapes.sizes[step.output.name]
    batch = shapes.columns.pop(name, 0)
    diagonal = name in shapes.diagonals
    shapes.diagonals.discard(name)
    sources = [source.name for source in step.sources]
    if isinstance(step, Groups) and batch:
        shapes.width += size if diagonal else 0
        shapes.total += size**3 + batch * unit * size**2 * shapes.width
    if not batch or not isinstance(step, Groups):
        shapes.diagonals.update(sources)
    if not batch:
        return
    if isinstance(step, Slopes) and step.low + step.high != 0:
        shapes.columns[sources[0]] = max(batch, shapes.columns.get(sources[0], 0))
    shapes.total += batch * (unit * (size * shapes.width**2 + shapes.width**3) + _PER_NUMBER * size * shapes.width)
    for other, each in shapes.columns.items():
        shapes.columns[other] = max(batch, each)
        shapes.total += shapes.columns[other] * unit * shapes.sizes[other] * shapes.width**2
    if isinstance(step, Groups):
        shapes.columns[sources[0]] = max(batch, shapes.columns.get(sources[0], 0))
        shapes.width += size
    if not shapes.columns:
        shapes.width = 0


def _acts_by_itself(step: Linear, position: int, space: Space) -> bool:
    """Whether a map multiplies every position by a number of its own."""
    filter_ = _filter(step, position, space)
    if filter_ is not None:
        return filter_.kernel.dim() == 2 and not filter_.transposed and all(s == 1 for s in filter_.stride)
    return step.part is None and (returns_its_operand(step.node) or step.node.op == SCALE)


def _filter(step: Linear, position: int, space: Space) -> Filter | None:
    filters = space.filters(step) if isinstance(space, SymbolSpace) else None
    return None if filters is None else filters[position]


def _map_cost(step: Linear, position: int, space: Space) -> tuple[float, bool]:
    """Products per column, and whether every frequency has a matrix of its own."""
    source, output = space.positions(step.sources[position]), space.positions(step.output)
    filter_ = _filter(step, position, space)
    if filter_ is not None:
        every = len(filter_.offsets) > 1 or bool(filter_.offsets.any())
        if filter_.kernel.dim() == 2 and not filter_.transposed:
            return float(max(source, output)), every
        strided = any(s > 1 for s in filter_.stride)
        pairs = source * output
        aliases = 1 if strided else source // filter_.kernel.shape[0 if filter_.transposed else 1]
        return pairs / aliases, every
    node = step.node
    if node.op == SCALE or returns_its_operand(node) or step.part is not None:
        return float(output), False
    if node.op == CONVOLUTION and source * output > _WRITTEN_OUT:
        kernel = node.payload.kernel
        return float(max(source, output) * math.prod(kernel.shape[1:])), False
    if node.op in (CONVOLUTION, DENSE) or source * output <= _WRITTEN_OUT:
        return float(source * output), False
    return float(8 * (source + output)), False
