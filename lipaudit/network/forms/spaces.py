"""Where forms live: on all entries of small tensors, or on the channels of large ones, frequency by frequency.

A space says how many positions a tensor has, which positions share a multiplier or a weight of a metric (a *unit*), and what the linear
steps are as matrices. Blocks of forms are (frequencies, positions, positions); a dense space has one frequency and real numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import torch

from lipaudit.graph.linear import CONVOLUTION
from lipaudit.graph.node import Node
from lipaudit.network.forms.dense_maps import DenseMap
from lipaudit.network.forms.steps import Groups, Linear, Tensor, Windows


class Map(Protocol):
    """A linear map between blocks of columns, and its adjoint."""

    def apply(self, columns: torch.Tensor, at: torch.Tensor | None = None) -> torch.Tensor:
        """A times columns (frequencies, positions of the source, m); ``at`` are the frequencies that are given."""

    def adjoint(self, columns: torch.Tensor) -> torch.Tensor:
        """A* times columns (frequencies, positions of the output, m)."""

    def adjoint_of_diagonal(self, diagonal: torch.Tensor) -> torch.Tensor:
        """A* times a real diagonal (frequencies, positions of the output)."""

    @property
    def squares(self) -> torch.Tensor | None:
        """|a|^2, (frequencies, positions), of a map that multiplies every position by a number of its own; None for others."""

    @property
    def absolute(self) -> float:
        """The root of the largest row sum of |A| times its largest column sum."""

    @property
    def rounding(self) -> float:
        """How far A* y, computed, may be from A* y, relative to |y|."""

    @property
    def uncertainty(self) -> float:
        """How far A may be from the map that the stored numbers define, in the spectral norm."""


class Space(Protocol):
    """What elimination asks of a space."""

    extends_by_zero: bool
    """Whether tensors are continued by zeros outside of their domain, where slopes must contain 0."""

    def positions(self, tensor: Tensor) -> int:
        """Rows of a block of this tensor."""

    def units(self, tensor: Tensor) -> torch.Tensor:
        """For every position the number of its unit, from 0."""

    def metric_units(self, tensor: Tensor) -> torch.Tensor:
        """For every position the number of its weight in a metric: one per channel, or per entry of a tensor without pixels."""

    def maps(self, step: Linear) -> Sequence[Map]:
        """The maps of a linear step, one per source."""

    def window_squares(self, step: Windows, t: torch.Tensor) -> torch.Tensor:
        """Per position of the input of a maximum over windows the sum of the multipliers of the windows that hold it, or more."""

    def window_inside(self, step: Windows, squares: torch.Tensor) -> torch.Tensor:
        """Per unit of the output what the squares of the input's positions add up to inside of its windows: the adjoint of that."""

    def groups(self, step: Groups) -> torch.Tensor:
        """(groups, k) positions that are sorted with one another, -1 where a group is smaller."""


def channels(tensor: Tensor) -> int:
    """The channels of a tensor with spatial axes, the entries of one without."""
    return tensor.shape[1] if is_spatial(tensor) else tensor.size


def is_spatial(tensor: Tensor) -> bool:
    """Whether a tensor is (1, channels, *sizes) with more than one pixel."""
    return len(tensor.shape) in (3, 4, 5) and tensor.shape[0] == 1 and math.prod(tensor.shape[2:]) > 1


_SLIDING = re.compile(r"([123])d\.")


