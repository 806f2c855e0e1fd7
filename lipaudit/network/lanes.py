"""Parts that act on disjoint entries of one tensor and are joined again: cat(f(a), g(b)) for a tensor of the parts a and b.

|cat(f(a), g(b)) - cat(f(a'), g(b'))|^2 <= c_f^2 |a - a'|^2 + c_g^2 |b - b'|^2 <= max(c_f, c_g)^2 |x - x'|^2: the constant is the largest of
the lanes', where the product rule has the root of the sum of their squares. Reversible and concatenated residual blocks are of this kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from lipaudit.graph.evaluate import evaluate
from lipaudit.graph.node import Node, Ref
from lipaudit.graph.ops import aten
from lipaudit.graph.passes.concatenation import join_of
from lipaudit.network.part import Part, Shortcut
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Bracket

# Operations that only select entries of a tensor.
_SELECTIONS = frozenset(
    aten("split_with_sizes", "slice.Tensor", "select.int", "index_select", "reshape", "permute", "clone", "unbind.int")
) | {"getitem"}
_MOST_ENTRIES, _MOST_OPERATIONS = 2**22, 256


def lanes(node: Node, part: Part) -> Shortcut | None:
    """The constant of a join whose parts read disjoint selections of one tensor."""
    join = join_of(node)
    if join is None or len(join.parts) < 2 or not all(isinstance(each, Ref) for each in join.parts):
        return None
    ends = [_lane(each, part) for each in join.parts if isinstance(each, Ref)]
    for source in ends[0]:
        if not all(source in end for end in ends):
            continue
        together = torch.cat([end[source][0] for end in ends])
        if len(together) == len(torch.unique(together)):
            return Shortcut(source, Bracket.maximum(end[source][1] for end in ends), "parallel lanes")
    return None


def _lane(ref: Ref, part: Part) -> dict[str, tuple[torch.Tensor, Bracket]]:
    """The tensors of which a lane selects entries, the nearest first: their numbers, and the constant from there to its end.

    Selections of entries that are each taken once have the constant 1, so that a lane may begin before them, and not before others.
    """
    node, factor = part.producers[ref.name], Bracket.exact(1.0)
    sources: dict[str, tuple[torch.Tensor, Bracket]] = {}
    for _ in range(_MOST_OPERATIONS):
        selections: list[Node] = []
        while node.op in _SELECTIONS and len(node.refs) == 1:
            selections.append(node)
            node = part.producers[node.refs[0].name]
        if selections:
            entries = _entries(part, node.name, selections[::-1])
            if entries is None:
                break
            sources[node.name] = entries, Bracket(-math.inf, factor.log_upper, factor.rigor)
        shortcut = part.shortcuts.get(node.name)
        if shortcut is not None:
            factor, node = factor * shortcut.factor, part.producers[shortcut.source]
            continue
        effect = part.effects.get(node.name)
        if effect is None or effect.status is not Status.FINITE or len(node.refs) != 1 or len(node.outputs) != 1:
            break
        factor, node = factor * effect.factors[0], part.producers[node.refs[0].name]
    return sources


def _entries(part: Part, source: str, selections: Sequence[Node]) -> torch.Tensor | None:
    """The numbers of the entries that are selected, each once; None where one is selected twice, or there are too many."""
    outputs = part.producers[source].outputs
    size = math.prod(outputs[0].shape)
    if len(outputs) != 1 or size > _MOST_ENTRIES:
        return None
    values: dict[str, torch.Tensor | tuple[torch.Tensor, ...]] = {
        source: torch.arange(size, dtype=torch.int64).reshape(outputs[0].shape)
    }
    for node in selections:
        values[node.name] = evaluate(node, values)
    entries = values[selections[-1].name]
    if not isinstance(entries, torch.Tensor):
        return None
    flat = entries.flatten()
    return flat if len(flat) == len(torch.unique(flat)) else None
