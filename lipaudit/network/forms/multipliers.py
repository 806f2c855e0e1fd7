"""Multipliers of the constraints: how many there are, the blocks that they add to a form, and the derivative of a bound in them.

Multipliers are positive; a search moves their natural logarithms. The derivative of a value by a multiplier is the constraint at the
optimum (:mod:`lipaudit.network.forms.elimination`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from lipaudit.network.forms.spaces import Space, is_spatial
from lipaudit.network.forms.steps import Constraint, Groups, Slopes, Windows


@dataclass(frozen=True, eq=False)
class Terms:
    """What a constraint adds: M_z of its output, S between the output and an input, M_v of its inputs. Diagonals or matrices."""

    output: torch.Tensor
    cross: Mapping[str, torch.Tensor] = field(default_factory=dict)
    sources: Mapping[str, torch.Tensor] = field(default_factory=dict)


def count(step: Constraint, space: Space) -> int:
    """How many multipliers a constraint has."""
    if isinstance(step, Slopes | Windows):
        return int(space.units(step.output).max()) + 1
    if isinstance(step, Groups):
        return (
            2
            * len(step.members)
            * (1 if space.extends_by_zero and is_spatial(step.output) else step.output.size // _members(step))
        )
    return 1


def _members(step: Groups) -> int:
    return sum(len(members) for members in step.members)


def interval(step: Slopes, space: Space) -> tuple[float | torch.Tensor, float | torch.Tensor]:
    """The slopes of a constraint, two numbers or one per position each; with 0 where tensors are continued by zero."""
    low, high = step.low, step.high
    if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):
        low, high = (_by_position(torch.as_tensor(each, dtype=torch.float64), step, space) for each in (low, high))
        return (low.clamp_max(0.0), high.clamp_min(0.0)) if space.extends_by_zero else (low, high)
    return (min(low, 0.0), max(high, 0.0)) if space.extends_by_zero else (low, high)


def _by_position(values: torch.Tensor, step: Slopes, space: Space) -> torch.Tensor:
    """One number per position of a tensor that fits the output; of the entries of a channel the first, where the units are channels."""
    every = values.expand(step.output.shape)
    if count(step, space) < every.numel():
        every = every[0]
        while every.dim() > 1:
            every = every[..., 0]
    return every.flatten()[space.units(step.output)]


def terms(step: Constraint, t: torch.Tensor, space: Space) -> Terms:
    """The blocks of a constraint for its multipliers."""
    source = step.sources[0].name
    if isinstance(step, Slopes):
        low, high = interval(step, space)
        each = t[space.units(step.output)]
        cross = {} if step.is_odd else {source: each * ((low + high) / 2)}
        return Terms(each, cross, {source: each * (-low * high)} if _any(low * high) else {})
    if isinstance(step, Windows):
        return Terms(t[space.units(step.output)], {}, {source: space.window_squares(step, t)})
    if isinstance(step, Groups):
        block = _block(step, t, space)
        return Terms(block, {}, {source: block})
    ones = {each.name: torch.ones(space.positions(each), dtype=torch.float64) for each in (step.output, *step.sources)}
    sources = {each.name: t * weight * ones[each.name] for each, weight in zip(step.sources, step.weights, strict=True)}
    return Terms(t * ones[step.output.name], {}, sources)


def slack(
    step: Constraint, t: torch.Tensor, z: torch.Tensor, sources: Mapping[str, torch.Tensor], space: Space
) -> torch.Tensor:
    """t_i c_i(z, v), summed over the columns: the derivative of the value by the logarithm of every multiplier."""
    v = sources[step.sources[0].name]
    if isinstance(step, Slopes):
        low, high = interval(step, space)
        low, high = (x[:, None] if isinstance(x, torch.Tensor) else x for x in (low, high))
        return t * per_unit(_inner(z - low * v, high * v - z), space.units(step.output), len(t))
    if isinstance(step, Windows):
        inside = space.window_inside(step, _inner(v, v))
        return t * (inside - per_unit(_inner(z, z), space.units(step.output), len(t)))
    if isinstance(step, Groups):
        gained = [_group_squares(step, x, space) for x in (v, z)]
        return t * (gained[0] - gained[1])
    total = -_inner(z, z).sum()
    for each, weight in zip(step.sources, step.weights, strict=True):
        total = total + weight * _inner(sources[each.name], sources[each.name]).sum()
    return t * total


def _any(values: float | torch.Tensor) -> bool:
    return bool(torch.as_tensor(values != 0).any())


def _inner(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Re conj(a) b, summed over frequencies and columns: one number per position."""
    return (a.conj() * b).real.sum((0, 2))


def per_unit(values: torch.Tensor, units: torch.Tensor, number: int) -> torch.Tensor:
    """The sums of one value per position over the positions of every unit, (number,)."""
    return torch.zeros(number, dtype=torch.float64).index_add_(0, units, values)


