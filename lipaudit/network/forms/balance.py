"""How large the differences of every channel are, and weights that scaling the channels does not change.

A ReLU network computes the same function where the rows of a layer that make a channel are multiplied by d > 0 and the columns that
read it by 1 / d. Differences of the channel grow by d then, the form on them by 1 / d^2 and its best multipliers as well. With
e = the mean of |v|^2 over differences v of a channel and g = the mean diagonal entry of the form there, the weight

    s = (g / e)^1/2

does the same: multipliers that are s times a number are those of the network with channels of equal weight, whatever they were scaled
by. Of all multipliers t they minimise (sum g / t) (sum e t), the product of the squared Frobenius norms of what reads and of what makes
the tensor (Cauchy-Schwarz; an equilibration as in A. van der Sluis, *Condition numbers and equilibration of matrices*, 1969).

The differences are those of a linear network, with the root mean square of its two extremal slopes in the place of an activation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from lipaudit.network.forms.multipliers import interval, per_unit
from lipaudit.network.forms.parts import spread
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Bounded, Linear, Program, Slopes, Step, Tensor, Windows
from lipaudit.network.forms.symbol_space import SymbolSpace

# As many differences of the inputs, at so many frequencies; of inputs with fewer entries all directions.
_COLUMNS, _FREQUENCIES = 128, 6
# Channels with a smaller part of the largest energy or form than this count as having it.
_LEAST = 1e-30


def energies(program: Program, space: Space, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The mean of |v|^2 per channel (unit of a metric) of every tensor, for uncorrelated differences of the inputs.

    Args:
        program: the steps.
        space: where the differences live; of many frequencies only a few are looked at.
        inputs: the means of the inputs, by their names.
    """
    if isinstance(space, SymbolSpace):
        space = space.at(spread(space, _FREQUENCIES))
    generator = torch.Generator().manual_seed(0)
    columns = _columns(program, space, inputs, generator)
    result = dict(inputs)
    for step in program.steps:
        made = _differences(step, columns, result, space, generator)
        columns[step.output.name] = made
        result[step.output.name] = by_channel((made.abs() ** 2).mean((0, 2)), step.output, space)
    return result


def balanced(form: torch.Tensor, energy: torch.Tensor) -> torch.Tensor:
    """(g / e)^1/2 per channel, from the mean diagonal entries of a form and the mean squares of differences."""
    large, small = (x.clamp_min(max(_LEAST * float(x.max()), 1e-280)) for x in (form, energy))
    return (large / small).sqrt()


def by_channel(values: torch.Tensor, tensor: Tensor, space: Space) -> torch.Tensor:
    """The means of one value per position over the positions of every channel."""
    units = space.metric_units(tensor)
    number = int(units.max()) + 1
    return per_unit(values, units, number) / per_unit(torch.ones_like(values), units, number)


def _columns(
    program: Program, space: Space, inputs: Mapping[str, torch.Tensor], generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Differences of the inputs (frequencies, positions, m): all directions one by one where they are few, random ones otherwise."""
    frequencies = space.frequencies if isinstance(space, SymbolSpace) else 1
    sizes = [space.positions(tensor) for tensor in program.inputs]
    total = sum(sizes)
    if total <= _COLUMNS:
        whole = math.sqrt(total) * torch.eye(total, dtype=torch.float64)
    else:
        whole = torch.randn(total, _COLUMNS, generator=generator, dtype=torch.float64)
    return {
        tensor.name: (inputs[tensor.name][space.metric_units(tensor)].sqrt()[:, None] * part).expand(
            frequencies, -1, -1
        )
        for tensor, part in zip(program.inputs, torch.split(whole, sizes), strict=True)
    }


def _differences(
    step: Step,
    columns: Mapping[str, torch.Tensor],
    energy: Mapping[str, torch.Tensor],
    space: Space,
    generator: torch.Generator,
) -> torch.Tensor:
    """Differences of the output of a step; random ones of the right size where a constraint says nothing of single entries."""
    parts = [columns[source.name] for source in step.sources]
    if isinstance(step, Linear):
        maps = space.maps(step)
        made = [each.apply(part) for each, part in zip(maps, parts, strict=True)]
        return sum(made[1:], start=made[0])
    if isinstance(step, Slopes):
        low, high = interval(step, space)
        return math.sqrt((low**2 + high**2) / 2) * parts[0]
    if not isinstance(step, Windows | Bounded):
        return parts[0]
    units = space.metric_units(step.output)
    number = int(units.max()) + 1
    given = energy[step.sources[0].name]
    if isinstance(step, Bounded) or len(given) != number:
        mean = sum(float(energy[source.name].mean()) for source in step.sources) / len(step.sources)
        given = torch.full((number,), mean, dtype=torch.float64)
    random = torch.randn(len(units), parts[0].shape[2], generator=generator, dtype=torch.float64)
    return (given[units].sqrt()[:, None] * random).expand(len(parts[0]), -1, -1)
