"""Spaces of some of the frequencies: parts that fit into memory, and the few on which a search begins."""

from __future__ import annotations

import torch

from lipaudit.network.forms.cost import entries
from lipaudit.network.forms.spaces import Space
from lipaudit.network.forms.steps import Program
from lipaudit.network.forms.symbol_space import SymbolSpace

# Complex numbers that the columns of one part may have together; of what is kept, and of what there is at one time, several times over.
_ENTRIES_OF_A_PART, _AT_A_TIME = 30_000_000, 4


def fitting(program: Program, space: SymbolSpace, *, kept: bool) -> int:
    """How many frequencies' forms fit into memory at once, at least one; with or without what is kept for the way forward."""
    numbers = entries(program, space, kept=kept) * (1 if kept else _AT_A_TIME)
    return max(1, _ENTRIES_OF_A_PART // max(numbers, 1))


def in_parts(program: Program, space: Space, *, kept: bool) -> list[Space]:
    """Spaces that have some of the frequencies each, and all of them together, so that the forms of one part fit into memory."""
    if not isinstance(space, SymbolSpace):
        return [space]
    count = fitting(program, space, kept=kept)
    if count >= space.frequencies:
        return [space]
    number = -(-space.frequencies // count)
    return [space.at(part) for part in torch.arange(space.frequencies).tensor_split(number)]


def spread(space: SymbolSpace, count: int) -> torch.Tensor:
    """At most about ``count`` frequencies that are spread evenly over all, the frequency 0 among them: their numbers."""
    points, step = space.points, 1
    while step < max(space.base):
        chosen = (points % step == 0).all(1).nonzero().flatten()
        if len(chosen) <= count:
            break
        step += 1
    else:
        chosen = (points == 0).all(1).nonzero().flatten()
    return chosen
