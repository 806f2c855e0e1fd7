"""The units in which a search for forms begins: those of a certificate, or balanced ones where the product of the norms is less in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from lipaudit.graph.linear import WEIGHTED, Dense, Linear, Scale
from lipaudit.graph.node import Node
from lipaudit.network.balancing import balanced_scales
from lipaudit.network.bound import Problem
from lipaudit.network.forms.certificate import CertificateError
from lipaudit.network.rescaling import RescalingError, rescaled

# Units that gain less than this, in log L, are not changed: by what was estimated, and by the norms.
_NOTHING = 1e-3
# What the norm of a convolution takes: on the pixels of its output, and on the matrix of its taps.
_PER_PIXEL, _PER_TAP = 150.0, 6.0
_PER_NORM, _PER_MATRIX = 1e7, 2.0


@dataclass(frozen=True, eq=False)
class Units:
    """The problem in other units, the scales that they come from (none: it is as it was), and the operations that took."""

    problem: Problem
    scales: Mapping[str, torch.Tensor] = field(default_factory=dict)
    spent: float = 0.0


def balanced_units(problem: Problem) -> Units:
    """The problem in the units of its warm start, or in balanced ones; as it is where that gains nothing.

    The norms of the rescaled weights take about as long as those of the weights, whatever work is allowed.

    Raises:
        CertificateError: if the warm start is of another architecture.
    """
    if problem.warm_start is not None:
        scales = problem.warm_start.scales
        try:
            return Units(rescaled(problem, scales), scales, _norms_cost(problem, scales)) if scales else Units(problem)
        except RescalingError as error:
            raise CertificateError(f"its scales do not fit, {error}") from None
    scales, gain = balanced_scales(problem)
    if gain < _NOTHING:
        return Units(problem)
    spent = _norms_cost(problem, scales)
    try:
        balanced = rescaled(problem, scales)
    except RescalingError:  # weights beyond the range of float64
        return Units(problem)
    gained = problem.propagation.network.log_upper - balanced.propagation.network.log_upper
    return Units(balanced, scales, spent) if gained > _NOTHING else Units(problem, spent=spent)


def _norms_cost(problem: Problem, scales: Mapping[str, torch.Tensor]) -> float:
    """Operations for the norms of all weights at one of whose ends the units change, by formula."""
    changed = set(scales)
    total = 0.0
    for node in problem.graph:
        if node.op == "input":
            continue
        reads = any(ref.name in changed for ref in node.refs)
        if node.op in WEIGHTED:
            if reads or node.name in scales:
                total += _norm_cost(node)
        elif reads:
            changed.add(node.name)
    return total


def _norm_cost(node: Node) -> float:
    linear: Linear = node.payload
    if isinstance(linear, Scale):
        return _PER_NORM
    if isinstance(linear, Dense):
        rows, columns = map(int, linear.weight.shape)
        return _PER_NORM + _PER_MATRIX * rows * columns * min(rows, columns)
    rows, columns, *sizes = map(int, linear.weight.shape)
    taps, each = math.prod(sizes), min(max(rows // linear.groups, 1), columns)
    if taps == 1:
        return _PER_NORM + _PER_MATRIX * rows * columns * each
    pixels = math.prod(linear.input_size if linear.transposed else linear.output_size)
    return _PER_NORM + rows * columns * (_PER_PIXEL * pixels + _PER_TAP * taps * each)