def start(
    step: Constraint,
    diagonal: torch.Tensor | None,
    columns: torch.Tensor | None,
    how: str,
    space: Space,
    *,
    coupled: bool = False,
) -> torch.Tensor:
    """Logarithms of multipliers for which t - H > 0, for H = D + U U*: from D and the norm of U U*, or unit by unit ("perron").

    For a form h I and slopes in [a, b], t = h (1 + |a + b| / (b - a)) gives h max(a^2, b^2), the product rule. Unit by unit h becomes
    |H| p / p for the leading eigenvector p of |H|: diag(|H| p / p) - H is diagonally dominant in the metric p.

    Where the form is ``coupled`` with other tensors y that stay, maximising over z leaves H_yy + H_yz (t - H)^-1 H_zy <=
    H_yy (1 + h / (t - h)): t is at least 2 h, which no more than doubles H_yy. With t hardly above h it would be a million times as much.
    """
    number, positions = count(step, space), space.positions(step.output)
    own = torch.zeros(positions, dtype=torch.float64) if diagonal is None else diagonal.amax(0)
    if how == "perron" and columns is not None and isinstance(step, Slopes | Windows) and positions <= _MOST_BY_UNIT:
        matrix = columns @ columns.mH
        matrix = matrix + torch.diag_embed(own)
        weights = perron_weights(matrix, positions, number) * (1 + 1e-4)
    else:
        norm = 0.0 if columns is None else largest_square(columns)
        weights = (own + norm).clamp_min(1e-280) * (1 + 1e-6)
        if isinstance(step, Slopes | Windows):
            units = space.units(step.output)
            weights = torch.zeros(number, dtype=torch.float64).scatter_reduce_(0, units, weights, "amax")
        else:
            weights = weights.max().expand(number)
    raised = torch.ones((), dtype=torch.float64)
    if isinstance(step, Slopes):
        low, high = (torch.as_tensor(x, dtype=torch.float64) for x in interval(step, space))
        raised = 1 + (low + high).abs() / 2 / ((high - low) / 2).clamp_min(1e-6)
        if raised.dim():
            units = space.units(step.output)
            raised = torch.zeros(number, dtype=torch.float64).scatter_reduce_(0, units, raised, "amax")
    weights = weights * (raised.clamp_min(2.0) if coupled else raised)
    if not isinstance(step, Windows | Groups) and step.raised is not None:
        weights = weights * step.raised
    return weights.log()


# Tensors with more positions get no start unit by unit.
_MOST_BY_UNIT = 512
_ALL_EIGENVALUES = 1e8


def largest_square(columns: torch.Tensor) -> float:
    """The largest eigenvalue of U U* over all frequencies, or a little more."""
    gram = columns.mH @ columns if columns.shape[2] <= columns.shape[1] else columns @ columns.mH
    size = gram.shape[-1]
    if len(gram) * size**3 <= _ALL_EIGENVALUES:
        return float(torch.linalg.eigvalsh(gram).max())
    x = torch.linspace(1.0, 2.0, size, dtype=torch.float64).to(gram.dtype)[:, None].expand(len(gram), -1, 1)
    for _ in range(30):
        x = gram @ x
        x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp_min(1e-280)
    largest = float(torch.linalg.vector_norm(gram @ x, dim=(1, 2)).max())
    for excess in (1.001, 1.01, 1.1, 1.5):
        shifted = -gram
        shifted.diagonal(dim1=-2, dim2=-1).add_(largest * excess)
        if not bool(torch.linalg.cholesky_ex(shifted)[1].any()):
            return largest * excess
    return float(gram.abs().sum(-1).max())


def perron_weights(own: torch.Tensor, positions: int, number: int) -> torch.Tensor:
    """|H| p / p for the entries of H between units that are largest over all frequencies and aliases."""
    aliases = positions // number  # positions are aliases times units
    absolute = own.abs().amax(0).reshape(aliases, number, aliases, number).sum(2).amax(0)
    p = torch.ones(number, dtype=torch.float64)
    for _ in range(50):
        p = absolute @ p
        p = p / p.norm().clamp_min(1e-280)
    p = p + 1e-3 * p.max().clamp_min(1e-280)
    return ((absolute @ p) / p).clamp_min(float(absolute.max()) * 1e-12 + 1e-280)


def _group_squares(step: Groups, x: torch.Tensor, space: Space) -> torch.Tensor:
    """Per group |x - mean x|^2, then k (mean x)^2, summed over frequencies, columns and aliases."""
    groups = space.groups(step)
    inside = groups >= 0
    entries = x[:, groups.clamp_min(0)] * inside[None, :, :, None]
    shared = (entries.sum(2).abs() ** 2).sum((0, 2)) / inside.sum(1)
    apart = (entries.abs() ** 2).sum((0, 2, 3)) - shared
    number = count(step, space) // 2
    return torch.cat([part.reshape(-1, number).sum(0) for part in (apart, shared)])


def _block(step: Groups, t: torch.Tensor, space: Space) -> torch.Tensor:
    """sum over groups of t_0 (I - P) + t_1 P, P the mean of the group."""
    groups = space.groups(step)
    number, size = count(step, space) // 2, space.positions(step.output)
    repeats = len(groups) // number
    apart, shared = t[:number].repeat(repeats), t[number:].repeat(repeats)
    sizes = (groups >= 0).sum(1)
    block = torch.zeros(size, size, dtype=torch.float64)
    for k in range(groups.shape[1]):
        rows = groups[:, k]
        kept = rows >= 0
        block[rows[kept], rows[kept]] += apart[kept]
        for j in range(groups.shape[1]):
            columns = groups[:, j]
            both = kept & (columns >= 0)
            block[rows[both], columns[both]] += ((shared - apart) / sizes)[both]
    return block
