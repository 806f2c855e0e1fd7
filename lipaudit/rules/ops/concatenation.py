"""Operations that put several tensors into disjoint entries of one, or pick one of several tensors in every entry.

||f(x, y) - f(x', y')||^2 <= c_x^2 ||x - x'||^2 + c_y^2 ||y - y'||^2: the constants join as the root of the sum of
squares.
"""

from __future__ import annotations

import math

import torch

from lipaudit.graph.node import Constant, Node
from lipaudit.graph.passes.max_min_pairs import ORDERED_PAIRS
from lipaudit.rules.effect import Combination, Effect, Settings
from lipaudit.rules.index_probe import PROBE_LIMIT, largest_count
from lipaudit.rules.operands import count_refs, is_float, repeats, root, shape_of, stretch
from lipaudit.rules.ops.scatter import accumulated
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import passes, ranged, rule
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

DISJOINT = "the inputs land in disjoint entries"
# Every entry of the result is one of the target's or one of the source's, each at most once.
_PLACES = ("index", "indices", "mask")
_WITHOUT_COPIES = {"slice_scatter", "select_scatter", "diagonal_scatter"}


@rule(
    "aten.cat.default", "aten.concat.default", "aten.concatenate.default", "aten.stack.default", "aten.hstack.default",
    "aten.vstack.default",
    formula="1 each, root of the sum of squares", source=DISJOINT, exact=True,
)  # fmt: skip
def concatenate(node: Node, _settings: Settings) -> Effect:
    """Concatenation and stacking."""
    return stretch(node, {"tensors": 1.0}, Combination.ROOT_SUM_SQUARES)


@rule(
    "aten.slice_scatter.default", "aten.select_scatter.default", "aten.diagonal_scatter.default", "aten.copy.default",
    "aten.index_put.default", "aten.scatter.src", "aten.scatter.value", "aten.masked_scatter.default",
    formula="sqrt(largest number of copies) each, root of the sum of squares", source=DISJOINT, exact=True,
)  # fmt: skip
def overwrite(node: Node, _settings: Settings) -> Effect:
    """Writes one tensor into a part of another: the index probe counts what remains of each."""
    name = node.op.split(".")[1]
    if node.get("accumulate"):
        return accumulated(node)
    if not is_float(node.output):
        return Effect.unbounded(f"{name} into a tensor of {node.output.dtype} rounds, a jump")
    for key in _PLACES:
        if count_refs(node.get(key)):
            return Effect.unsupported(f"{name} at data-dependent places jumps")
    if name == "copy":
        copied = root(repeats(node["src"], node.output))
        return stretch(node, {"self": 0.0, "src": copied}, Combination.ROOT_SUM_SQUARES)
    if not all(constant.known for constant in _places(node)):
        # where the weights are unknown something may remain of each
        return Effect.stretch(*[1.0] * len(node.refs), combination=Combination.ROOT_SUM_SQUARES)
    if sum(math.prod(ref.info.shape) for ref in node.refs) + math.prod(node.output.shape) > PROBE_LIMIT:
        if name in _WITHOUT_COPIES:
            return stretch(node, {"self": 1.0, "src": 1.0}, Combination.ROOT_SUM_SQUARES)
        return Effect.unsupported(
            f"counting the copies that {name} makes takes more than {PROBE_LIMIT} elements; audit a smaller input"
        )
    factors = [root(largest_count(node.op, node.arguments, i)) for i in range(len(node.refs))]
    return Effect.stretch(*factors, combination=Combination.ROOT_SUM_SQUARES)


def _places(node: Node) -> list[Constant]:
    """The constants that say where an operation writes."""
    found: list[Constant] = []
    for key in _PLACES:
        argument = node.get(key)
        found += [a for a in (argument if isinstance(argument, tuple) else (argument,)) if isinstance(a, Constant)]
    return found


@rule(
    "aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf",
    formula="sqrt(largest number of copies) each, root of the sum of squares",
    source="every entry picks one of two inputs by a constant condition", exact=True,
)  # fmt: skip
def where(node: Node, _settings: Settings) -> Effect:
    """Picks by a constant condition; a data-dependent condition makes the result jump from one input to the other."""
    if count_refs(node["condition"]):
        return Effect.unbounded(
            "where picks by a data-dependent condition: the result jumps where the condition changes"
        )
    return _picked(node, node["condition"], "self", "other")


