"""A network in other units: every channel of some tensors multiplied by a number, and divided by it where it is read.

Write dv for the difference of a tensor v between two inputs, and D_v for a positive number per channel. In the coordinates D_v dv an
operation dz = A dv with constant weights is D_z A D_v^-1, and one that acts on every entry by itself with slopes in [a, b] keeps these
slopes, whichever function it is. At the network's inputs and outputs D = 1. So the network with the weights D_z A D_v^-1 has the Lipschitz
constant of the network, and every bound of the one that rests on slopes and weights only is a bound of the other; the product of the norms
can be less by orders of magnitude (:mod:`lipaudit.network.balancing` chooses the numbers). Divisions and products are rounded, and each
rounding is part of the relative error that a weight carries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from lipaudit.graph.linear import WEIGHTED, Linear, Scale, channel_axis, scale_columns, scale_rows
from lipaudit.graph.node import Graph, Node
from lipaudit.graph.ops import PADDINGS, VIEWS
from lipaudit.network.bound import Problem
from lipaudit.network.entrywise import returns_its_operand, slopes
from lipaudit.network.propagate import propagate
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.rule import apply_rule
from lipaudit.spectral.rounding import composed

_SUMS = frozenset({"aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"})
# What acts on every channel by itself and in the same way, with the channels before the last so many axes.
_PER_CHANNEL = {
    f"aten.{name}{axes}d.{overload}": axes
    for axes in (1, 2, 3)
    for name, overload in (
        ("max_pool", "default"), ("avg_pool", "default"), ("adaptive_avg_pool", "default"), ("upsample_nearest", "vec"),
        ("reflection_pad", "default"), ("replication_pad", "default"),
    )
} | {"aten.upsample_bilinear2d.vec": 2, "aten.upsample_bicubic2d.vec": 2}  # fmt: skip


class RescalingError(Exception):
    """A network has no such units; the message says where."""


@dataclass(frozen=True)
class Channels:
    """Where the channels of a tensor stand: ``repeat`` neighbours along ``axis`` belong to one."""

    axis: int
    repeat: int = 1


def rescaled(problem: Problem, scales: Mapping[str, torch.Tensor]) -> Problem:
    """The same problem in other units; of no use for anything but bounds over all inputs that rest on slopes and weights.

    The constant of a part of the network as a whole holds between tensors whose units are as they were.

    Args:
        problem: the network, over all inputs.
        scales: D per channel of the output of operations with constant weights, by their names; 1 for the others.

    Raises:
        RescalingError: if an operation that reads such a tensor does not act on every channel by itself.
    """
    graph, moved = _rescaled_graph(problem, scales)
    shortcuts = {
        name: shortcut
        for name, shortcut in problem.propagation.shortcuts.items()
        if name not in moved and shortcut.source not in moved
    }
    before = {node.name: node for node in problem.graph}
    settings = Settings(problem.norms)
    effects = {
        node.name: problem.propagation.effects[node.name] if node is before[node.name] else apply_rule(node, settings)
        for node in graph
        if node.op != "input"
    }
    return replace(problem, graph=graph, propagation=propagate(graph, effects, shortcuts=shortcuts))


def _rescaled_graph(problem: Problem, scales: Mapping[str, torch.Tensor]) -> tuple[Graph, set[str]]:
    """The graph with other weights, and the tensors that are in other units."""
    graph, effects = problem.graph, problem.propagation.effects
    inside = in_whole_parts(problem)
    known: dict[str, tuple[Channels, torch.Tensor]] = {}  # D of every tensor where it is not 1
    nodes, left = list[Node](), dict(scales)
    for node in graph:
        read = [known.get(ref.name) for ref in node.refs]
        own = left.pop(node.name, None)
        if own is None and not any(read):
            nodes.append(node)
            continue
        if node.name in inside:
            raise RescalingError(f"{node.name} is part of what has one constant as a whole")
        if node.op in WEIGHTED:
            nodes.append(_with_weights(node, read[0], own))
            if own is not None:
                known[node.name] = Channels(channel_axis(node.payload, len(node.output.shape))), own
            continue
        if own is not None:
            raise RescalingError(f"{node.name} ({node.op}) has no constant weights")
        nodes.append(node)
        known[node.name] = _passed(node, effects[node.name], read)
    for name in graph.outputs:
        if name in known:
            raise RescalingError(f"the output {name} would be in other units")
    if left:
        raise RescalingError(f"it has no operation {min(left)!r}")
    return replace(graph, nodes=tuple(nodes)), set(known)


def in_whole_parts(problem: Problem) -> set[str]:
    """The operations in parts of the network that forms take for one step, and what these parts read: their units stay."""
    producers = {node.name: node for node in problem.graph}
    inside = set[str]()
    for name, shortcut in problem.propagation.shortcuts.items():
        if not shortcut.whole:
            continue
        inside.add(shortcut.source)
        todo = [name]
        while todo:
            current = todo.pop()
            if current not in inside:
                inside.add(current)
                todo.extend(ref.name for ref in producers[current].refs)
    return inside


def _with_weights(node: Node, read: tuple[Channels, torch.Tensor] | None, own: torch.Tensor | None) -> Node:
    """The operation with the weights D_z A D_v^-1."""
    linear: Linear | None = node.payload
    shape = node.refs[0].info.shape
    if read is not None and linear is not None:
        where, factor = read
        axis = channel_axis(linear, len(shape))
        if where.axis != axis:
            raise RescalingError(f"{node.name} reads the channels along another axis")
        inverse = Scale(1 / factor.repeat_interleave(where.repeat), axis, composed(0.0))
        linear = (scale_rows if isinstance(linear, Scale) else scale_columns)(linear, inverse, axis)
    if own is not None and linear is not None:
        axis = channel_axis(linear, len(node.output.shape))
        if tuple(own.shape) != (node.output.shape[axis],) or own.dtype != torch.float64:
            raise RescalingError(f"{node.name} needs {node.output.shape[axis]} float64 scales")
        if not bool(((own > 0) & torch.isfinite(own)).all()):
            raise RescalingError(f"the scales of {node.name} are not positive and finite")
        linear = scale_rows(linear, Scale(own, axis), axis)
    if linear is None:
        raise RescalingError(f"the weights of {node.name} would be too large or too small for float64")
    return replace(node, payload=linear)


def _passed(
    node: Node, effect: Effect, read: list[tuple[Channels, torch.Tensor] | None]
) -> tuple[Channels, torch.Tensor]:
    """The scales of what a node returns, where it acts on every channel by itself."""
    first, *others = read
    if first is not None and all(
        each is not None and each[0] == first[0] and torch.equal(each[1], first[1]) for each in others
    ):
        channels = passed_channels(node, effect, first[0])
        if channels is not None:
            return channels, first[1]
    raise RescalingError(f"{node.name} ({node.op}) does not act on every channel by itself")


def passed_channels(node: Node, effect: Effect, channels: Channels) -> Channels | None:
    """Where the channels of a node's operands, all alike, stand in what it returns; None unless D f(D^-1 .) has the constants of f."""
    if len(node.outputs) != 1 or effect.status is not Status.FINITE:
        return None
    shapes = [ref.info.shape for ref in node.refs]
    before, after = shapes[0], node.output.shape
    if node.op in _SUMS:
        return channels if all(shape == after for shape in shapes) else None
    if len(shapes) != 1:
        return None
    if returns_its_operand(node) or (before == after and slopes(node, effect.factors[0].upper) is not None):
        return channels
    if node.op in VIEWS:
        return _viewed(channels, before, after)
    if channels.repeat == 1 and _acts_behind(node, channels.axis):
        return channels
    return None


