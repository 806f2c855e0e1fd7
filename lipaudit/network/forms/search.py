"""Minimisation of a smooth function that is defined on an open set: L-BFGS with backtracking.

J. Nocedal and S. Wright, *Numerical Optimization*, algorithms 7.4 and 3.1. Outside of the set the function raises; the step is then halved,
as it is where the value does not fall enough (Armijo's condition).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

Objective = Callable[[torch.Tensor], tuple[float, torch.Tensor] | None]


@dataclass(frozen=True, eq=False)
class Found:
    """A point, its value, the evaluations that it took, and whether it was held up at the edge of the set rather than at a minimum."""

    point: torch.Tensor
    value: float
    evaluations: int
    stuck: bool = False


_MEMORY, _SUFFICIENT, _HALVINGS = 20, 1e-4, 25
# How much longer a step may be than the last one was, and how many small ones in a row end the search.
_GROWTH, _SMALL_STEPS = 4.0, 4
# A search that ends with a step that short, of what its direction asked for, ends at the edge of the set.
_SHORT = 2.0**-6
# No unknown, the logarithm of a multiplier, moves further than this in one step.
_LONGEST = 1.0


def minimise(
    objective: Objective,
    start: torch.Tensor,
    evaluations: int,
    tolerance: float = 1e-9,
    ended: Callable[[], bool] = lambda: False,
) -> Found:
    """A point of smaller value.

    Args:
        objective: value and gradient, None outside of the set where it is defined.
        start: a point of the set.
        evaluations: how many values may be asked for.
        tolerance: the search ends where four steps in a row lower the value by less each.
        ended: asked before every evaluation but the first whether the search is to end where it is.

    >>> found = minimise(lambda x: (float((x**2).sum()), 2 * x), torch.ones(2), 50)
    >>> found.value < 1e-12, found.stuck
    (True, False)
    """
    first = objective(start)
    if first is None:
        raise ValueError("the start of the search must be a point where the function is defined")
    x, (value, slope), used = start, first, 1
    pairs: deque[tuple[torch.Tensor, torch.Tensor]] = deque(maxlen=_MEMORY)
    longest_step, small, stuck = 1.0, 0, False
    while used < evaluations and not ended():
        direction = _direction(slope, pairs)
        along = float(slope @ direction)
        if not along < 0:
            pairs.clear()
            direction = -slope * (0.3 / slope.norm().clamp_min(1e-30))
            along = float(slope @ direction)
            if not along < 0:
                break
        longest = float(direction.abs().max())
        if longest > _LONGEST:
            direction, along = direction / longest, along / longest
        step, accepted = min(1.0, longest_step), None
        for _ in range(_HALVINGS):
            if used >= evaluations or ended():
                break
            trial = objective(x + step * direction)
            used += 1
            if trial is not None and trial[0] < value + _SUFFICIENT * step * along:
                accepted = trial
                break
            step /= 2
        if accepted is None:
            if not pairs or used >= evaluations or ended():
                stuck = not pairs
                break
            pairs.clear()
            longest_step = 1.0
            continue
        longest_step = (
            _GROWTH * step
        )  # steps that leave the set, one after the other, would cost most of the evaluations
        moved, turned = step * direction, accepted[1] - slope
        if float(moved @ turned) > 1e-12 * float(moved.norm() * turned.norm()):
            pairs.append((moved, turned))
        fallen = value - accepted[0]
        x, value, slope = x + moved, accepted[0], accepted[1]
        small = small + 1 if fallen < tolerance else 0
        if small == _SMALL_STEPS:
            stuck = step < _SHORT
            break
    return Found(x, value, used, stuck)


def _direction(slope: torch.Tensor, pairs: deque[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """The two-loop recursion: minus the inverse Hessian that the pairs (step, change of the gradient) describe, times the gradient."""
    q = slope.clone()
    weights = []
    for moved, turned in reversed(pairs):
        weight = float(moved @ q) / float(moved @ turned)
        weights.append(weight)
        q = q - weight * turned
    if pairs:
        moved, turned = pairs[-1]
        q = q * (float(moved @ turned) / float(turned @ turned))
    else:
        q = q * (0.3 / q.norm().clamp_min(1e-30))
    for (moved, turned), weight in zip(pairs, reversed(weights), strict=True):
        q = q + moved * (weight - float(turned @ q) / float(moved @ turned))
    return -q
