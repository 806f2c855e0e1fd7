"""Multipliers in closed form for a chain of linear maps and slopes: one number per layer, from the input on.

This is ECLipsE-Fast (Xu and Sivaranjani, *ECLipsE: Efficient Compositional Lipschitz Constant Estimation for Deep Neural Networks*,
NeurIPS 2024) for any interval of slopes [a, b]. The differences v of a tensor lie in the ellipsoid of a matrix Y: v v* <= Y for
differences of the input of norm at most 1. A linear map A makes A Y A* of it. With m = (a + b) / 2, d = (b - a) / 2, s the largest
eigenvalue of Y and the multiplier

    t = 1 / (s d (d + |m|)),

which is the best one for Y = s I, slopes make ((t I - (t m)^2 (Y^-1 + t a b)^-1))^-1 of it. The largest eigenvalue F of the last Y bounds
L^2, and the multipliers F t prove it in the elimination from the outputs.
"""

from __future__ import annotations

import math

import torch

from lipaudit.network.forms.multipliers import interval
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Linear, Program, Slopes

# By how much the multipliers of a layer are raised above those that are just enough, relative to the next layer's.
_LARGER = 1 + 1e-7


def forward_multipliers(program: Program, space: Space) -> dict[str, float] | None:
    """One multiplier per constraint, by the name of its output; None if the program is no chain of linear maps and slopes.

    Two readers of one tensor, several operands, other constraints than slopes, and slopes that differ from entry to entry make no chain.
    """
    if len(program.inputs) != 1 or len(program.outputs) != 1:
        return None
    current = program.inputs[0]
    y = torch.eye(space.positions(current), dtype=torch.float64)[None]
    multipliers: dict[str, float] = {}
    for step in program.steps:
        if step.sources != (current,) or not isinstance(step, Linear | Slopes):
            return None
        current = step.output
        if isinstance(step, Linear):
            (linear_map,) = space.maps(step)
            y = linear_map.apply(linear_map.apply(y).mH)
            y = (y + y.mH) / 2
            continue
        low, high = interval(step, space)
        if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):
            return None
        middle, half = (low + high) / 2, (high - low) / 2
        largest = float(torch.linalg.eigvalsh(y).amax())
        if half <= 0 or largest <= 0:
            return None
        t = 1 / (largest * half * (half + abs(middle)))
        one = torch.eye(y.shape[-1], dtype=y.dtype)
        gained = torch.linalg.solve(one + t * low * high * y, y) if middle else torch.zeros_like(y)
        x = t * one - (t * middle) ** 2 * (gained + gained.mH) / 2
        y = torch.linalg.inv(x)
        y = (y + y.mH) / 2
        multipliers[step.output.name] = t
    if current != program.outputs[0]:
        return None
    bound = float(torch.linalg.eigvalsh(y).amax())
    if not 0 < bound < math.inf:
        return None
    raised = (_LARGER**k for k in range(len(multipliers), 0, -1))
    return {name: t * bound * factor for (name, t), factor in zip(multipliers.items(), raised, strict=True)}
