"""The slopes of a function of each entry on an interval of its own for every entry.

By the mean value theorem (f(x) - f(y)) / (x - y) lies between the ends of the slope on any interval that holds x and y, for a function that
is continuous and differentiable between its joints. Slopes are bounded by interval arithmetic of the terms of f', on cells of the interval,
because terms that share their variable are bounded the better the narrower it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import torch

from lipaudit.graph.aliases import canonical
from lipaudit.graph.evaluate import evaluate
from lipaudit.graph.functions.differentiation import derivative
from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.from_aten import Translator
from lipaudit.graph.functions.ranges import defined, ranges
from lipaudit.graph.functions.terms import NotElementaryError
from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.graph.passes.elementwise import ELEMENTWISE
from lipaudit.rules.movement import Move, Movement, Neighbourhood

# Cells on either side of the centre, of large tensors fewer. A cell more of this half width is around 0, where most joints are.
_CELLS, _FEW_CELLS, _LARGE = 8, 2, 2**16
_JOINT = 1e-300
_SLACK = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class EntrySlopes:
    """Slopes of every entry: within [low, high] on its interval, and ``line`` of the line through the centre that stands for the function.

    ``remainder`` has the least and the most of f(x) - f(c) - line (x - c).
    """

    low: torch.Tensor
    high: torch.Tensor
    line: torch.Tensor
    remainder: tuple[torch.Tensor, torch.Tensor]

    @property
    def movement(self) -> Movement:
        """How far the slope is from that of the line."""
        away = torch.maximum(self.high - self.line, self.line - self.low).clamp_min(0.0)
        return Movement((Move(away, ()),), self.remainder)


def is_entrywise(node: Node) -> bool:
    """Whether a node is a function of each entry of one tensor that has terms."""
    names = {ref.name for ref in node.refs}
    return len(names) == 1 and len(node.outputs) == 1 and node.refs[0].info == node.output and bool(_tapes(node))


def entry_slopes(node: Node, around: Neighbourhood, constant: float, chords: bool = False) -> EntrySlopes:
    """The slopes of a function of each entry that is continuous on the domain; none of them exceeds ``constant``.

    The line through the centre has the slope at the centre, as automatic differentiation takes it, or that of the chord over the interval:
    of a ReLU within [l, u], l < 0 < u, it is u / (u - l), for which the function strays the least from a line (Weng et al., 2018). On both
    sides of the centre the remainder is the integral of f' - line from there, which is added up cell by cell.

    >>> from lipaudit.graph.node import TensorInfo
    >>> info = TensorInfo((3,), torch.float64)
    >>> relu = Node("y", "aten.relu.default", {"self": Ref("x", info)}, (info,))
    >>> centre, entries = torch.tensor([-1.0, 0.1, 2.0]).double(), torch.full((3,), 0.5).double()
    >>> slopes = entry_slopes(relu, Neighbourhood(centre, entries, entries, 1.0, entries), 1.0)
    >>> slopes.low, slopes.high
    (tensor([0., 0., 1.], dtype=torch.float64), tensor([0., 1., 1.], dtype=torch.float64))
    """
    shape, centre = around.centre.shape, around.centre.flatten()
    below, above = around.below.flatten(), around.above.flatten()
    own = _own_slopes(node, around.centre).flatten()
    falling = _cells(node, centre, -below, constant, upwards=False)
    rising = _cells(node, centre, above, constant, upwards=True)
    low = own.minimum(falling.least.amin(0)).minimum(rising.least.amin(0))
    high = own.maximum(falling.most.amax(0)).maximum(rising.most.amax(0))
    line = _chords(node, centre, below, above, own).clamp(low, high) if chords else own
    (least, most), (lower, upper) = falling.integral(line), rising.integral(line)
    low, high, line, least, most = (
        t.reshape(shape) for t in (low, high, line, least.minimum(lower) * _SLACK, most.maximum(upper) * _SLACK)
    )
    return EntrySlopes(low, high, line, (least, most))


def value_ranges(node: Node, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Ends of the exact values of a function of each entry at x, one for each set of its constants: (sets, *shape)."""
    ends = []
    for tape, root in _tapes(node):
        both = ranges(tape, (root,), torch.stack((x.flatten(),) * 2))
        certain = defined(tape, root, both)
        low, high = both.values[root]
        ends.append((torch.where(certain, low, -math.inf), torch.where(certain, high, math.inf)))
    least, most = (torch.stack(each).reshape(-1, *x.shape) for each in zip(*ends, strict=True))
    return least, most


