"""What one evaluation of a form costs: the sizes of its columns, followed through the elimination without any number."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.network.entrywise import returns_its_operand
from lipaudit.network.forms.elimination import replaces_first
from lipaudit.network.forms.filters import Filter, is_pool
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Groups, Linear, Program, Slopes, Step
from lipaudit.network.forms.symbol_space import SymbolSpace

# A computer with 1e10 operations per second does so many of them while Python prepares a step, and a segment.
_PER_STEP, _PER_SEGMENT = 2e6, 5e6
# Reading and writing a number of a tensor, and the way forward, relative to the way back.
_PER_NUMBER, _FORWARD = 6.0, 1.1
# An eigenvalue problem of size n takes some n^3 and n^2; an iteration on columns some products, and a factorisation of these.
_EIGENVALUES, _SMALL_EIGENVALUES, _ITERATION, _SMALL_ITERATION = 4.0, 150.0, 16.0, 1e5
# What is done with the positions of a diagonal: their largest few are vectors that are carried forward.
_PER_POSITION = 200.0
# A dense convolution with more entries than this is applied to columns without being written out.
_WRITTEN_OUT = 2**22
ALL_EIGENVALUES = 2e8
"""Of matrices with at most so many frequencies times size^3 all eigenvalues are computed, of others the leading ones."""


@dataclass
class _Shapes:
    """Of which tensors a form has a diagonal or columns, for how many frequencies each of them, and how many columns there are."""

    sizes: dict[str, int]
    diagonals: dict[str, int] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    width: int = 0
    products: float = 0.0
    """Products and sums of matrices, counted as :func:`cost` does."""
    numbers: float = 0.0
    """Numbers of tensors that are read and written, and frequencies times steps."""
    steps: int = 0
    kept: int = 0
    """Numbers in the columns that are kept for the way forward."""
    largest: int = 0
    """The most numbers in columns at one time."""

    def replace(self, merged: str | None) -> None:
        names = [*self.columns, *([merged] if merged is not None and merged not in self.columns else [])]
        size = sum(self.sizes[name] for name in names)
        batch = max((*self.columns.values(), self.diagonals.get(merged or "", 1)), default=1)
        self.products += _numbers(batch) * (size**2 * self.width + size**3)
        self.numbers += _numbers(batch) * size * (size + self.width)
        self.columns = dict.fromkeys(names, batch)
        if merged is not None:
            self.diagonals.pop(merged, None)
        self.width = size

    @property
    def total(self) -> float:
        """Everything as operations."""
        return self.products + _PER_NUMBER * self.numbers + _PER_STEP * self.steps + _PER_SEGMENT

    def join(self, name: str, batch: int) -> None:
        """A tensor gets a diagonal for so many frequencies."""
        self.diagonals[name] = max(batch, self.diagonals.get(name, 1))


def cost(program: Program, space: Space, frequencies: int | None = None) -> float:
    """Floating-point operations of one value and gradient: products, factorisations and solutions with the columns that there are.

    A product of complex numbers and its sum count as four operations, of real ones as one. A form that is the same at every
    frequency is real.

    Args:
        frequencies: of how many frequencies, all by default.
    """
    return _followed(program, space, frequencies).total


def entries(program: Program, space: Space, *, kept: bool) -> int:
    """The numbers of one frequency's columns: all that are kept for the way forward, or the most at one time."""
    shapes = _followed(program, space, 1)
    return shapes.kept if kept else shapes.largest


