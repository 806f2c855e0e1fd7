"""Padding before a convolution as a border of the convolution: tighter, and exact for circular padding."""

from __future__ import annotations

from dataclasses import replace

from lipaudit.graph.linear import CONVOLUTION
from lipaudit.graph.node import Node, Ref
from lipaudit.graph.ops import PADDINGS
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch
from lipaudit.graph.rewrite import label, uses

_HAS_BORDERS = NoMatch("the convolution is transposed, or pads by itself")
_SEVERAL_READERS = NoMatch("something else reads the padded tensor")
_OTHER_AXES = NoMatch("the padding reaches other axes than those of the positions, crops, or pads a constant")
_IMPOSSIBLE = NoMatch("torch's own convolution could not have such a border")


def matcher(index: GraphIndex) -> Matcher:
    """Matches a convolution that is the only reader of a padding."""
    counts = uses(index.graph)

    def match(node: Node) -> Match | NoMatch:
        if node.op != CONVOLUTION:
            return OTHER_OPERATION
        if node.payload.transposed or any(any(p) for p in node.payload.padding):
            return _HAS_BORDERS
        pad = index.producers[node.refs[0].name]
        if pad.op not in PADDINGS:
            return OTHER_OPERATION
        if counts[pad.name] != 1:
            return _SEVERAL_READERS
        borders = _borders(pad, len(node.payload.kernel_size))
        if borders is None:
            return _OTHER_AXES
        padding, mode, inner = borders
        size = inner.info.shape[-len(padding) :]
        try:
            payload = replace(node.payload, padding=padding, padding_mode=mode, input_size=size)
        except ValueError:
            return _IMPOSSIBLE  # the padding keeps its own rule
        arguments = {**node.arguments, "input": inner}
        return Match((replace(node, arguments=arguments, payload=payload, sources=(*node.sources, label(pad))),))

    return match


def _borders(pad: Node, d: int) -> tuple[tuple[tuple[int, int], ...], str, Ref] | None:
    if not isinstance(pad["self"], Ref):
        return None
    widths = pad["pad"]
    mode = {"constant": "zeros"}.get(str(pad.get("mode", "constant")), str(pad.get("mode", "constant")))
    if not isinstance(widths, tuple):
        return None
    numbers = [w for w in widths if isinstance(w, int)]
    if len(numbers) != len(widths) or any(numbers[2 * d :]) or min(numbers) < 0:
        return None
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    pairs = (pairs + [(0, 0)] * d)[:d]
    return tuple(reversed(pairs)), mode, pad["self"]
