"""What rules ask of a node's operands: sizes, constants, and one factor per data-dependent input in the right order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import torch

from lipaudit.errors import GraphError
from lipaudit.graph.node import Argument, Constant, Node, Ref, TensorInfo
from lipaudit.rules.effect import Combination, Effect
from lipaudit.spectral.bracket import Bracket, log_down, log_up
from lipaudit.spectral.interval import Interval


def stretch(
    node: Node,
    factors: Mapping[str, Bracket | float],
    combination: Combination = Combination.SUM,
    note: str = "",
) -> Effect:
    """A finite effect from factors by argument name.

    An argument of several tensors gives its factor to each. ``unsupported`` where an argument without a factor depends
    on the data: a rule that reads a weight as a constant must never read a data-dependent one.
    """
    ordered: list[Bracket | float] = []
    for name, argument in node.arguments.items():
        count = count_refs(argument)
        if count == 0:
            continue
        if name not in factors:
            return Effect.unsupported(
                f"{name} of {node.op} depends on the network's input; the rule holds for a constant {name} only"
            )
        ordered += [factors[name]] * count
    return Effect.stretch(*ordered, combination=combination, note=note)


def count_refs(argument: Argument) -> int:
    """The number of data-dependent tensors in an argument."""
    if isinstance(argument, tuple):
        return sum(count_refs(part) for part in argument)
    return int(isinstance(argument, Ref))


def shape_of(argument: Argument) -> tuple[int, ...]:
    """The shape of a tensor argument; a plain number has shape ()."""
    if isinstance(argument, Ref):
        return argument.info.shape
    return tuple(argument.value.shape) if isinstance(argument, Constant) else ()


def numel(info: TensorInfo) -> int:
    """The number of elements."""
    return math.prod(info.shape)


def data(node: Node, key: str) -> TensorInfo:
    """What is known of the tensor argument ``key``, constant or not."""
    argument = node[key]
    if isinstance(argument, Ref):
        return argument.info
    if isinstance(argument, Constant):
        return TensorInfo(tuple(argument.value.shape), argument.dtype)
    raise GraphError(f"argument {key!r} of node {node.name} ({node.op}) is not a tensor: {argument!r}")


def constant(node: Node, key: str) -> torch.Tensor | None:
    """The real constant ``key``, tensor or number, in float64 on the CPU; None where there is none.

    The conversion is exact for every floating dtype and for integers below 2^53.
    """
    argument = node.get(key)
    if isinstance(argument, Constant) and not argument.value.is_complex():
        return argument.value.detach().to("cpu", torch.float64)
    if isinstance(argument, bool | int | float):
        return torch.tensor(float(argument), dtype=torch.float64)
    return None


def along_channels(values: torch.Tensor, dims: int) -> torch.Tensor:
    """One number per channel, which axis 1 counts, or one for all, in a shape that fits a tensor with so many axes."""
    return values.reshape(() if values.numel() == 1 else (-1, *(1,) * max(0, dims - 2)))


def number(node: Node, key: str) -> float:
    """The number ``key``; a constant tensor of one element counts as one."""
    argument = node[key]
    if isinstance(argument, bool | int | float):
        return float(argument)
    if isinstance(argument, Constant) and argument.value.numel() == 1 and not argument.value.is_complex():
        return float(argument.value)
    raise GraphError(f"argument {key!r} of node {node.name} ({node.op}) is not a number: {argument!r}")


def integers(node: Node, key: str, axes: int) -> tuple[int, ...]:
    """A list of integers, one per axis; a single one counts for every axis."""
    argument = node[key]
    values = argument if isinstance(argument, tuple) else (argument,)
    if not all(isinstance(v, int) for v in values):
        raise GraphError(f"argument {key!r} of node {node.name} ({node.op}) is not made of integers: {argument!r}")
    sizes = cast(tuple[int, ...], values)
    return sizes * axes if len(sizes) == 1 else sizes


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether no entry is NaN or infinite."""
    return bool(torch.isfinite(tensor).all())


