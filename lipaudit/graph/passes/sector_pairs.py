"""Activations of pairs of entries that are linear on sectors: Householder activations, and the joined positive and negative parts.

A Householder activation reflects the pair (x, y) where it lies on the wrong side of a line, and leaves it where it is otherwise.
Written out it chooses by a condition that depends on the data, which has no finite constant by itself; joined, cat(a(x, y), b(x, y)) is
continuous and preserves norms. The join cat(relu(x), relu(-x)) has the constant 1, not sqrt(2). Whatever the spelling, the joined parts
are one function of the pair, whose matrices and continuity :mod:`lipaudit.graph.functions.sectors` finds. A function that jumps is left as
it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from lipaudit.graph.aliases import canonical
from lipaudit.graph.evaluate import evaluate
from lipaudit.graph.functions.sector_values import NotOnSectorsError
from lipaudit.graph.functions.sectors import OPERATIONS, Sectors, sectors
from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.graph.passes.concatenation import Join, join_of
from lipaudit.graph.passes.equal_nodes import representatives
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NewNodes, NoMatch

SECTOR_PAIRS = "lipaudit.sector_pairs"
_MOST_OPERATIONS = 96
# How far rays and values on them may be apart: four roundings of angles of up to a turn, which may have been added up in that precision.
_TOLERANCES = {torch.float64: 2.0**-46, torch.float32: 2.0**-19}
_NO_PAIR = NoMatch("the parts are no functions of one or two tensors, entry by entry")
_STACK, _CAT = "aten.stack.default", "aten.cat.default"


@dataclass(frozen=True, eq=False)
class SectorPairs:
    """Blocks along ``axis`` that are functions of the blocks of the operand, entry by entry: ``count`` in, ``len(outputs)`` out.

    ``nodes`` compute them from ``leaves``; ``stacked`` says that the blocks are the entries of an axis of their own. ``gap`` is the
    largest jump on the boundary of a sector, relative to the matrices: 0, or a matter of rounding. ``constant`` is that of the l2
    norm, ``sums`` are those of the l-infinity and l1 norm.
    """

    axis: int
    stacked: bool
    leaves: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    constant: float
    sums: tuple[float, float]
    gap: float

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """The function of the joined leaves."""
        blocks = x.unbind(self.axis) if self.stacked else x.chunk(len(self.leaves), self.axis)
        values: dict[str, torch.Tensor | tuple[torch.Tensor, ...]] = dict(zip(self.leaves, blocks, strict=True))
        for node in self.nodes:
            values[node.name] = evaluate(node, values, x.dtype)
        parts = [part for name in self.outputs if isinstance(part := values[name], torch.Tensor)]
        return torch.stack(parts, self.axis) if self.stacked else torch.cat(parts, self.axis)


def matcher(index: GraphIndex) -> Matcher:
    """Matches joins whose parts are functions of one or two tensors that are linear on sectors."""
    same = representatives(index.graph)

    def match(node: Node) -> Match | NoMatch:
        join = join_of(node)
        return OTHER_OPERATION if join is None else _matched(index, node, join, same)

    return match


def _matched(index: GraphIndex, node: Node, join: Join, same: Mapping[str, str]) -> Match | NoMatch:
    outputs = [part for part in join.parts if isinstance(part, Ref)]
    tolerance = _TOLERANCES.get(node.output.dtype, _TOLERANCES[torch.float32])
    if len(outputs) != len(join.parts) or len({ref.info for ref in outputs}) != 1:
        return _NO_PAIR
    cone = _cone(index, outputs, same)
    if cone is None:
        return _NO_PAIR
    leaves, nodes = cone
    names = tuple(same[ref.name] for ref in outputs)
    pieces: Sectors | None = None
    for order in (leaves, leaves[::-1])[: len(leaves)]:  # the angle of (x, y) is written as atan2(y, x)
        try:
            pieces = sectors(nodes, tuple(leaf.name for leaf in order), names, tolerance)
        except NotOnSectorsError as error:
            reason = NoMatch(str(error))
            continue
        leaves = order
        break
    if pieces is None:
        return reason
    if len(leaves) > 1 and _are_apart(nodes, leaves, names) and pieces.stretch_alike:
        return NoMatch("every part is a function of a tensor of its own and stretches alike: a join like any other")
    if pieces.gap > tolerance:
        return NoMatch(f"it jumps by {pieces.gap:.3g} of its size where a condition changes")
    return _replaced(index, node, join, names, leaves, nodes, pieces)


def _replaced(
    index: GraphIndex,
    node: Node,
    join: Join,
    names: tuple[str, ...],
    leaves: tuple[Ref, ...],
    nodes: tuple[Node, ...],
    pieces: Sectors,
) -> Match:
    gap = pieces.gap if len(leaves) > 1 else 0.0  # of one number: both sides are 0 at 0
    constants = pieces.constant, pieces.sums
    payload = SectorPairs(join.axis, join.new, tuple(r.name for r in leaves), names, nodes, *constants, gap)
    new = NewNodes(index, node)
    arguments: dict[str, Argument] = {"tensors": tuple(leaves), "dim": join.axis}
    shape = list(node.output.shape)
    shape[join.axis] = shape[join.axis] // len(names) * len(leaves)
    unordered = leaves[0]
    if len(leaves) > 1 or join.new:
        unordered = new.add("pairs", _STACK if join.new else _CAT, arguments, tuple(shape))
    new.add("chosen", SECTOR_PAIRS, {"self": unordered}, node.output.shape, payload)
    return new.match(SECTOR_PAIRS, tuple(dict.fromkeys(n.name for n in nodes)))


def _are_apart(nodes: tuple[Node, ...], leaves: tuple[Ref, ...], names: tuple[str, ...]) -> bool:
    """Whether no two of the outputs depend on one leaf, none on both, and none chooses by a comparison."""
    if not all(node.output.dtype.is_floating_point for node in nodes):
        return False
    read = {leaf.name: {leaf.name} for leaf in leaves}
    for node in nodes:
        read[node.name] = set().union(*(read[ref.name] for ref in node.refs))
    sources = [read[name] for name in names]
    return all(len(source) == 1 for source in sources) and len(set().union(*sources)) == len(names)


def _cone(
    index: GraphIndex, outputs: list[Ref], same: Mapping[str, str]
) -> tuple[tuple[Ref, ...], tuple[Node, ...]] | None:
    """The one or two tensors that the outputs are computed from entry by entry, and the operations in between.

    What computes the same is one tensor.
    """
    shape, dtype = outputs[0].info.shape, outputs[0].info.dtype
    leaves: dict[str, Ref] = {}
    cone: dict[str, Node] = {}
    waiting = list(outputs)
    while waiting:
        ref = waiting.pop()
        ref = replace(ref, name=same[ref.name])
        if ref.name in cone or ref.name in leaves:
            continue
        node = index.producers[ref.name]
        if canonical(node).op not in OPERATIONS or not _entrywise(node, shape, dtype):
            if ref.info.shape != shape or ref.info.dtype is not dtype:
                return None
            leaves[ref.name] = ref
            if len(leaves) > 2:
                return None
            continue
        cone[ref.name] = replace(node, arguments={k: _first(a, same) for k, a in node.arguments.items()})
        waiting.extend(node.refs)
        if len(cone) > _MOST_OPERATIONS:
            return None
    if not leaves:
        return None
    position: Mapping[str, int] = index.position
    ordered = tuple(sorted(leaves.values(), key=lambda ref: position[ref.name]))
    return ordered, tuple(sorted(cone.values(), key=lambda node: position[node.name]))


def _first(argument: Argument, same: Mapping[str, str]) -> Argument:
    return replace(argument, name=same[argument.name]) if isinstance(argument, Ref) else argument


def _entrywise(node: Node, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Whether operands and output have a shape, and a type or that of booleans."""
    infos = (*node.outputs, *(ref.info for ref in node.refs))
    return len(node.outputs) == 1 and all(i.shape == shape and i.dtype in (dtype, torch.bool) for i in infos)