def _followed(program: Program, space: Space, frequencies: int | None) -> _Shapes:
    count = (space.frequencies if isinstance(space, SymbolSpace) else 1) if frequencies is None else frequencies
    shapes = _Shapes({tensor.name: space.positions(tensor) for tensor in program.tensors})
    shapes.diagonals.update({tensor.name: 1 for tensor in program.outputs})
    for step in reversed(program.steps):
        name = step.output.name
        if name not in shapes.diagonals and name not in shapes.columns:
            continue
        shapes.steps += 1
        if isinstance(step, Linear):
            _put_in(shapes, step, space, count)
        else:
            _maximise(shapes, step)
        numbers = shapes.width * sum(shapes.sizes[other] for other in shapes.columns)
        shapes.kept += numbers
        shapes.largest = max(shapes.largest, numbers)
    shapes.products *= _FORWARD
    size = sum(shapes.sizes[tensor.name] for tensor in program.inputs)
    batch = max((*shapes.columns.values(), *shapes.diagonals.values()), default=1)
    if not shapes.columns:
        shapes.products += _numbers(batch) * size * _PER_POSITION
        return shapes
    narrow = not shapes.diagonals and shapes.width < size
    shapes.products += _numbers(batch) * size * shapes.width * (shapes.width if narrow else size)
    size = shapes.width if narrow else size
    if batch * size**3 <= ALL_EIGENVALUES:
        shapes.products += (
            2 * batch * math.sqrt(_numbers(batch) / batch) * (_EIGENVALUES * size**3 + _SMALL_EIGENVALUES * size**2)
        )
    else:
        shapes.products += _numbers(batch) * _ITERATION * size**2 + batch * _SMALL_ITERATION
    shapes.numbers += _numbers(batch) * size * (size + shapes.width)
    return shapes


def _put_in(shapes: _Shapes, step: Linear, space: Space, count: int) -> None:
    name, sizes = step.output.name, shapes.sizes
    size, single = sizes[name], len(step.sources) == 1 and _acts_by_itself(step, 0, space)
    if name in shapes.diagonals and single:
        every = _map_cost(step, 0, space)[1]
        shapes.join(step.sources[0].name, max(shapes.diagonals.pop(name), count if every else 1))
    if name in shapes.diagonals:
        others = sum(sizes[other] for other in shapes.columns if other != name)
        after = others + sum(sizes[source.name] for source in step.sources if source.name not in shapes.columns)
        if replaces_first(shapes.width, size, others + size, after):
            shapes.replace(name)
    added = size if name in shapes.diagonals else 0
    batch = max(shapes.columns.pop(name, 0), shapes.diagonals.pop(name, 0))
    if not batch:
        return
    for i, source in enumerate(step.sources):
        per_column, every = _map_cost(step, i, space)
        frequencies = max(batch, count if every else 1, shapes.columns.get(source.name, 0))
        shapes.products += _numbers(frequencies) * per_column * (shapes.width + added)
        shapes.numbers += _numbers(frequencies) * (sizes[source.name] + size) * (shapes.width + added)
        shapes.columns[source.name] = frequencies
    shapes.width += added
    if shapes.width > sum(sizes[other] for other in shapes.columns):
        shapes.replace(None)


def _maximise(shapes: _Shapes, step: Step) -> None:
    name, size = step.output.name, shapes.sizes[step.output.name]
    columns, diagonal = shapes.columns.pop(name, 0), shapes.diagonals.pop(name, 0)
    batch = max(columns, diagonal)
    sources = [source.name for source in step.sources]
    if isinstance(step, Groups) and columns:
        shapes.width += size if diagonal else 0
        shapes.products += size**3 + _numbers(batch) * size**2 * shapes.width
    if not columns or not isinstance(step, Groups):
        for source in sources:
            shapes.join(source, diagonal if isinstance(step, Slopes) else 1)
    if not columns:
        return
    if isinstance(step, Slopes) and not step.is_odd:
        shapes.columns[sources[0]] = max(batch, shapes.columns.get(sources[0], 0))
    shapes.products += _numbers(batch) * (size * shapes.width**2 + shapes.width**3)
    shapes.numbers += _numbers(batch) * (size + shapes.width) * shapes.width
    for other, each in shapes.columns.items():
        shapes.columns[other] = max(batch, each)
        shapes.products += _numbers(shapes.columns[other]) * shapes.sizes[other] * shapes.width**2
        shapes.numbers += _numbers(shapes.columns[other]) * shapes.sizes[other] * shapes.width
    if isinstance(step, Groups):
        shapes.columns[sources[0]] = max(batch, shapes.columns.get(sources[0], 0))
        shapes.width += size
    if not shapes.columns:
        shapes.width = 0


def _numbers(frequencies: int) -> float:
    """How many products of real numbers stand for a product at so many frequencies: four for complex ones, of one frequency one."""
    return 4.0 * frequencies if frequencies > 1 else 1.0


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
    if is_pool(step) and isinstance(space, SymbolSpace):
        return float(output), True
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
