"""The bound that multipliers and metrics prove: the product of the proved factors of all parts of a network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from lipaudit.network.forms.certify import certified_factor
from lipaudit.network.forms.spaces import Space, channels
from lipaudit.network.forms.steps import Program, Tensor
from lipaudit.spectral.bracket import round_up


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a network between two cuts, and what is proved of it.

    ``space`` is where its forms live, or None where its constant is used: |dy| <= exp(log_constant) |dx|.
    """

    program: Program
    space: Space | None
    log_constant: float


def proved_terms(
    parts: Iterable[Part], multipliers: Mapping[str, torch.Tensor], metrics: Mapping[str, torch.Tensor]
) -> tuple[float, tuple[float, ...]]:
    """A proved upper bound of log L, and its parts' terms, the logarithms of the roots of all t.

    <dy, Q dy> <= t <dx, P dx> for every part, with the metrics P and Q of the cuts at its ends, gives L^2 <= product of all t: at the
    network's inputs and outputs the metric is the identity.

    Args:
        parts: from the inputs to the outputs, each beginning where the one before ends.
        multipliers: positive numbers, by the name of the output of every constraint.
        metrics: positive weights of the channels of the tensors at the cuts, by their names.

    Raises:
        InfeasibleError: if the multipliers of a part prove nothing.
    """
    terms = []
    for part in parts:
        outer, inner = (_weights(tensors, metrics) for tensors in (part.program.outputs, part.program.inputs))
        if part.space is None:
            ratio = max(float(weights.max()) for weights in outer.values()) / min(
                float(weights.min()) for weights in inner.values()
            )
            terms.append(part.log_constant + (math.log(ratio) / 2 + 2.0**-50))  # off by some 2^-52 where it is about 1
        else:
            factor = certified_factor(part.program, part.space, multipliers, outer, inner)
            terms.append(round_up(math.log(factor) / 2, 8))
    return round_up(math.fsum(terms), 4), tuple(terms)


def _weights(tensors: Iterable[Tensor], metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights of all channels, 1 where there is no cut."""
    ones = {tensor.name: torch.ones(channels(tensor), dtype=torch.float64) for tensor in tensors}
    return {name: metrics.get(name, weights) for name, weights in ones.items()}
