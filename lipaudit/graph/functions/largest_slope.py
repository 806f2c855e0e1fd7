"""The supremum of |g'| of a function of one real variable, by interval branch and bound.

The function is cut into smooth pieces (:mod:`lipaudit.graph.functions.piecewise`). A function that is continuous at the joints, and
differentiable between them, has the Lipschitz constant sup |g'| over the pieces (mean value theorem on each). On an interval X with
middle m the slope lies in g'(X) and in g'(m) + g''(X) (X - m); where g'' keeps its sign it lies between the slopes at both ends. The
slope at a middle is attained: a lower bound. Intervals that cannot exceed the best lower bound are dropped, the others halved. Beyond
some |x| = m the slope is bounded by how its terms grow (:mod:`lipaudit.graph.functions.asymptotics`).

All numbers are rounded outwards, so that the upper end is a theorem for the exact constants of the expression.

Source: Hansen and Walster, *Global Optimization Using Interval Analysis*, chapters 9 and 12.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import torch

from lipaudit.graph.functions.asymptotics import Window, grows
from lipaudit.graph.functions.differentiation import derivative, slope_by_parts
from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.piecewise import Piece, Step, pieces, steps
from lipaudit.graph.functions.ranges import cells, defined, line, ranges
from lipaudit.graph.functions.substitution import value_at
from lipaudit.graph.functions.terms import NotElementaryError
from lipaudit.spectral import interval_arrays as arrays
from lipaudit.spectral.interval import Interval

TOLERANCE = 1e-9
# A step below half a unit in the last place, beside the terms that are added up there, is a matter of rounding.
FLOAT32_HALF_ULP, FLOAT64_HALF_ULP = Fraction(1, 2**25), Fraction(1, 2**54)
_ROUNDS, _MAX_CELLS = 30, 4096
_PARTS = torch.arange(1, 8, dtype=torch.float64)[:, None] / 8  # where cells are cut
_STARTS = (2.0**6, 2.0**10, 2.0**16, 2.0**24, 2.0**40)  # where tails may begin


@dataclass(frozen=True)
class Slopes:
    """``lower`` <= sup |g'| <= ``upper``; ``steps`` are jumps, of which all are ``small`` where the bound is one up to rounding.

    Where ``upper`` is infinite and ``grows`` is set, the slope exceeds every bound; else it is not known whether it does.
    """

    lower: float
    upper: float
    steps: tuple[Step, ...] = ()
    grows: bool = False

    def joined(self, other: Slopes) -> Slopes:
        """The supremum over both of two sets."""
        return Slopes(max(self.lower, other.lower), max(self.upper, other.upper), self.steps, self.grows or other.grows)

    @property
    def jumps(self) -> tuple[Step, ...]:
        """The jumps that are more than rounding."""
        return tuple(step for step in self.steps if not step.small)


UNDECIDED = Slopes(0.0, math.inf)


def steepest(
    tape: Tape, root: int, low: float = -math.inf, high: float = math.inf, hidden: Fraction = FLOAT64_HALF_ULP
) -> Slopes:
    """sup |g'| over the real numbers, or over the interval between two floats; ``hidden`` is the relative size of steps that are rounding.

    >>> tape = Tape()
    >>> x = tape.variable()
    >>> slopes = steepest(tape, tape.multiply(x, tape.function("sigmoid", x)))
    >>> 1.0998393 < slopes.lower < slopes.upper < 1.0998394
    True
    """
    if low == high:
        return Slopes(0.0, 0.0)
    try:
        parts = pieces(tape, root, low, high)
        jumps = tuple(steps(tape, root, parts, hidden))
    except NotElementaryError:
        return UNDECIDED
    if any(not jump.small for jump in jumps):
        return Slopes(0.0, math.inf, jumps)
    best = Slopes(0.0, 0.0, jumps)
    try:
        for part in parts:
            best = best.joined(_of_piece(tape, part, best.lower))
            if math.isinf(best.upper):
                break
    except NotElementaryError:
        return UNDECIDED
    parts_bound = slope_by_parts(tape, root)
    if parts_bound is not None:
        best = replace(best, upper=min(best.upper, Interval.of(parts_bound).high))
    return best


def _of_piece(tape: Tape, piece: Piece, known: float) -> Slopes:
    slope = derivative(tape, piece.root)
    value = tape.exact(slope)
    low, high = piece.floats()
    if value is not None and tape.affine(piece.root) is not None:
        ends = Interval.of(abs(value))
        return Slopes(ends.low, ends.high)
    search = _Search(tape, piece, slope, derivative(tape, slope), _exact_slopes(tape, piece, slope))
    left, right = (
        (min(high - 1, -_STARTS[0]) if math.isinf(low) else low),
        (max(low + 1, _STARTS[0]) if math.isinf(high) else high),
    )
    near = search.slopes(left, right, known)
    for end, inner, side in ((low, left, -1), (high, right, 1)):
        if math.isinf(end) and not math.isinf(near.upper):
            near = near.joined(_far(search, side, side * inner, max(known, near.lower)))
    return near


def _exact_slopes(tape: Tape, piece: Piece, slope: int) -> dict[float, Interval]:
    """Slopes at 0 and at the joints where they are exact numbers, so that a supremum attained there is not rounded."""
    slopes = {}
    for at in {Fraction(0), *(end for end in (piece.low, piece.high) if end is not None)}:
        try:
            value = tape.exact(value_at(tape, slope, at))
        except NotElementaryError:
            continue
        if value is not None and Fraction(float(at)) == at:
            slopes[float(at)] = Interval.of(value)
    return slopes


def _far(search: _Search, side: int, start: float, known: float) -> Slopes:
    """The slopes at x = side t for all t >= start: those of a tail, and of the part before it, which grows as long as that helps."""
    best, near = UNDECIDED, Slopes(0.0, 0.0)
    for begin in (start, *(s for s in _STARTS if s > start)):
        if begin > start:
            ends = sorted((side * start, side * begin))
            near = near.joined(search.slopes(ends[0], ends[1], max(known, near.lower)))
            start = begin
        if math.isinf(near.upper):
            break
        tail = _window(search.tape, (search.piece.root, search.slope), Window(begin, math.inf), side)
        if tail is not None:
            if tail.grows:
                return tail
            bound = near.joined(tail)
            best = bound if bound.upper < best.upper else best
            if tail.upper <= max(known, near.lower, tail.lower) * (1 + TOLERANCE):
                break
    return best


def _window(tape: Tape, roots: tuple[int, int], window: Window, side: int) -> Slopes | None:
    """The slopes on a part of a tail; None where they are not known."""
    try:
        growths = window.growths(tape, roots, side)
        slope = growths[roots[1]]
        if math.isinf(window.high) and grows(slope):
            return Slopes(0.0, math.inf, grows=True)
        slopes = window.interval(slope)
    except NotElementaryError:
        return None
    # attained in the limit, or in between: the slope is in this range everywhere on the window
    return None if math.isinf(slopes.largest) else Slopes(slopes.smallest, slopes.largest)


@dataclass(frozen=True)
class _Search:
    """Branch and bound on a piece, given its derivatives."""

    tape: Tape
    piece: Piece
    slope: int
    curvature: int
    exact: Mapping[float, Interval]

    def slopes(self, low: float, high: float, known: float) -> Slopes:
        """sup |g'| on an interval of the piece; only as good as needed to say whether it exceeds ``known``."""
        lower, upper = known, 0.0
        open_cells = cells(line(low, high))
        for _ in range(_ROUNDS):
            bounds, attained, defined = self._cells(open_cells)
            lower = max(lower, attained)
            kept = (bounds > lower * (1 + TOLERANCE)) | ~defined
            inner = open_cells[0] + (open_cells[1] - open_cells[0]) * _PARTS
            splits = kept & (inner > open_cells[0]).all(0) & (inner < open_cells[1]).all(0)
            closed = kept & ~splits
            last = int(splits.sum()) * (len(_PARTS) + 1) > _MAX_CELLS
            if bool((closed & ~defined).any()) or (last and not bool(defined.all())):
                return Slopes(lower, math.inf)
            settled = torch.ones_like(kept) if last else ~splits
            if bool(settled.any()):
                upper = max(upper, float(bounds[settled].max()))
            if last or not bool(splits.any()):
                break
            points = torch.cat((open_cells[0][None], inner, open_cells[1][None]))[:, splits]
            open_cells = torch.stack((points[:-1].flatten(), points[1:].flatten()))
        else:
            return Slopes(lower, math.inf)
        return Slopes(lower, upper)

    def _cells(self, x: torch.Tensor) -> tuple[torch.Tensor, float, torch.Tensor]:
        """Upper bounds of |g'| on cells, the largest |g'| surely attained, and whether g is defined on all of a cell."""
        n = x.shape[1]
        middle = x.mean(0)
        points = (p.expand(2, n) for p in (middle, x[0], x[1]))
        roots = [self.slope, self.curvature, self.piece.root]
        enclosures = ranges(self.tape, roots, torch.cat((x, *points), 1))
        d, d2, g = (enclosures.values[root] for root in roots)
        at = torch.cat((middle, x[0], x[1]))
        for point, value in self.exact.items():
            hit = torch.cat((torch.zeros(n, dtype=torch.bool), at == point))
            d = torch.where(hit, torch.tensor([[value.low], [value.high]], dtype=torch.float64), d)
        whole, at_middle, at_low, at_high = (d[:, i * n : (i + 1) * n] for i in range(4))
        bend = d2[:, :n]
        radius = torch.maximum(x[1] - middle, middle - x[0]) * (1 + 2.0**-50)
        reach = arrays.times(bend, torch.stack((-radius, radius)))
        centred = arrays.linear((0.0, 0.0), [((1.0, 1.0), at_middle), ((1.0, 1.0), reach)])
        bent = (bend[0] >= 0) | (bend[1] <= 0)
        smooth = ~enclosures.branching[:n] & torch.isfinite(bend).all(0)
        sharper = torch.where(bent, arrays.hull(at_low, at_high), centred)
        low = torch.where(smooth, torch.maximum(whole[0], sharper[0]), whole[0])
        high = torch.where(smooth, torch.minimum(whole[1], sharper[1]), whole[1])
        everywhere = torch.isfinite(g).all(0) & defined(self.tape, self.piece.root, enclosures)
        attained = self._attained(x, d, ~enclosures.branching & everywhere)
        return torch.maximum(-low, high), attained, everywhere[:n]

    def _attained(self, x: torch.Tensor, d: torch.Tensor, smooth: torch.Tensor) -> float:
        """The largest slope at a middle or an end where g is ``smooth``; the ends of the piece are limits, unless rounded outwards."""
        n = x.shape[1]
        sizes = torch.maximum(d[0], -d[1])[n:]
        low, high = self.piece.floats()
        surely = smooth[n:] & torch.isfinite(sizes)
        for i, (end, exact) in enumerate(((low, self.piece.low), (high, self.piece.high))):
            if exact is not None and Fraction(end) != exact:
                surely[(i + 1) * n : (i + 2) * n] &= x[i] != end
        return float(torch.where(surely, sizes, 0.0).clamp_min(0.0).max())