@rule(
    "aten.masked_fill.Scalar", "aten.masked_fill.Tensor",
    formula="1 where the mask leaves the input, root of the sum of squares",
    source="every entry picks one of two inputs by a constant mask", exact=True,
)  # fmt: skip
def masked_fill(node: Node, _settings: Settings) -> Effect:
    """Fills a constant mask with a value; a data-dependent mask makes the result jump."""
    if count_refs(node["mask"]):
        return Effect.unbounded("masked_fill with a data-dependent mask jumps where the mask changes")
    return _picked(node, node["mask"], "value", "self")


def _picked(node: Node, condition: object, yes: str, no: str) -> Effect:
    """Each element of ``yes`` counts once per entry of the output that it reaches where the condition holds."""
    if not isinstance(condition, Constant):
        return Effect.unsupported(f"{node.op.split('.')[1]} with a condition that is no tensor")
    mask = condition.value.detach().to("cpu", torch.bool)
    anywhere = torch.ones_like(mask)
    factors: dict[str, Bracket | float] = {}
    for key, chosen in ((yes, mask if condition.known else anywhere), (no, ~mask if condition.known else anywhere)):
        if count_refs(node[key]):
            factors[key] = root(_largest_reach(chosen, shape_of(node[key]), node.output.shape))
    return stretch(node, factors, Combination.ROOT_SUM_SQUARES)


def _largest_reach(chosen: torch.Tensor, shape: tuple[int, ...], output: tuple[int, ...]) -> int:
    """The largest number of chosen output entries that one element of an operand of ``shape`` is broadcast to."""
    axes = len(output)
    operand = (1,) * (axes - len(shape)) + shape
    counts = chosen.to(torch.int64).reshape((1,) * (axes - chosen.dim()) + tuple(chosen.shape))
    copies = 1
    for axis in range(axes):
        if operand[axis] == 1 and output[axis] > 1:
            if counts.shape[axis] == 1:
                copies *= output[axis]
            else:
                counts = counts.sum(axis, keepdim=True)
    return copies * (int(counts.max()) if counts.numel() else 0)


@rule(
    "aten.maximum.default", "aten.minimum.default", "aten.max.other", "aten.min.other", "aten.fmax.default",
    "aten.fmin.default", "aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor",
    formula="sqrt(copies by broadcasting) each, root of the sum of squares",
    source="|max(a, b) - max(a', b')| <= max(|a - a'|, |b - b'|) in every entry", exact=True,
)  # fmt: skip
def extremum(node: Node, _settings: Settings) -> Effect:
    """The larger or smaller of several tensors in every entry."""
    factors: dict[str, Bracket | float] = {
        name: root(repeats(argument, node.output)) for name, argument in node.arguments.items() if count_refs(argument)
    }
    return stretch(node, factors, Combination.ROOT_SUM_SQUARES)


@rule(
    ORDERED_PAIRS,
    formula="1",
    source="order statistics: sorting brings two vectors no further apart",
    exact=True,
)
def ordered_pairs(node: Node, _settings: Settings) -> Effect:
    """Pairs of entries put in order (MaxMin, GroupSort of pairs), other entries left where they are."""
    return stretch(node, {"self": 1.0})


@passes(ORDERED_PAIRS)
def ordered_radii(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A slice along the axis of the pairs is ordered by itself; an entry strays as far as the farther one of its pair.

    A slice across that axis holds of every pair one entry: at most what both stray, sqrt(2) times as far as one.
    """
    axis = node.payload.axis
    logs = {
        axes: log if not axes or axis in axes else (root(2) * Bracket(-math.inf, log)).log_upper
        for axes, log in operands[0].radii.logs.items()
    }
    return (Radii(node.output.shape, logs).sharpest(),)


@ranged(ORDERED_PAIRS)
def ordered_range(_node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """The same entries in another order."""
    return intervals[0]
