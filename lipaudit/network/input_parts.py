"""Disjoint parts of the network's input, each of which is read by itself: several inputs, the two states of a cell, halves of a tensor.

With L_b(v) a constant of the value v in part b, ||v(x) - v(y)|| <= sum_b L_b(v) ||x_b - y_b|| <= sqrt(sum_b L_b(v)^2) ||x - y||: the second
step is the inequality of Cauchy and Schwarz, the first is kept by every operation whose effect is a sum or a root of a sum of squares of
its operands' changes (the triangle inequality, and that of Minkowski). So x + s of two inputs has the constant sqrt(2) and not 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from lipaudit.graph.evaluate import evaluate
from lipaudit.graph.node import Graph

# more parts than this are taken as one, and so are those of an input with more entries: each part costs a pass through the graph
_MOST_PARTS = 32
_MOST_ENTRIES = 2**22
# operations whose outputs are entries of their input, none of them twice
_SELECTIONS = {
    "getitem",
    *(
        f"aten.{name}"
        for name in (
            "select.int", "slice.Tensor", "narrow.default", "unbind.int", "chunk.default", "split.Tensor", "split.sizes",
            "split_with_sizes.default", "view.default", "_unsafe_view.default", "reshape.default", "permute.default",
            "transpose.int", "t.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default",
            "flatten.using_ints", "index_select.default", "index.Tensor", "flip.default", "alias.default", "clone.default",
        )
    ),
}  # fmt: skip


def disjoint_parts(graph: Graph) -> tuple[Mapping[str, float], ...]:
    """Per part the logs of the constants of the nodes that only select entries of an input: 0 where they read the part, else -inf.

    Parts are as small as the operations behind allow: two selections with an entry in common belong to one part. Empty where there is
    only one part.
    """
    entries = _selected(graph)
    read = {ref.name for node in graph if node.name not in entries for ref in node.refs} | set(graph.outputs)
    groups: list[torch.Tensor] = []
    for name, mask in entries.items():
        if name in read:
            group, apart = mask, []
            for other in groups:
                if bool((group & other).any()):
                    group = group | other
                else:
                    apart.append(other)
            groups = [*apart, group]
    if not 2 <= len(groups) <= _MOST_PARTS:
        return ()
    return tuple(
        {name: 0.0 if bool((group & mask).any()) else -math.inf for name, mask in entries.items()} for group in groups
    )


def _selected(graph: Graph) -> dict[str, torch.Tensor]:
    """Which entries of the inputs each node holds that only selects some: a mask over the entries of all inputs."""
    numbers: dict[str, torch.Tensor | tuple[torch.Tensor, ...]] = {}
    inputs = [node for node in graph if node.op == "input"]
    total = sum(math.prod(node.output.shape) for node in inputs)
    if total > _MOST_ENTRIES or not all(node.output.dtype.is_floating_point for node in inputs):
        return {}
    count = 0
    for node in graph:
        if node.op == "input":
            size = math.prod(node.output.shape)
            numbers[node.name] = torch.arange(count, count + size).reshape(node.output.shape)
            count += size
        elif node.op in _SELECTIONS and len(node.refs) == 1 and node.refs[0].name in numbers:
            selection = evaluate(node, numbers)
            if int(torch.bincount(_flat(selection), minlength=1).max()) <= 1:
                numbers[node.name] = selection
    if len(numbers) < 2:
        return {}
    return {name: torch.zeros(total, dtype=torch.bool).index_fill(0, _flat(v), True) for name, v in numbers.items()}


def _flat(value: torch.Tensor | tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.cat([t.reshape(-1) for t in (value if isinstance(value, tuple) else (value,))])
