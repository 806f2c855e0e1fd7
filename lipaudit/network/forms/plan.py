"""How a program is cut into segments, and which space each lives in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lipaudit.network.forms.chain import Chain, Scalar
from lipaudit.network.forms.cost import cost, entries
from lipaudit.network.forms.filters import NotRepresentableError, as_filters
from lipaudit.network.forms.part_constant import log_constant
from lipaudit.network.forms.restrictions import with_restrictions
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.spaces import DenseSpace, channels, is_spatial
from lipaudit.network.forms.steps import Bounded, Linear, Program, Slopes, Step
from lipaudit.network.forms.symbol_space import SymbolSpace
from lipaudit.network.propagate import Propagation


@dataclass(frozen=True)
class Limits:
    """How large forms may be: entries of a tensor in a dense segment, and operations of one evaluation of all segments."""

    entries: int
    work: float


# Columns of one frequency take no more numbers than this.
_MOST_ENTRIES = 60_000_000
# A segment has forms on all entries, where its tensors are small, if they take at most this part of the work, or less than per frequency.
_DENSE = 8


def plan(program: Program, propagation: Propagation, limits: Limits, *, across: bool = False) -> Chain | None:
    """The chain of segments of a program within limits, None if no part of it can have a form.

    A program whose tensors are all small is one dense segment, unless convolutions with circular padding are to be cut first. Any
    other is cut where a single tensor is alive: at the narrowest tensor before every change of resolution (unless segments may go
    ``across``, where the aliases of frequencies stay coupled), and behind every constraint on norms, which a diagonal form passes
    unchanged. What has no form keeps its constant, and so do the segments that gain least for what they cost where all of them together
    are not within the limits.

    A constraint on the norm of a whole tensor that is alive alone cuts a program of small tensors as well: within a segment the bound
    would depend on its multiplier only, whatever the others are.
    """
    pieces = [_Piece.of(piece, limits) for piece in _pieces(program)]
    if any(piece.periodic for piece in pieces):
        pieces = [piece.by_frequency() for piece in pieces]
    dense = _dense_segment(program, limits)
    by_entries = dense is not None and not _rests_on_norms(program)
    if dense is not None and by_entries and (across or not any(piece.periodic for piece in pieces)):
        return Chain([dense])
    if len(pieces) < 2 and len(program.inputs) > 1:
        return None
    parts: list[Segment | Scalar] = []
    for group in _grouped(pieces, across=across):
        if group[0].kind is None:
            parts.append(_scalar(_join(group), propagation))
        else:
            parts.extend(_within(group, propagation, limits))
    parts = list(_with_joined_constants(_affordable(parts, propagation, limits), propagation))
    return Chain(parts) if any(isinstance(part, Segment) for part in parts) else None


def _rests_on_norms(program: Program) -> bool:
    """Whether all that is alive at some place goes through one constant."""
    if len(program.inputs) != 1 or len(program.outputs) != 1:
        return False
    return any(
        len(piece.steps) == 1 and isinstance(piece.steps[0], Bounded) and len(piece.steps[0].sources) == 1
        for piece in _pieces(program)
    )


def _within(group: list[_Piece], propagation: Propagation, limits: Limits) -> Iterator[Segment | Scalar]:
    """Pieces as one segment, or as several where that is too large, cut at the narrowest tensor that is nearest to the middle."""
    segment = _segment(_join(group), limits)
    if segment is not None or len(group) == 1:
        yield segment or _scalar(_join(group), propagation)
        return
    count = len(group)
    large = next((i for i, piece in enumerate(group) if _segment(piece.program, limits) is None), None)
    if large is not None:  # it keeps its constant, whatever is joined with it
        for part in (group[:large], group[large : large + 1], group[large + 1 :]):
            if part:
                yield from _within(part, propagation, limits)
        return
    cut = min(range(1, count), key=lambda i: (group[i - 1].width, abs(2 * i - count)))
    yield from _within(group[:cut], propagation, limits)
    yield from _within(group[cut:], propagation, limits)


def _scalar(program: Program, propagation: Propagation) -> Scalar:
    return Scalar(program, log_constant(program, propagation))


def _affordable(parts: list[Segment | Scalar], propagation: Propagation, limits: Limits) -> list[Segment | Scalar]:
    """The parts that are within the limits together: of the segments that gain least per operation only the pieces that are.

    A piece that is not keeps its constant.

    What a segment may gain is taken to grow with its constraints, each of which a product of constants passes at its worst, and one
    more for the weights at its ends.
    """
    kept, remaining = _best([part for part in parts if isinstance(part, Segment)], limits.work)
    pieces = {
        part: [_segment(piece, limits) or _scalar(piece, propagation) for piece in _pieces(part.program)]
        for part in parts
        if isinstance(part, Segment) and part not in kept
    }
    within, _ = _best([piece for split in pieces.values() for piece in split if isinstance(piece, Segment)], remaining)
    result: list[Segment | Scalar] = []
    for part in parts:
        if part not in pieces or not within.intersection(pieces[part]):
            result.append(_scalar(part.program, propagation) if part in pieces else part)
        else:
            result.extend(piece if piece in within else _scalar(piece.program, propagation) for piece in pieces[part])
    return result


def _with_joined_constants(parts: list[Segment | Scalar], propagation: Propagation) -> Iterator[Segment | Scalar]:
    """The parts with one constant in the place of neighbouring ones: weights between them gain nothing."""
    for constant, run in itertools.groupby(parts, lambda part: isinstance(part, Scalar)):
        first, *others = run
        if constant and others:
            steps = tuple(step for part in (first, *others) for step in part.program.steps)
            yield _scalar(Program(first.program.inputs, others[-1].program.outputs, steps), propagation)
        else:
            yield from (first, *others)


def _best(segments: list[Segment], work: float) -> tuple[set[Segment], float]:
    """The segments that gain most per operation and are within an amount of work together, and what of that they leave."""
    costs = {segment: cost(segment.program, segment.space) for segment in segments}
    kept = set[Segment]()
    for segment in sorted(segments, key=lambda segment: -(len(segment.constraints) + 1) / costs[segment]):
        if costs[segment] <= work:
            work -= costs[segment]
            kept.add(segment)
    return kept, work


@dataclass(frozen=True, eq=False)
class _Piece:
    """A part of a program between places where a single tensor is alive, and the space that it has forms in, whatever they cost."""

    program: Program
    kind: type[DenseSpace | SymbolSpace] | None
    spatial: bool
    changes_resolution: bool
    whole: bool = False
    """Whether its lattices by frequency are the domains of its tensors."""
    periodic: bool = False
    """Whether it has circular padding, and no other."""

    @classmethod
    def of(cls, program: Program, limits: Limits) -> _Piece:
        """What a part is."""
        spatial = any(is_spatial(tensor) for tensor in program.tensors)
        kind: type[DenseSpace | SymbolSpace] | None = DenseSpace
        whole = periodic = False
        if spatial:
            small = all(tensor.size <= limits.entries for tensor in program.tensors)
            try:
                space = SymbolSpace(with_restrictions(program))
                whole, periodic = space.whole, space.periodic
                kind = DenseSpace if small else SymbolSpace
            except NotRepresentableError:
                kind = DenseSpace if small else None
        if len(program.outputs) != 1:
            kind = None
        return cls(program, kind, spatial, _changes_resolution(program), whole, periodic)

    def by_frequency(self) -> _Piece:
        """The same with forms by frequency where nothing is lost by that."""
        return replace(self, kind=SymbolSpace) if self.whole and self.kind is not None else self

    @property
    def width(self) -> int:
        """The channels of the tensor that it ends with."""
        return channels(self.program.outputs[0])


def _dense_segment(program: Program, limits: Limits) -> Segment | None:
    """The program as one segment on all entries of its tensors, None where that is too large."""
    space = DenseSpace()
    small = all(t.size <= limits.entries for t in program.tensors) and cost(program, space) <= limits.work
    return Segment(program, space) if small else None


def _segment(program: Program, limits: Limits) -> Segment | None:
    if len(program.outputs) != 1:
        return None
    dense = _dense_segment(program, limits)
    cheap = dense is not None and cost(program, dense.space) <= limits.work / _DENSE
    if cheap and not any(is_spatial(tensor) for tensor in program.tensors):
        return dense
    try:
        restricted = with_restrictions(program)
        space = SymbolSpace(restricted)
    except NotRepresentableError:
        return dense
    if cheap and not space.periodic:
        return dense
    operations = cost(restricted, space)
    if entries(restricted, space, kept=True) > _MOST_ENTRIES or operations > limits.work:
        return dense
    if dense is not None and not space.periodic and cost(program, dense.space) <= operations:
        return dense
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


def _grouped(pieces: list[_Piece], *, across: bool) -> Iterator[list[_Piece]]:
    """Neighbouring pieces that may make a segment together, or a part without one."""
    current: list[_Piece] = []
    for piece in pieces:
        if current and not _joins(current, piece):
            yield current
            current = []
        elif current and piece.changes_resolution and piece.kind is SymbolSpace and not across:
            # cut at the narrowest tensor since the last change, the last of several
            since = max((i for i, earlier in enumerate(current) if earlier.changes_resolution), default=0)
            kept = max(range(since, len(current)), key=lambda i: (-current[i].width, i)) + 1
            yield current[:kept]
            current = current[kept:]
        current.append(piece)
    yield current


def _joins(current: list[_Piece], piece: _Piece) -> bool:
    if current[-1].kind is None or piece.kind is None:
        return current[-1].kind is piece.kind
    if not isinstance(current[-1].program.steps[-1], Linear | Slopes):
        return False  # a cut behind a constraint on norms
    return len({each.kind for each in (*current, piece) if each.spatial}) < 2


def _join(pieces: list[_Piece]) -> Program:
    steps = tuple(step for piece in pieces for step in piece.program.steps)
    return Program(pieces[0].program.inputs, pieces[-1].program.outputs, steps)


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