def largest(tensor: torch.Tensor | None) -> float:
    """max |entry|, 1 for an absent tensor (an absent scale), 0 for an empty one; exact."""
    if tensor is None:
        return 1.0
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def rounded(value: float, relative_error: float = 2.0**-50) -> Bracket:
    """The bracket of a non-negative number computed with at most ``relative_error`` (a few roundings by default).

    Near the smallest floats a rounding is no longer small beside the number, but at most 2^-1075; that is counted for each of the
    relative_error / 2^-53 roundings.
    """
    underflow = math.ldexp(math.ceil(relative_error * 2.0**53), -1075) if 0 < value < 2.0**-1000 else 0.0
    return Bracket(
        log_down(max(0.0, value * (1 - relative_error) - underflow)), log_up(value * (1 + relative_error) + underflow)
    )


def enclosed(values: Interval) -> Bracket:
    """The bracket of a non-negative constant in an interval that was rounded outwards."""
    return Bracket.between(max(0.0, values.low), values.high)


def root(count: int) -> Bracket:
    """The square root of an integer."""
    whole = math.isqrt(count)
    return Bracket.exact(float(whole)) if whole * whole == count else rounded(math.sqrt(count))


def inverse_root(count: float) -> Bracket:
    """1 / sqrt(count), exact where that is a power of two."""
    value = 1 / math.sqrt(count)
    return Bracket.exact(value) if math.frexp(value)[0] == 0.5 and value * value * count == 1 else rounded(value)


def is_float(info: TensorInfo) -> bool:
    """Whether the tensor holds real floating-point numbers."""
    return info.dtype.is_floating_point


def repeats(argument: Argument, output: TensorInfo) -> int:
    """How often each element of an operand occurs when it is broadcast to the output's shape."""
    return numel(output) // max(1, math.prod(shape_of(argument)))


def interval_of_operand(node: Node, key: str, intervals: tuple[Interval, ...]) -> Interval:
    """The interval that holds every entry of an operand: a data-dependent one's among ``intervals``, a constant's own."""
    argument = node[key]
    if isinstance(argument, Ref):
        position = sum(count_refs(a) for k, a in list(node.arguments.items())[: list(node.arguments).index(key)])
        return intervals[position]
    if isinstance(argument, int | float):
        return interval_of_number(argument)
    return interval_of_constant(argument) if isinstance(argument, Constant) else Interval()


def intervals_of_parts(argument: Argument, intervals: tuple[Interval, ...]) -> list[Interval]:
    """The interval of every tensor in a list; ``intervals`` are those of the data-dependent ones."""
    known = iter(intervals)
    parts = argument if isinstance(argument, tuple) else (argument,)
    return [
        next(known) if isinstance(p, Ref) else interval_of_constant(p) if isinstance(p, Constant) else Interval()
        for p in parts
    ]


def interval_of_constant(tensor: Constant) -> Interval:
    """From the smallest to the largest entry; of an unknown, complex or empty tensor, or one with NaN, nothing is known."""
    value = tensor.value.detach()
    if not tensor.known or value.is_meta or value.is_complex() or value.numel() == 0:
        return Interval()
    if not value.is_floating_point():
        low, high = (int(end) for end in (value.min(), value.max()))
        return Interval.of(low).union(Interval.of(high))
    value = value.to("cpu", torch.float64)
    return Interval() if bool(value.isnan().any()) else Interval(float(value.min()), float(value.max()))


def interval_of_number(value: float) -> Interval:
    """A number that a node holds; an integer may be none that a float can be."""
    return Interval.of(value) if isinstance(value, int) else Interval.point(value)


def interval_of_factor(node: Node, key: str) -> Interval:
    """A weight of a sum, a number or a constant of one entry, 1 where it is missing; of a complex one nothing is known."""
    argument: Argument = node.get(key, 1)
    if isinstance(argument, int | float):
        return interval_of_number(argument)
    single = isinstance(argument, Constant) and argument.value.numel() == 1
    return interval_of_constant(argument) if isinstance(argument, Constant) and single else Interval()
