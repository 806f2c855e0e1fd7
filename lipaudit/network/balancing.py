"""The choice of units in which the product of a network's norms is small: balanced weights.

Rescaling a hidden channel by d multiplies a row of the weights before it and divides a column of those behind it
(:mod:`lipaudit.network.rescaling`). The logarithm of the product of the weights' Frobenius norms, each to the power with which its
operation counts in the bound,

    sum_k a_k log ||D_k W_k D_(k-1)^-1||_F,

is convex in log D: a sum of logarithms of sums of exponentials. At its minimum the row and the column of every channel weigh the same
(E. Osborne, *On pre-conditioning of matrices*, Journal of the ACM 7, 1960, balances one matrix in this way). Groups of a convolution
count by the largest of them, smoothed. No bound rests on any of this: every positive D will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from lipaudit.graph.linear import WEIGHTED, Dense, Scale, channel_axis
from lipaudit.graph.node import Node
from lipaudit.network.bound import Problem
from lipaudit.network.forms.search import minimise
from lipaudit.network.rescaling import Channels, in_whole_parts, passed_channels

_EVALUATIONS, _CONVERGED = 40, 1e-3
# Sweeps of Osborne's before: a channel alone is balanced by a quarter of the logarithm of behind / before. As all of them move at once, and
# every weight is reached from both of its ends, they go half of that way.
_SWEEPS, _SWEEP = 12, 0.125
# The logarithm of the scale of a channel that is always 0, whose weights behind do not matter, and minus that of one that is not read.
_DEAD = 10.0
# How closely the largest group is followed.
_SHARPNESS, _TINY = 8.0, 1e-300
# Powers below this part of the largest do not count: the operation hardly matters.
_LEAST_POWER = 1e-3


@dataclass(frozen=True, eq=False)
class _Weight:
    """The squares (groups, rows, columns) of an operation's weights, its power, and the units of its rows and columns; None for 1."""

    squares: torch.Tensor
    power: float
    rows: str | None
    columns: str | None


def balanced_scales(problem: Problem) -> tuple[dict[str, torch.Tensor], float]:
    """Scales of the outputs of operations with constant weights, by their names, as :func:`~lipaudit.network.rescaling.rescaled` takes
    them, and by how much they are expected to lower the logarithm of the product; none where no units can be changed.
    """
    units = _Units(problem)
    weights = units.weights()
    if not weights:
        return {}, 0.0
    places, end = dict[str, slice](), 0
    for name, size in units.free().items():
        places[name] = slice(end, end + size)
        end += size

    def evaluated(logs: torch.Tensor, sharpness: float) -> tuple[float, torch.Tensor, torch.Tensor]:
        total, before, behind = 0.0, torch.zeros_like(logs), torch.zeros_like(logs)
        for weight in weights:
            term, rows, columns = _log_norm(weight, logs, places, sharpness)
            total += weight.power * term
            if weight.rows is not None:
                before[places[weight.rows]] += weight.power * rows
            if weight.columns is not None:
                behind[places[weight.columns]] += weight.power * columns
        return total, before, behind

    def objective(logs: torch.Tensor) -> tuple[float, torch.Tensor]:
        total, before, behind = evaluated(logs, _SHARPNESS)
        return total, torch.where(alive, before - behind, 0.0)

    logs = torch.zeros(end, dtype=torch.float64)
    start, _, _ = evaluated(logs, _SHARPNESS)
    _, before, behind = evaluated(logs, 1.0)
    alive = (before > 0) & (behind > 0)
    logs = torch.where(alive, 0.0, _DEAD * ((behind > 0).double() - (before > 0).double()))
    for _ in range(_SWEEPS):
        _, before, behind = evaluated(logs, 1.0)
        logs = logs + torch.where(alive, _SWEEP * (behind.log() - before.log()), 0.0)
    found = minimise(objective, logs, _EVALUATIONS, _CONVERGED)
    scales = {name: found.point[places[unit]].exp() for name, unit in units.named().items()}
    return scales, start - found.value


