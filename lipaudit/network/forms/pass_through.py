"""Diagonal forms pass constraints on norms as they are: no multiplier has to be found.

Where a tensor z is alive alone with a form diag(p), |z_w|^2 <= sum of v_i^2 over the window w gives p_w times that sum, and
|z|^2 <= sum_i w_i |v_i|^2 gives max p times that. Groups of entries that are sorted keep their largest weight.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Bounded, Constraint, Groups, Slopes, Windows


def passes_through(step: Constraint, columns: torch.Tensor | None) -> bool:
    """Whether the form of z is diagonal and couples it with nothing, and the constraint is one on norms."""
    return columns is None and not isinstance(step, Slopes)


def pass_through(step: Constraint, own: torch.Tensor, space: Space) -> dict[str, torch.Tensor]:
    """The diagonals that the sources get, from that of the output (frequencies, n)."""
    weights = largest_weights(step, own, space)
    if isinstance(step, Windows):
        return {step.sources[0].name: space.window_squares(step, weights)}
    if isinstance(step, Groups):
        groups = space.groups(step)
        diagonal = torch.zeros(space.positions(step.output), dtype=torch.float64)
        inside = groups >= 0
        diagonal[groups[inside]] = weights[:, None].expand_as(groups)[inside]
        return {step.sources[0].name: diagonal}
    assert isinstance(step, Bounded)
    return {
        source.name: weights * weight * torch.ones(space.positions(source), dtype=torch.float64)
        for source, weight in zip(step.sources, step.weights, strict=True)
    }


def largest_weights(step: Constraint, own: torch.Tensor, space: Space) -> torch.Tensor:
    """The largest weight per window (unit), per group, or of all entries."""
    diagonal = own.amax(0)
    if isinstance(step, Windows):
        return diagonal.reshape(-1, int(space.units(step.output).max()) + 1).amax(0)  # aliases times units
    if isinstance(step, Groups):
        groups = space.groups(step)
        return torch.where(groups >= 0, diagonal[groups.clamp_min(0)], 0.0).amax(1)
    return diagonal.amax().reshape(1)


def extremal_output(
    step: Constraint, own: torch.Tensor, sources: Mapping[str, torch.Tensor], space: Space
) -> torch.Tensor:
    """A difference of the output at which the form has the value that the sources were given: only its squares count."""
    some = sources[step.sources[0].name]
    z = some.new_zeros(len(some), space.positions(step.output), some.shape[-1])
    squares = {name: (v.abs() ** 2).sum((0, 2)) for name, v in sources.items()}
    diagonal = own.amax(0)
    if isinstance(step, Windows):
        inside = space.window_inside(step, squares[step.sources[0].name])
        z[0, : len(inside), 0] = inside.sqrt().to(z.dtype)  # at the first alias
    elif isinstance(step, Groups):
        groups = space.groups(step)
        kept = torch.where(groups >= 0, squares[step.sources[0].name][groups.clamp_min(0)], 0.0).sum(1)
        heaviest = torch.where(groups >= 0, diagonal[groups.clamp_min(0)], -1.0).argmax(1)
        z[0, groups.gather(1, heaviest[:, None])[:, 0], 0] = kept.sqrt().to(z.dtype)
    else:
        assert isinstance(step, Bounded)
        total = sum(
            (weight * squares[source.name].sum() for source, weight in zip(step.sources, step.weights, strict=True)),
            start=torch.zeros((), dtype=torch.float64),
        )
        z[0, int(diagonal.argmax()), 0] = total.sqrt().to(z.dtype)
    return z