def _viewed(channels: Channels, before: tuple[int, ...], after: tuple[int, ...]) -> Channels | None:
    axis, repeat = channels.axis, channels.repeat
    if axis == len(before) - 1 and after and after[-1] == before[-1]:
        return Channels(len(after) - 1, repeat)
    if before[:axis] != after[:axis] or len(after) <= axis:
        return None
    if after[axis] == before[axis]:
        return channels
    if len(after) == axis + 1:
        return Channels(axis, repeat * math.prod(before[axis + 1 :]))
    return None


def _acts_behind(node: Node, axis: int) -> bool:
    """Whether a node treats the entries before and at an axis as a batch, and all in the same way."""
    dims = len(node.refs[0].info.shape)
    if node.op in _PER_CHANNEL:
        return axis < dims - _PER_CHANNEL[node.op]
    if node.op == "aten.mean.dim":
        dim = node["dim"]
        axes = dim if isinstance(dim, tuple) else (dim,)
        return bool(axes) and all(isinstance(a, int) and a % dims > axis for a in axes)
    if node.op in PADDINGS:
        sides = node.get("pad")
        zeros = node.get("mode") in (None, "constant") and not node.get("value")
        return zeros and isinstance(sides, tuple) and axis < dims - (len(sides) + 1) // 2
    return False