def _log_norm(
    weight: _Weight, logs: torch.Tensor, places: Mapping[str, slice], sharpness: float
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """The logarithm of the norm, and its derivatives in the logarithms of the scales of rows and (negative) columns.

    A ``sharpness`` of 1 takes the Frobenius norm over all groups.
    """
    groups, rows, columns = weight.squares.shape
    left, right = (torch.ones(groups, n, dtype=torch.float64) for n in (rows, columns))
    if weight.rows is not None:
        left = (2 * logs[places[weight.rows]]).exp().reshape(groups, rows)
    if weight.columns is not None:
        right = (-2 * logs[places[weight.columns]]).exp().reshape(groups, columns)
    by_rows = left * torch.einsum("gij,gj->gi", weight.squares, right)
    by_columns = right * torch.einsum("gij,gi->gj", weight.squares, left)
    totals = by_rows.sum(1)
    logarithms = sharpness * totals.log()
    smoothed = torch.logsumexp(logarithms, 0) / sharpness
    shares = torch.softmax(logarithms, 0)[:, None] / totals.clamp_min(_TINY)[:, None]
    return float(smoothed) / 2, (shares * by_rows).flatten(), (shares * by_columns).flatten()


class _Units:
    """Which tensors share their units, and which keep theirs: those that something reads that does not act on channels one by one."""

    def __init__(self, problem: Problem) -> None:
        self.effects, self.elasticities = problem.propagation.effects, problem.propagation.elasticities
        self.parents: dict[str, str] = {}
        self.fixed = set[str]()
        self.sizes: dict[str, int] = {}
        self.where: dict[str, tuple[str, Channels]] = {}  # the operation whose units a tensor has
        self.nodes: list[Node] = []
        inside = in_whole_parts(problem)
        for node in problem.graph:
            if node.name in inside or node.op == "input" or (node.op in WEIGHTED and not node.output.shape):
                self._fix(ref.name for ref in node.refs)
            elif node.op in WEIGHTED:
                self._weighted(node)
            else:
                self._passed(node)
        self._fix(problem.graph.outputs)

    def _weighted(self, node: Node) -> None:
        source = node.refs[0]
        if source.name in self.where:
            axis = channel_axis(node.payload, len(source.info.shape))
            if self.where[source.name][1].axis != axis:
                self._fix([source.name])
        self.nodes.append(node)
        axis = channel_axis(node.payload, len(node.output.shape))
        self.parents[node.name] = node.name
        self.sizes[node.name] = node.output.shape[axis]
        self.where[node.name] = node.name, Channels(axis)

    def _passed(self, node: Node) -> None:
        known = [self.where[ref.name] for ref in node.refs if ref.name in self.where]
        places = {channels for _, channels in known}
        if len(known) == len(node.refs) and len(places) == 1:
            channels = passed_channels(node, self.effects[node.name], next(iter(places)))
            if channels is not None:
                first, *others = [self._root(unit) for unit, _ in known]
                for other in others:
                    self._join(first, other)
                self.where[node.name] = first, channels
                return
        self._fix(ref.name for ref in node.refs)

    def _root(self, unit: str) -> str:
        while self.parents[unit] != unit:
            unit = self.parents[unit]
        return unit

    def _join(self, first: str, second: str) -> None:
        first, second = self._root(first), self._root(second)
        if first == second:
            return
        if self.sizes[first] != self.sizes[second]:
            self.fixed.update((first, second))
        self.parents[second] = first
        if second in self.fixed:
            self.fixed.add(first)

    def _fix(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.where:
                self.fixed.add(self._root(self.where[name][0]))

    def _free(self, name: str) -> str | None:
        if name not in self.where:
            return None
        root = self._root(self.where[name][0])
        return None if root in self.fixed else root

    def free(self) -> dict[str, int]:
        """The units that may change, and their channels."""
        return {name: size for name, size in self.sizes.items() if self._free(name) == name}

    def named(self) -> dict[str, str]:
        """The operations whose outputs' units may change, and which these are."""
        return {node.name: unit for node in self.nodes if (unit := self._free(node.name)) is not None}

    def weights(self) -> list[_Weight]:
        """The weights of all operations that count."""
        powers = {node.name: self.elasticities.get(node.name, 0.0) for node in self.nodes}
        least = _LEAST_POWER * max(powers.values(), default=0.0)
        result = []
        for node in self.nodes:
            source = node.refs[0].name
            repeat = self.where[source][1].repeat if source in self.where else 1
            rows, columns = self._free(node.name), self._free(source)
            squares = _squares(node, repeat) if rows is not None or columns is not None else torch.zeros(1)
            if bool((squares > 0).any()):
                result.append(_Weight(squares, max(powers[node.name], least), rows, columns))
        return result


def _squares(node: Node, repeat: int) -> torch.Tensor:
    """The squares of the weights (groups, rows, columns), summed over taps, and over neighbours that share their units."""
    linear = node.payload
    if isinstance(linear, Scale):
        shape = node.output.shape
        squares = linear.factor.to(torch.float64).square().expand(shape[linear.axis])[:, None, None]
    elif isinstance(linear, Dense):
        weight = linear.weight.detach().to("cpu", torch.float64)
        squares = weight.square().reshape(1, len(weight), -1, repeat).sum(3)
    else:
        kernel = linear.kernel.detach().to("cpu", torch.float64).square().flatten(2).sum(2)
        kernel = kernel.reshape(linear.groups, -1, kernel.shape[1])
        squares = kernel.mT if linear.transposed else kernel
    return squares
