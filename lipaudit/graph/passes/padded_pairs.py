"""Pairs of which one entry is a copy: MaxMin of an odd number of channels.

The last channel is repeated, pairs of channels are put in order, and the last channel of the result is dropped. As a copy, an order and a
cut this would count sqrt(2). It only puts pairs of different channels in order: a pair of a channel and its copy is in order already.

Which channel an entry comes from, and with which one it was compared, is followed through copies, views and cuts by numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from lipaudit.graph.evaluate import evaluate_together
from lipaudit.graph.node import Constant, Node
from lipaudit.graph.ops import VIEWS
from lipaudit.graph.passes.max_min_pairs import ORDERED_PAIRS, OrderedPairs
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NewNodes, NoMatch

_SLICE, _SELECT, _PAD = "aten.slice.Tensor", "aten.index_select.default", "aten.pad.default"
_COPIES = ("replicate", "reflect", "circular")
_NO_COPY = NoMatch("what is put in order in pairs has no copied entries")
_OTHERS = NoMatch("what is left are not pairs of channels and single channels, each of them once")
# Numbers of entries are exact in float64.
_MOST_ENTRIES = 2**24


def matcher(index: GraphIndex) -> Matcher:
    """Matches cuts of ordered pairs of copied channels."""

    def match(node: Node) -> Match | NoMatch:
        if node.op != _SLICE:
            return OTHER_OPERATION
        after = _chain(index, node, lambda n: n.op in VIEWS)
        pairs = index.producers[after[0].refs[0].name]
        if pairs.op != ORDERED_PAIRS:
            return OTHER_OPERATION
        before = _chain(index, pairs, lambda n: n.op in VIEWS or _copies(n))[:-1]
        first = next((place for place, each in enumerate(before) if _copies(each)), None)
        return _NO_COPY if first is None else _in_order(index, node, before[first:], pairs, after)

    return match


def _copies(node: Node) -> bool:
    return node.op == _SELECT or (node.op == _PAD and node["mode"] in _COPIES)


def _chain(index: GraphIndex, node: Node, passes: Callable[[Node], bool]) -> list[Node]:
    """A node and the operations before it that it reads through, the first of them first."""
    nodes = [node]
    while passes(before := index.producers[nodes[0].refs[0].name]):
        nodes.insert(0, before)
    return nodes


def _in_order(index: GraphIndex, node: Node, before: list[Node], pairs: Node, after: list[Node]) -> Match | NoMatch:
    source = before[0].refs[0]
    shape, result = source.info.shape, node.output.shape
    largest = max(math.prod(each.output.shape) for each in (*before, node))
    if (
        len(shape) < 2
        or shape[0] != 1
        or len(result) != len(shape)
        or shape[2:] != result[2:]
        or largest > _MOST_ENTRIES
    ):
        return _OTHERS
    numbers = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    own = evaluate_together(before, {source.name: numbers})
    compared, larger = _swapped(own, pairs.payload)
    own, compared, larger = (evaluate_together(after, {pairs.name: each}) for each in (own, compared, larger))
    channels = [_channels(each, numbers) for each in (own, compared, larger)]
    order = None if any(each is None for each in channels) else _order(*[each for each in channels if each is not None])
    if order is None:
        return _OTHERS
    picked, in_pairs = order
    new = NewNodes(index, node)
    chosen = source
    if picked != list(range(shape[1])):
        chosen = new.add("chosen", _SELECT, {"self": source, "dim": 1, "index": Constant(torch.tensor(picked))}, result)
    payload = OrderedPairs(1, (1,) * len(picked), in_pairs)
    new.add("ordered", ORDERED_PAIRS, {"self": chosen}, result, payload)
    return new.match(ORDERED_PAIRS, tuple(each.name for each in (*before, pairs, *after[:-1])))


def _swapped(own: torch.Tensor, payload: OrderedPairs) -> tuple[torch.Tensor, torch.Tensor]:
    """For every entry the number of the one that it is compared with, its own where it is alone, and the number of the pair's first."""
    blocks = list(own.split(payload.sizes, payload.axis))  # type: ignore[no-untyped-call]
    firsts = list(blocks)
    for larger, smaller in payload.pairs:
        firsts[smaller] = blocks[larger]
        blocks[larger], blocks[smaller] = blocks[smaller], blocks[larger]
    return torch.cat(blocks, payload.axis), torch.cat(firsts, payload.axis)


def _channels(entries: torch.Tensor, numbers: torch.Tensor) -> list[int] | None:
    """The channel of the source that each channel consists of, pixel by pixel; None where it is none."""
    pixels = math.prod(numbers.shape[2:])
    flat = entries.reshape(entries.shape[1], pixels)
    channels = flat[:, 0].div(pixels, rounding_mode="floor").long()
    whole = torch.equal(flat, numbers.reshape(numbers.shape[1], pixels)[channels])
    return channels.tolist() if whole else None


def _order(
    own: list[int], compared: list[int], first: list[int]
) -> tuple[list[int], tuple[tuple[int, int], ...]] | None:
    """The channels in their places, and the places (larger, smaller) of pairs; None where a channel is in several, or half a pair."""
    places: dict[int, int] = {}
    for place, channel in enumerate(own):
        if channel in places:
            return None
        places[channel] = place
    pairs = []
    for place, (channel, other) in enumerate(zip(own, compared, strict=True)):
        if channel == other:
            continue
        if other not in places or compared[places[other]] != channel:
            return None
        if first[place] == channel:
            pairs.append((place, places[other]))
    return own, tuple(pairs)
