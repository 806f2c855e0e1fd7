"""Ranges of functions of one variable over many intervals of it at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import torch

from lipaudit.graph.functions.expression import Tape
from lipaudit.spectral import interval_arrays as arrays
from lipaudit.spectral.interval import Interval

_FUNCTIONS = {
    name: getattr(arrays, name)
    for name in ("exp", "log", "sigmoid", "softplus", "erf", "sin", "cos", "atan", "asinh", "absolute")
}


@dataclass(frozen=True)
class Ranges:
    """Ranges of terms over n intervals, as tensors of shape (2, n); ``branching`` marks intervals with both branches of a choice."""

    values: dict[int, torch.Tensor]
    branching: torch.Tensor


def ranges(tape: Tape, roots: Iterable[int], x: torch.Tensor) -> Ranges:
    """The ranges of functions over the intervals ``x`` of shape (2, n)."""
    values: dict[int, torch.Tensor] = {}
    branching = torch.zeros(x.shape[1], dtype=torch.bool)
    for number in tape.needed(roots):
        term = tape.terms[number]
        reads = [values[t] for t in term.reads]
        match term.kind:
            case "x":
                value = x
            case "constant":
                value = torch.tensor(ends(*term.numbers), dtype=torch.float64)[:, None].expand(2, x.shape[1])
            case "sum":
                weights = [ends(c, c) for c in term.numbers[1:]]
                value = arrays.linear(ends(term.numbers[0], term.numbers[0]), list(zip(weights, reads, strict=True)))
            case "product":
                parts = [arrays.power(base, p) for base, p in zip(reads, term.numbers, strict=True)]
                value = parts[0]
                for part in parts[1:]:
                    value = arrays.times(value, part)
            case "maximum":
                value = torch.maximum(*reads)
            case "step" | "select":
                up, down = reads[0][0] > 0, reads[0][1] < 0
                if term.kind == "step":
                    value = torch.stack((up.to(x.dtype), 1 - down.to(x.dtype)))
                else:
                    both = arrays.hull(reads[1], reads[2])
                    value = torch.where(up, reads[1], torch.where(down, reads[2], both))
                branching |= ~(up | down)
            case kind:
                value = _FUNCTIONS[kind](*reads)
        values[number] = value
    return Ranges(values, branching)


def defined(tape: Tape, root: int, enclosures: Ranges) -> torch.Tensor:
    """Whether a function is defined on all of each interval: nothing in it is divided by zero, no root or logarithm outside its domain.

    The range alone does not tell: that of tanh(1 / x) is finite around 0.
    """
    result = torch.ones_like(enclosures.branching)
    for number in tape.needed([root]):
        term = tape.terms[number]
        if term.kind == "log":
            result &= enclosures.values[term.reads[0]][0] > 0
        if term.kind == "product":
            for base, p in zip(term.reads, term.numbers, strict=True):
                low, high = enclosures.values[base]
                if p.denominator != 1:
                    result &= (low >= 0) if p > 0 else (low > 0)
                elif p < 0:
                    result &= (low > 0) | (high < 0)
    return result


def ends(low: Fraction, high: Fraction) -> tuple[float, float]:
    """Floats around a number."""
    return Interval.of(low).low, Interval.of(high).high


def defined_over(tape: Tape, root: int, low: float, high: float) -> bool:
    """Whether a function is surely defined on all of one interval."""
    x = torch.tensor([[low], [high]], dtype=torch.float64)
    return bool(defined(tape, root, ranges(tape, [root], x)))


def range_over(tape: Tape, root: int, low: float, high: float) -> Interval:
    """The range of a function over one interval, without subdivision."""
    x = torch.tensor([[low], [high]], dtype=torch.float64)
    values = ranges(tape, [root], x).values[root]
    return Interval(float(values[0, 0]), float(values[1, 0]))


def cells(points: list[float]) -> torch.Tensor:
    """The intervals between neighbouring points, shape (2, n)."""
    line = torch.tensor(points, dtype=torch.float64)
    return torch.stack((line[:-1], line[1:]))


def line(low: float, high: float) -> list[float]:
    """Points from ``low`` to ``high``, denser around 0: powers of two between both, and equal parts."""
    top = max(abs(low), abs(high))
    powers = [2.0**k for k in range(-8, min(1000, math.frexp(top)[1]) + 1)]
    parts = [low + k * (high - low) / 8 for k in range(1, 8)] if high - low < 1e300 else []
    return [low, *(p for p in sorted({0.0, *powers, *(-p for p in powers), *parts}) if low < p < high), high]
