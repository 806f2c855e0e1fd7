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

# Cells on either side of the centre, of large tensors fewer.
_CELLS, _FEW_CELLS, _LARGE = 8, 2, 2**16


@dataclass(frozen=True, eq=False)
class EntrySlopes:
    """Slopes of every entry: within [low, high] on its interval, ``centre`` where automatic differentiation takes it.

    ``remainder`` bounds |f(x) - f(c) - f'(c) (x - c)|.
    """

    low: torch.Tensor
    high: torch.Tensor
    centre: torch.Tensor
    remainder: torch.Tensor

    @property
    def movement(self) -> Movement:
        """How far the slope is from that at the centre."""
        away = torch.maximum(self.high - self.centre, self.centre - self.low).clamp_min(0.0)
        return Movement((Move(away, ()),), self.remainder)


def is_entrywise(node: Node) -> bool:
    """Whether a node is a function of each entry of one tensor that has terms."""
    names = {ref.name for ref in node.refs}
    return len(names) == 1 and len(node.outputs) == 1 and node.refs[0].info == node.output and bool(_tapes(node))


def entry_slopes(node: Node, around: Neighbourhood, constant: float) -> EntrySlopes:
    """The slopes of a function of each entry that is continuous on the domain; none of them exceeds ``constant``.

    >>> from lipaudit.graph.node import TensorInfo
    >>> info = TensorInfo((3,), torch.float64)
    >>> relu = Node("y", "aten.relu.default", {"self": Ref("x", info)}, (info,))
    >>> centre, entries = torch.tensor([-1.0, 0.1, 2.0]).double(), torch.full((3,), 0.5).double()
    >>> slopes = entry_slopes(relu, Neighbourhood(centre, entries, 1.0, entries), 1.0)
    >>> slopes.low, slopes.high
    (tensor([0., 0., 1.], dtype=torch.float64), tensor([0., 1., 1.], dtype=torch.float64))
    """
    shape, centre, width = around.centre.shape, around.centre.flatten(), around.entries.flatten()
    cells = _CELLS if centre.numel() <= _LARGE else _FEW_CELLS
    own = _own_slopes(node, around.centre).flatten()
    parts = torch.linspace(0.0, 1.0, cells + 1, dtype=torch.float64)[:, None] * width
    low, high = own, own
    areas = []
    for side in (-1.0, 1.0):
        ends = centre + side * parts
        first, last = (ends[1:], ends[:-1]) if side < 0 else (ends[:-1], ends[1:])
        least, most = _range(node, first, last, constant)
        low, high = low.minimum(least.amin(0)), high.maximum(most.amax(0))
        away = torch.maximum(most - own, own - least).clamp_min(0.0)
        areas.append((away.nan_to_num(posinf=math.inf) * (width / cells)).sum(0))
    remainder = torch.maximum(*areas) * (1 + 2.0**-40)
    remainder = torch.where(width == 0, 0.0, remainder)
    return EntrySlopes(*(t.reshape(shape) for t in (low, high, own, remainder)))


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