class DenseSpace:
    """Every entry of every tensor is a position of its own, and a unit."""

    extends_by_zero = False

    def __init__(self) -> None:
        self._maps: dict[Linear, list[DenseMap]] = {}

    def positions(self, tensor: Tensor) -> int:
        """The entries."""
        return tensor.size

    def units(self, tensor: Tensor) -> torch.Tensor:
        """Every entry by itself."""
        return torch.arange(tensor.size)

    def metric_units(self, tensor: Tensor) -> torch.Tensor:
        """The channel of every entry."""
        if not is_spatial(tensor):
            return torch.arange(tensor.size)
        return torch.arange(channels(tensor)).repeat_interleave(tensor.size // channels(tensor))

    def maps(self, step: Linear) -> list[DenseMap]:
        """The node, evaluated; matrices that were written out are kept."""
        if step not in self._maps:
            self._maps[step] = [DenseMap(step, i) for i in range(len(step.sources))]
        return self._maps[step]

    def window_squares(self, step: Windows, t: torch.Tensor) -> torch.Tensor:
        """Every window by itself."""
        members, entries = window_pairs(step.node, step.sources[0].shape, step.output.shape)
        return torch.zeros(step.sources[0].size, dtype=torch.float64).index_add_(0, entries, t[members])

    def window_inside(self, step: Windows, squares: torch.Tensor) -> torch.Tensor:
        """Every window by itself."""
        members, entries = window_pairs(step.node, step.sources[0].shape, step.output.shape)
        return torch.zeros(step.output.size, dtype=torch.float64).index_add_(0, members, squares[entries])

    def groups(self, step: Groups) -> torch.Tensor:
        """Every group at every place."""
        return group_positions(step, step.output.shape)


@lru_cache(maxsize=256)
def group_positions(step: Groups, shape: tuple[int, ...]) -> torch.Tensor:
    """(groups, k) flat positions of the entries of every group in a tensor of a shape, -1 where a group is smaller."""
    axis = step.axis % len(step.output.shape)
    positions = torch.arange(math.prod(shape)).reshape(shape).movedim(axis, 0).flatten(1)
    widest = max(len(members) for members in step.members)
    rows = []
    for members in step.members:
        stacked = torch.stack([positions[k] for k in members], 1)
        filler = stacked.new_full((stacked.shape[0], widest - len(members)), -1)
        rows.append(torch.cat([stacked, filler], 1))
    return torch.cat(rows)


@lru_cache(maxsize=64)
def window_pairs(node: Node, before: tuple[int, ...], after: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """The pairs (output entry, input entry) of a maximum over windows."""
    kernel, stride, padding, dilation = window_geometry(node, sliding_axes(node) or len(before) - 2)
    spatial = len(kernel)
    index = torch.arange(math.prod(before[-spatial:])).reshape(before[-spatial:])
    out = torch.arange(math.prod(after[-spatial:])).reshape(after[-spatial:])
    members, entries = [], []
    for place in torch.cartesian_prod(*[torch.arange(k) for k in kernel]).reshape(-1, spatial).tolist():
        grids = [
            torch.arange(after[-spatial + a]) * stride[a] + place[a] * dilation[a] - padding[a] for a in range(spatial)
        ]
        mesh = torch.meshgrid(*grids, indexing="ij")
        inside = torch.ones_like(mesh[0], dtype=torch.bool)
        for a in range(spatial):
            inside &= (mesh[a] >= 0) & (mesh[a] < before[-spatial + a])
        members.append(out[inside])
        entries.append(index[tuple(m[inside] for m in mesh)])
    one_members, one_entries = torch.cat(members), torch.cat(entries)
    shift = torch.arange(math.prod(before[:-spatial]))[:, None]
    return (one_members + shift * out.numel()).flatten(), (one_entries + shift * index.numel()).flatten()


def sliding_axes(node: Node) -> int | None:
    """Along how many axes, the last ones, a convolution, a pool or a resizing slides; None for other operations."""
    if node.op == CONVOLUTION:
        return len(node.payload.kernel_size)
    named = _SLIDING.search(node.op)
    return int(named[1]) if named else None


def window_geometry(node: Node, spatial: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """Kernel size, stride, padding and dilation of a pooling node, one number per spatial axis."""

    def each(key: str, default: int | None = None) -> list[int]:
        value = node.get(key, default)
        values = list(value) if isinstance(value, tuple) else [value]
        return [int(v) for v in (values * spatial if len(values) == 1 else values)]  # type: ignore[arg-type]

    kernel = each("kernel_size")
    return kernel, each("stride") if node.get("stride") else kernel, each("padding", 0), each("dilation", 1)
