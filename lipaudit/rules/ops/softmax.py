"""Softmax, log-softmax and log-sum-exp along an axis."""

from __future__ import annotations

import math

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.induced_facets import same_in_every_norm
from lipaudit.rules.interval_facets import always
from lipaudit.rules.movement import Movement, Neighbourhood, log_softmax_movement, softmax_movement
from lipaudit.rules.norm import Norm
from lipaudit.rules.operands import data, number, numel, root, stretch
from lipaudit.rules.ops.reduction import reduced_axes
from lipaudit.rules.radii_facets import ONE, along_dim
from lipaudit.rules.reduction_movement import logsumexp_movement, slices
from lipaudit.rules.region.axes import reduced
from lipaudit.rules.region.magnitude import Magnitude, Region
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations
from lipaudit.spectral.interval import Interval


def _length(node: Node) -> int:
    shape = data(node, "self").shape
    return shape[int(number(node, "dim"))] if shape else 1


SOFTMAX = operations(*aten("softmax.int"))
LOG_SOFTMAX = operations(*aten("log_softmax.int"))
LOGSUMEXP = operations(*aten("logsumexp"))


@SOFTMAX.constant(formula="1/2", source="J = diag(p) - p p^T, whose norm is at most 1/2", exact=True)
def softmax(node: Node, _settings: Settings) -> Effect:
    """||diag(p) - p p^T|| is largest at p = (1/2, 1/2, 0, ...), where it is 1/2; over one entry softmax is constant."""
    return stretch(node, {"self": 0.5 if _length(node) > 1 else 0.0})


@SOFTMAX.region
def simplex(node: Node, _operands: tuple[Magnitude, ...]) -> Region | None:
    """Probabilities: no entry above 1, no slice of a norm above 1."""
    shape = node.output.shape
    return Region((Radii.of(shape, {(): 1.0, (int(number(node, "dim")),): 1.0}),), 0.0) if shape else None


SOFTMAX.interval(always(Interval(0.0, 1.0)))


@SOFTMAX.movement
def probabilities_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """The probabilities at the centre, and how far they move."""
    return softmax_movement(operands[0], int(number(node, "dim"))) if node.output.shape else None


@LOG_SOFTMAX.constant(
    formula="sqrt(n)", source="J = I - 1 p^T is an oblique projection of norm sqrt(n) ||p||", exact=True
)
def log_softmax(node: Node, _settings: Settings) -> Effect:
    """||I - 1 p^T|| = ||1 p^T|| = sqrt(n) ||p|| <= sqrt(n) over n > 1 entries, approached at unit vectors p."""
    length = _length(node)
    return stretch(node, {"self": root(length) if length > 1 else 0.0})


@LOG_SOFTMAX.movement
def log_probabilities_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """The logarithms of probabilities."""
    return log_softmax_movement(operands[0], int(number(node, "dim"))) if node.output.shape else None


LOG_SOFTMAX.interval(always(Interval(-math.inf, 0.0)))
(SOFTMAX | LOG_SOFTMAX).radii(along_dim)


@LOGSUMEXP.constant(formula="1", source="the gradient is a softmax, of norm at most 1", exact=True)
def logsumexp(node: Node, _settings: Settings) -> Effect:
    """The gradient is the vector of softmax probabilities; ||p|| <= 1, approached as p tends to a unit vector."""
    return stretch(node, {"self": 1.0})


@LOGSUMEXP.movement
def logsumexp_moves(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """The gradients, softmax probabilities, move."""
    rows = slices(operands[0], reduced_axes(node, operands[0].centre.dim()))
    return logsumexp_movement(rows, node.output.shape)


@LOGSUMEXP.radii
def logsumexp_radii(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The probabilities add up to 1: an entry strays by at most the largest deviation in its slice."""
    gone = reduced_axes(node, len(operands[0].shape))
    return (reduced(operands[0], gone, node.output.shape, effect.factors[0], ONE, spread=False),)


@LOGSUMEXP.interval
def logsumexp_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """From the largest entry to that plus log(n) for n entries."""
    count = numel(data(node, "self")) // max(1, numel(node.output))
    return intervals[0] + Interval(0.0, Interval.point(float(max(1, count))).log().high)


@SOFTMAX.induced_norm
def softmax_in_norm(node: Node, _effect: Effect, _norm: Norm) -> Effect:
    """J = diag(p) - p p^T is symmetric, and row i has the moduli p_i (1 - p_i) and p_i p_j: 2 p_i (1 - p_i) <= 1/2 in all."""
    return stretch(node, {"self": 0.5 if _length(node) > 1 else 0.0})


@LOG_SOFTMAX.induced_norm
def log_softmax_in_norm(node: Node, _effect: Effect, norm: Norm) -> Effect:
    """J = I - 1 p^T: row i sums to 2 (1 - p_i) <= 2, column j to 1 - p_j + (n - 1) p_j <= n - 1 over n > 1 entries."""
    length = _length(node)
    return stretch(node, {"self": 0.0 if length == 1 else 2.0 if norm is Norm.LINF else float(length - 1)})


LOGSUMEXP.induced_norm(same_in_every_norm)  # the gradient p has entries of at most 1, which add up to 1
