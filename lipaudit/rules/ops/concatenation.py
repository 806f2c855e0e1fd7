"""Operations that put several tensors into disjoint entries of one: concatenation, and writing one tensor into a part of another.

||f(x, y) - f(x', y')||^2 <= c_x^2 ||x - x'||^2 + c_y^2 ||y - y'||^2: the constants join as the root of the sum of
squares.
"""

from __future__ import annotations

import math
from functools import reduce

from lipaudit.graph.node import Constant, Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Combination, Effect, Settings
from lipaudit.rules.index_probe import PROBE_LIMIT, largest_count
from lipaudit.rules.induced_facets import picked
from lipaudit.rules.norm import Norm
from lipaudit.rules.operands import (
    count_refs,
    interval_of_operand,
    intervals_of_parts,
    is_float,
    number,
    repeats,
    root,
    stretch,
)
from lipaudit.rules.ops.scatter import accumulated
from lipaudit.rules.radii_facets import whole_tensor
from lipaudit.rules.region.axes import followed
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Axes, Radii, merged
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

DISJOINT = "the inputs land in disjoint entries"
# Every entry of the result is one of the target's or one of the source's, each at most once.
_PLACES = ("index", "indices", "mask")
_WITHOUT_COPIES = {"slice_scatter", "select_scatter", "diagonal_scatter"}


CAT = operations(*aten("cat"))
STACK = operations(*aten("stack"))
# along the second axis, the first one of vectors
HSTACK = operations(*aten("hstack"))
# along the first axis, of which a vector is one entry
VSTACK = operations(*aten("vstack"))
OVERWRITE = operations(
    *aten("slice_scatter", "select_scatter", "diagonal_scatter", "copy", "index_put", "scatter.src", "scatter.value", "masked_scatter")
)  # fmt: skip


@operations(*CAT.names, *STACK.names, *HSTACK.names, *VSTACK.names).constant(
    formula="1 each, root of the sum of squares", source=DISJOINT, exact=True
)
def concatenate(node: Node, _settings: Settings) -> Effect:
    """Concatenation and stacking."""
    return stretch(node, {"tensors": 1.0}, Combination.ROOT_SUM_SQUARES)


@operations(*CAT.names, *STACK.names, *HSTACK.names, *VSTACK.names).interval
def entries_of_all(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of all of the operands, constants among them."""
    return reduce(Interval.union, intervals_of_parts(node["tensors"], intervals))


@CAT.radii
def joined_along_axis(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A slice across the joined axis consists of one slice of each, another one is a slice of one of them."""
    return (_cat(operands, int(number(node, "dim")), node.output.shape),)


def _cat(operands: tuple[Magnitude, ...], dim: int, shape: tuple[int, ...]) -> Radii:
    axis = dim % len(shape)
    parts = [m.radii for m in operands if len(m.shape) == len(shape)]
    wanted = {frozenset(), frozenset(range(len(shape)))}.union(*(r.logs for r in parts))
    bounds: dict[tuple[int, ...], float | Bracket] = {
        tuple(t): (Bracket.root_sum_squares if axis in t else Bracket.maximum)([r.over(t) for r in parts])
        for t in wanted
    }
    return Radii.of(shape, bounds).sharpest()


@STACK.radii
def stacked_along_axis(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Tensors along a new axis."""
    return (_stack(operands, int(number(node, "dim")), node.output.shape),)


def _stack(operands: tuple[Magnitude, ...], dim: int, shape: tuple[int, ...]) -> Radii:
    axis = dim % len(shape)
    parts = [followed(m.radii, shape, lambda a: a + (a >= axis)) for m in operands]
    wanted = {frozenset(), frozenset(range(len(shape)))}.union(*(r.logs for r in parts))
    bounds: dict[tuple[int, ...], float | Bracket] = {}
    for t in wanted:
        slices = [m.radii.over(a - (a > axis) for a in t - {axis}) for m in operands]
        bounds[tuple(t)] = (Bracket.root_sum_squares if axis in t else Bracket.maximum)(slices)
    return Radii.of(shape, bounds).sharpest()


@HSTACK.radii
def joined_side_by_side(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Numbers are stacked to a vector, vectors and tensors are joined."""
    return _joined(node, effect, operands, axis=0 if len(node.output.shape) == 1 else 1)


@VSTACK.radii
def joined_on_top(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Vectors are stacked to a matrix, tensors are joined."""
    return _joined(node, effect, operands, axis=0)


def _joined(node: Node, effect: Effect, operands: tuple[Magnitude, ...], axis: int) -> tuple[Radii, ...]:
    shape = node.output.shape
    ranks = {len(m.shape) for m in operands}
    if ranks == {len(shape)}:
        return (_cat(operands, axis, shape),)
    return (_stack(operands, 0, shape),) if ranks == {len(shape) - 1} else whole_tensor(node, effect, operands)


@OVERWRITE.constant(
    formula="sqrt(largest number of copies) each, root of the sum of squares", source=DISJOINT, exact=True
)
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
    constants: list[Constant] = []
    for key in _PLACES:
        argument = node.get(key)
        constants += [a for a in (argument if isinstance(argument, tuple) else (argument,)) if isinstance(a, Constant)]
    return constants


@OVERWRITE.radii
def overwritten(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every entry is one of the target's or one of the source's, unless they are added."""
    whole = whole_tensor(node, effect, operands)
    if node.get("accumulate"):
        return whole
    entries = Bracket.maximum([m.spread(()) for m in operands])
    return (merged(whole[0], {Axes(): entries.log_upper}),)


@OVERWRITE.interval
def overwritten_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Entries of the target or of the source, unless they are added."""
    if node.get("accumulate"):
        return Interval()
    keys = [key for key in ("self", "src", "value", "values", "source") if key in node.arguments]
    return reduce(Interval.union, [interval_of_operand(node, key, intervals) for key in keys])


for _group in (CAT, STACK, HSTACK, VSTACK):
    _group.induced_norm(picked)


@OVERWRITE.induced_norm
def overwritten_in_norm(node: Node, effect: Effect, norm: Norm) -> Effect:
    """Every entry is one of the target's or one of the source's, unless they are added."""
    if node.get("accumulate"):
        return Effect.unsupported(f"{node.op.split('.')[1]} that adds has no rule in the {norm.value} norm")
    return picked(node, effect, norm)
