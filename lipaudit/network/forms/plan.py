"""How a program is cut into segments, which space each lives in, and what one evaluation costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lipaudit.network.forms.chain import Chain, Scalar
from lipaudit.network.forms.filters import NotRepresentableError, as_filters
from lipaudit.network.forms.restrictions import with_restrictions
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.spaces import DenseSpace, Space, is_spatial
from lipaudit.network.forms.steps import Linear, Program, Slopes, Step, Tensor
from lipaudit.network.forms.symbol_space import SymbolSpace
from lipaudit.network.propagate import Propagation, Value, by_shortcut, combine, join_outputs, smaller
from lipaudit.rules.effect import Status


@dataclass(frozen=True)
class Limits:
    """How large a form may be: entries of a tensor in a dense segment, and positions of one per frequency; operations per evaluation."""

    entries: int
    positions: int
    work: float


def plan(program: Program, propagation: Propagation, limits: Limits) -> Chain | None:
    """The chain of segments of a program within limits, None if no part of it can have a form.

    A program whose tensors are all small is one dense segment. Any other is cut where a single tensor is alive: before every change of
    resolution, and behind every constraint on norms, which a diagonal form passes unchanged. What has no form keeps its constant.
    """
    dense = _dense_segment(program, limits)
    if dense is not None:
        return Chain([dense])
    parts: list[Segment | Scalar] = []
    pieces = list(_pieces(program))
    if len(pieces) < 2 and len(program.inputs) > 1:
        return None
    for piece in _grouped(pieces, limits):
        segment = _segment(piece, limits)
        parts.append(segment or Scalar(piece.outputs[0], piece.inputs[0], log_constant(piece, propagation)))
    return Chain(parts) if any(isinstance(part, Segment) for part in parts) else None


def _dense_segment(program: Program, limits: Limits) -> Segment | None:
    """The program as one segment on all entries of its tensors, None where that is too large."""
    space = DenseSpace()
    small = all(t.size <= limits.entries for t in program.tensors) and cost(program, space) <= limits.work
    return Segment(program, space) if small else None


def _segment(program: Program, limits: Limits) -> Segment | None:
    if len(program.outputs) != 1:
        return None
    dense = _dense_segment(program, limits)
    if dense is not None:
        return dense
    try:
        restricted = with_restrictions(program)
        space = SymbolSpace(restricted)
    except NotRepresentableError:
        return None
    if max(space.positions(t) for t in restricted.tensors) > limits.positions or cost(restricted, space) > limits.work:
        return None
    return Segment(restricted, space)


def _pieces(program: Program) -> Iterator[Program]:
    """The parts between places where a single tensor is alive, from the inputs on."""
    last_read = {source.name: position for position, step in enumerate(program.steps) for source in step.sources}
    for output in program.outputs:
        last_read[output.name] = len(program.steps)
    alive = {t.name for t in program.inputs}
    sources, steps = program.inputs, list[Step]()
    for position, step in enumerate(program.steps):
        steps.append(step)
        alive.add(step.output.name)
        alive = {name for name in alive if last_read.get(name, -1) > position}
        if alive == {step.output.name} and position + 1 < len(program.steps) and step.output not in program.outputs:
            yield Program(sources, (step.output,), tuple(steps))
            sources, steps = (step.output,), []
    yield Program(sources, program.outputs, tuple(steps))


def _grouped(pieces: list[Program], limits: Limits) -> Iterator[Program]:
    """Neighbouring pieces joined to segments, as long as they live in one space and are not too large for it."""
    current: list[Program] = []
    for piece in pieces:
        if current and not _joins(current, piece, limits):
            yield _join(current)
            current = []
        current.append(piece)
    yield _join(current)


def _join(pieces: list[Program]) -> Program:
    steps = tuple(step for piece in pieces for step in piece.steps)
    return Program(pieces[0].inputs, pieces[-1].outputs, steps)


def _joins(current: list[Program], piece: Program, limits: Limits) -> bool:
    if not isinstance(current[-1].steps[-1], Linear | Slopes):
        return False  # a cut behind a constraint on norms
    if _changes_resolution(piece):
        return False
    whole = _join([*current, piece])
    return _segment(whole, limits) is not None or (
        _segment(_join(current), limits) is None and _segment(piece, limits) is None
    )


def _changes_resolution(piece: Program) -> bool:
    """Whether a filter of the piece has a stride."""
    for step in piece.steps:
        if isinstance(step, Linear) and is_spatial(step.output) and all(is_spatial(s) for s in step.sources):
            try:
                if any(s > 1 for f in as_filters(step) for s in f.stride):
                    return True
            except NotRepresentableError:
                continue
    return False


def cost(program: Program, space: Space) -> float:
    """Floating-point operations of one evaluation: products, factorisations and solutions of the blocks that are alive.

    A complex operation counts as four.
    """
    unit = 4.0 if space.extends_by_zero else 1.0
    alive: dict[str, int] = {t.name: space.positions(t) for t in program.outputs}
    total = 0.0
    for step in reversed(program.steps):
        size = space.positions(step.output)
        alive.pop(step.output.name, None)
        batch = _batch(step.output, space)
        if isinstance(step, Linear):
            for source in step.sources:
                width = space.positions(source)
                total += (
                    batch * unit * 2 * size * width * min(size, 64)
                    if space.extends_by_zero
                    else 2.0 * size * size * width
                )
                alive[source.name] = width
            continue
        for source in step.sources:
            alive[source.name] = space.positions(source)
        around = sum(alive.values())
        total += batch * unit * (size**3 / 3 + size**2 * around + size * around**2)
    inputs = sum(space.positions(t) for t in program.inputs)
    return total + unit * 10 * inputs**3 * _batch(program.inputs[0], space)


def _batch(tensor: Tensor, space: Space) -> int:
    return space.frequencies if isinstance(space, SymbolSpace) and is_spatial(tensor) else 1


def log_constant(program: Program, propagation: Propagation) -> float:
    """log of the constant that the product rule gives a part of a network with one input, for all of its outputs together."""
    values: dict[str, Value] = {t.name: Value(Status.FINITE, 0.0) for t in program.inputs}
    for step in program.steps:
        node = step.node
        read: Mapping[str, Value] = {
            ref.name: values.get(ref.name, Value(Status.FINITE, -math.inf)) for ref in node.refs
        }
        values[step.output.name] = combine(propagation.effects[node.name], node, read)
        shortcut = propagation.shortcuts.get(node.name)
        if shortcut is not None and shortcut.source in values:
            values[step.output.name] = smaller(values[step.output.name], by_shortcut(shortcut, values))
    return join_outputs([values[t.name] for t in program.outputs]).log_upper
