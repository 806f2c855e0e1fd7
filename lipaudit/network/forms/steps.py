"""A network as steps that quadratic forms can be carried through: linear maps, and constraints on differences.

Write dv for the difference of a tensor v between two inputs. A linear step says dy = sum_i A_i dx_i. Every other step says of the
difference z of its output and the differences v of its inputs that a quadratic form is not negative, for every choice of its
multipliers t > 0:

    slopes in [a, b], entry by entry    sum_i t_i (z_i - a v_i) (b v_i - z_i) >= 0
    windows (maximum over entries)      sum_w t_w (sum of v_i^2 over the window w - z_w^2) >= 0
    groups (entries sorted)             t_0 (|v - mean v|^2 - |z - mean z|^2) + t_1 k ((mean v)^2 - (mean z)^2) >= 0 per group of k
    a constant per input                t (sum_i w_i |v_i|^2 - |z|^2) >= 0

The first is the sector condition of Fazlyab et al., *Efficient and Accurate Estimation of Lipschitz Constants for Deep Neural Networks*,
NeurIPS 2019 (LipSDP-Neuron). A maximum over a window w moves by at most max_w |v_i|. Sorting keeps the sum of a group and brings two groups
no further apart. For the last, (sum_i c_i |v_i|)^2 <= sum_i c_i^2 s_i |v_i|^2 wherever sum_i 1 / s_i = 1 (Cauchy-Schwarz).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from lipaudit.graph.node import Node


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor whose differences forms are about: its name in the graph and its shape (the batch axis of size 1 included)."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many entries."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False)
class Linear:
    """dy = sum_i A_i dx_i, the node evaluated with one of its data-dependent operands at a time.

    ``part`` is (axis, start, size) for a step that takes neighbouring entries of its only source along an axis: an operation that
    splits a tensor keeps it whole, and what picks one of its outputs takes that part.
    """

    output: Tensor
    sources: tuple[Tensor, ...]
    node: Node
    part: tuple[int, int, int] | None = None


@dataclass(frozen=True, eq=False)
class Slopes:
    """Every entry is a function of its own entry with slopes in [low, high]: numbers, or tensors that fit the output.

    ``raised`` is by how much more than the norm of the form multipliers start from, entry by entry: for z = s v + w with |w| <= d |v| it is
    1 + |s| / d, at which a number h carries back as h (|s| + d)^2.
    """

    output: Tensor
    sources: tuple[Tensor]
    low: float | torch.Tensor
    high: float | torch.Tensor
    node: Node
    raised: torch.Tensor | None = None

    @property
    def is_odd(self) -> bool:
        """Whether all slopes lie around 0, so that the constraint does not couple the output with its input."""
        return bool(torch.as_tensor(self.low + self.high == 0).all())


@dataclass(frozen=True, eq=False)
class Windows:
    """Every entry of the output is the maximum of some entries of the input."""

    output: Tensor
    sources: tuple[Tensor]
    node: Node


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of entries along an axis are put in order. ``members`` (groups, k) are positions along the axis."""

    output: Tensor
    sources: tuple[Tensor]
    axis: int
    members: tuple[tuple[int, ...], ...]
    node: Node


@dataclass(frozen=True, eq=False)
class Bounded:
    """|z|^2 <= sum_i weights_i |v_i|^2: what is known of any operation that has a constant. ``raised`` as in :class:`Slopes`."""

    output: Tensor
    sources: tuple[Tensor, ...]
    weights: tuple[float, ...]
    node: Node
    raised: torch.Tensor | None = None


Constraint: TypeAlias = Slopes | Windows | Groups | Bounded
Step: TypeAlias = Linear | Constraint


@dataclass(frozen=True, eq=False)
class Program:
    """Steps in the order of the network, from the inputs to the outputs; an output that is returned twice counts twice."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    numerical: bool = field(default=False)
    """Whether a constant that a step rests on is known up to rounding only."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Every tensor once."""
        return (*self.inputs, *(step.output for step in self.steps))