@dataclass(frozen=True, eq=False)
class _Cells:
    """Slopes within [least, most] on cells of the widths ``widths``, from the centre outwards; all are (cells, entries)."""

    least: torch.Tensor
    most: torch.Tensor
    widths: torch.Tensor
    upwards: bool

    def integral(self, line: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The least and the most of f(x) - f(c) - line (x - c) on all cells.

        It is 0 at the centre, and what a part of a cell adds lies between 0 and what the bounds of its slopes add on the whole cell, so
        that the largest of the sums up to the end of a cell bounds it. Downwards the sign of what is added changes.
        """
        low, high = (self.least - line) * self.widths, (self.most - line) * self.widths
        if not self.upwards:
            low, high = -high, -low
        return low.cumsum(0).amin(0).clamp_max(0.0), high.cumsum(0).amax(0).clamp_min(0.0)


def _cells(node: Node, centre: torch.Tensor, away: torch.Tensor, constant: float, upwards: bool) -> _Cells:
    """The slopes between the centre and what is ``away`` from it on one side."""
    count = _CELLS if centre.numel() <= _LARGE else _FEW_CELLS
    far = centre + away
    ends = centre + torch.linspace(0.0, 1.0, count + 1, dtype=torch.float64)[:, None] * away
    joints = torch.tensor([[-_JOINT], [_JOINT]], dtype=torch.float64)
    ends = torch.cat((ends, joints.clamp(centre.minimum(far), centre.maximum(far)))).sort(0).values
    least, most = _range(node, ends[:-1], ends[1:], constant)
    widths = ends.diff(dim=0).nan_to_num(nan=0.0)  # nothing is added where the centre is minus infinity
    least, most, widths = (t if upwards else t.flip(0) for t in (least, most, widths))
    return _Cells(least, most, widths, upwards)


def _chords(
    node: Node, centre: torch.Tensor, below: torch.Tensor, above: torch.Tensor, own: torch.Tensor
) -> torch.Tensor:
    """The slope of the chord over every interval; that at the centre where the interval is a point."""
    shape = node.output.shape
    first, last = (
        evaluate(node, {node.refs[0].name: x.reshape(shape)}, torch.float64) for x in (centre - below, centre + above)
    )
    assert isinstance(first, torch.Tensor)
    assert isinstance(last, torch.Tensor)
    slope = (last - first).flatten() / (below + above)
    return torch.where(torch.isfinite(slope), slope, own)


def _own_slopes(node: Node, centre: torch.Tensor) -> torch.Tensor:
    """The derivative at the centre by automatic differentiation."""
    with torch.enable_grad():
        x = centre.detach().clone().requires_grad_()
        value = evaluate(node, {node.refs[0].name: x}, torch.float64)
        assert isinstance(value, torch.Tensor)
        (slope,) = torch.autograd.grad(value.sum(), x)
    return slope


def _range(node: Node, first: torch.Tensor, last: torch.Tensor, constant: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Ends of the slopes on every interval of two arrays of ends, within the constant."""
    x = torch.stack((torch.nextafter(first, _lower(first)), torch.nextafter(last, -_lower(last)))).flatten(1)
    low = torch.full((x.shape[1],), math.inf, dtype=torch.float64)
    high = -low
    for tape, root in _tapes(node):
        slope = derivative(tape, root)
        both = ranges(tape, (root, slope), x)
        certain = defined(tape, root, both) & defined(tape, slope, both)
        ends = both.values[slope]
        low = low.minimum(torch.where(certain, ends[0], -math.inf))
        high = high.maximum(torch.where(certain, ends[1], math.inf))
    return low.clamp(-constant, constant).reshape(first.shape), high.clamp(-constant, constant).reshape(first.shape)


def _lower(like: torch.Tensor) -> torch.Tensor:
    return torch.full_like(like, -math.inf)


def _tapes(node: Node) -> list[tuple[Tape, int]]:
    return list(_functions(canonical(node)))


def _functions(node: Node) -> Iterator[tuple[Tape, int]]:
    """The function of each entry as terms, one for each set of constants; none if it has no terms."""
    if node.op == ELEMENTWISE:
        for program in node.payload.programs:
            tape = Tape()
            for each in program:
                tape.append(each)
            yield tape, len(program) - 1
        return
    tape = Tape()
    variable = tape.variable()

    def term(argument: Argument) -> int:
        if isinstance(argument, Ref):
            return variable
        if isinstance(argument, bool) or not isinstance(argument, int | float) or not math.isfinite(argument):
            raise NotElementaryError("neither a tensor nor a number")
        return tape.constant(Fraction(argument))

    try:
        root = Translator(tape, term).term(node)
        derivative(tape, root)
    except NotElementaryError:
        return
    yield tape, root
