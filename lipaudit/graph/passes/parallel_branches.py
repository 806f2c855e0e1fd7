"""Parallel linear branches of one tensor that are summed before any non-linearity become one convolution.

y = K_1 * x + K_2 * x = (K_1 + K_2) * x for kernels placed on common positions: exact, and never looser than adding the
norms (re-parametrised blocks with 3x3, 1x1 and identity branches). A channelwise scale counts as a 1x1 kernel.

Summands may cancel. What their entries were off by stays in the sum as an absolute error of its operator
(:mod:`lipaudit.graph.passes.folding_errors`), and taps that no pixel meets are left out.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import torch

from lipaudit.graph.linear import CONVOLUTION, SCALE, Scale
from lipaudit.graph.node import Graph, Node, Ref
from lipaudit.graph.passes.folding_errors import cropped, margin, read_taps, unknown
from lipaudit.graph.rewrite import label, rebuild, uses
from lipaudit.spectral import (
    directed_rounding,
)
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.rounding import composed

# Merging branches of different groups writes the kernel out without groups; not beyond this many numbers.
DENSE_KERNEL_NUMBERS = 2**26


def merge_branches(graph: Graph) -> Graph:
    """Merge until no addition of two mergeable branches is left."""
    while True:
        merged = _merge_once(graph)
        if merged is graph:
            return graph
        graph = merged


def _merge_once(graph: Graph) -> Graph:
    counts = uses(graph)
    producers = {n.name: n for n in graph}
    for node in graph:
        if node.op != "aten.add.Tensor" or node["alpha"] != 1 or len(node.refs) != 2:
            continue
        left, right = (producers[ref.name] for ref in node.refs)
        pair = _branch_pair(left, right, counts)
        if pair is None:
            continue
        source, kernels, absorbed = pair
        convolution = _sum(*kernels)
        if convolution is None or (1, convolution.channels[1], *convolution.output_size) != node.output.shape:
            continue
        main = left if left.op == CONVOLUTION else right
        merged = replace(
            main,
            name=node.name,
            arguments={
                "input": source,
                **{f"{i}_{k}": v for i, b in enumerate(absorbed) for k, v in b.arguments.items() if k != "input"},
            },
            payload=convolution,
            outputs=node.outputs,
            sources=tuple(
                dict.fromkeys(s for b in absorbed for s in (*b.sources, *((label(b),) if b is not main else ())))
            )
            or (label(node),),  # never empty: the addition itself where it is all that was merged
        )
        names = {b.name for b in absorbed}
        graph = rebuild(graph, lambda n, merged=merged: merged if n.name == merged.name else None)  # type: ignore[misc]
        return replace(graph, nodes=tuple(n for n in graph if n.name not in names))
    return graph


def _branch_pair(
    left: Node, right: Node, counts: dict[str, int]
) -> tuple[Ref, tuple[Convolution, Convolution], tuple[Node, ...]] | None:
    """The common source and the two kernels of an addition, and the nodes that the merged one replaces."""
    if left.op != CONVOLUTION:
        left, right = right, left
    if (
        left.op != CONVOLUTION
        or left.payload.transposed
        or left.payload.padding_mode != "zeros"
        or counts[left.name] != 1
    ):
        return None
    source = left.refs[0]
    if right.op == CONVOLUTION:
        if counts[right.name] != 1 or right.refs[0].name != source.name or right.name == left.name:
            return None
        if right.payload.transposed or right.payload.padding_mode != "zeros":
            return None
        return source, (left.payload, right.payload), (left, right)
    channels = left.payload.channels[0]
    if right.op == SCALE and right.refs[0].name == source.name and counts[right.name] == 1:
        scale: Scale = right.payload
        if scale.factor.numel() not in (1, channels) or (scale.factor.numel() > 1 and scale.axis != 1):
            return None
        return (
            source,
            (left.payload, _pointwise(left.payload, scale.factor.expand(channels), scale.error)),
            (left, right),
        )
    if right.name == source.name:
        ones = torch.ones(channels, dtype=torch.float64)
        return source, (left.payload, _pointwise(left.payload, ones)), (left,)
    return None


def _pointwise(like: Convolution, factor: torch.Tensor, error: float = 0.0) -> Convolution:
    d = len(like.input_size)
    return Convolution(
        weight=factor.reshape(-1, *(1,) * (d + 1)).to(like.weight.device),
        input_size=like.input_size,
        stride=(1,) * d,
        padding=((0, 0),) * d,
        dilation=(1,) * d,
        groups=factor.numel(),
        output_padding=(0,) * d,
        error=error,
    )


def _sum(first: Convolution, second: Convolution) -> Convolution | None:
    same = first.stride == second.stride and first.output_size == second.output_size
    if not same or first.channels != second.channels or first.input_size != second.input_size:
        return None
    groups = first.groups if first.groups == second.groups else 1
    if any(c.weight.numel() * (c.groups if groups != c.groups else 1) > DENSE_KERNEL_NUMBERS for c in (first, second)):
        return None
    d = len(first.input_size)
    # tap a of an axis reads pixel s j + d a - p: place both kernels on the union of these offsets
    taps = [read_taps(c) for c in (first, second)]
    offsets = [
        [[e * a - p for a in kept] for kept, e, (p, _) in zip(axes, c.dilation, c.padding, strict=True)]
        for c, axes in zip((first, second), taps, strict=True)
    ]
    low = [min((place[i][0] for place in offsets if place[i]), default=0) for i in range(d)]
    high = [max((place[i][-1] for place in offsets if place[i]), default=0) for i in range(d)]
    extent = [last - start + 1 for start, last in zip(low, high, strict=True)]
    total = first.weight.new_zeros((first.channels[1], first.channels[0] // groups, *extent), dtype=torch.float64)
    for c, kept, place in zip((first, second), taps, offsets, strict=True):
        kernel = cropped(c, kept)
        kernel = kernel if groups == c.groups else _without_groups(c, kernel)
        steps = [math.prod(extent[i + 1 :]) for i in range(d)]
        places = [sum((o - low[i]) * steps[i] for i, o in enumerate(at)) for at in itertools.product(*place)]
        index = torch.tensor(places, dtype=torch.long, device=total.device)
        total.flatten(2).index_add_(2, index, kernel.flatten(2).to(total.dtype))
    padding = tuple(
        (-low[i], (first.output_size[i] - 1) * first.stride[i] + extent[i] - first.input_size[i] + low[i])
        for i in range(d)
    )
    return first.with_kernel(
        total,
        padding=padding,
        dilation=(1,) * d,
        groups=groups,
        error=math.inf if unknown(first) or unknown(second) else composed(),  # the sum is rounded once
        moved=directed_rounding.add(margin(first), margin(second), up=True),
    )


def _without_groups(convolution: Convolution, kernel: torch.Tensor) -> torch.Tensor:
    g = convolution.groups
    blocks = kernel.reshape(g, -1, *kernel.shape[1:])
    _, c_out, c_in, *size = blocks.shape
    dense = blocks.new_zeros(g, c_out, g, c_in, *size)
    index = torch.arange(g)
    dense[index, :, index] = blocks
    return dense.reshape(g * c_out, g * c_in, *size)
