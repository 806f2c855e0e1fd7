"""Padding of ONNX windows: explicit, SAME_UPPER, SAME_LOWER, VALID; and torch's order of pads."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.frontends.onnx.operators import NodeView

Sizes = tuple[int, ...]


def spatial_pads(node: NodeView, kernel: Sizes, strides: Sizes, dilations: Sizes) -> tuple[Sizes, Sizes]:
    """Zeros before and after each spatial axis.

    SAME pads so that the output has ceil(n / stride) entries: the total is max((out - 1) stride + (k - 1) d + 1 - n, 0), and
    the odd one goes to the end (UPPER) or to the beginning (LOWER).
    """
    rank = len(kernel)
    auto = node.attr("auto_pad", "NOTSET")
    if auto == "NOTSET":
        pads = [int(p) for p in node.attr("pads", [0] * (2 * rank))]
        return tuple(pads[:rank]), tuple(pads[rank:])
    if auto == "VALID":
        return (0,) * rank, (0,) * rank
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        node.fail(f"unknown auto_pad {auto!r}")
    begin, end = [], []
    for size, k, s, d in zip(node.shape()[2:], kernel, strides, dilations, strict=True):
        out = -(-size // s)
        total = max((out - 1) * s + (k - 1) * d + 1 - size, 0)
        small, large = total // 2, total - total // 2
        begin.append(small if auto == "SAME_UPPER" else large)
        end.append(large if auto == "SAME_UPPER" else small)
    return tuple(begin), tuple(end)


def torch_pads(begin: Sequence[int], end: Sequence[int]) -> list[int]:
    """Pads in torch's order: last axis first, before and after.

    >>> torch_pads([1, 2], [3, 4])
    [2, 4, 1, 3]
    """
    return [p for pair in reversed(list(zip(begin, end, strict=True))) for p in pair]
