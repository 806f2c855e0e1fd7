"""Products of several tensors in one operation, written as operations of two: attention and gated linear units.

softmax(s q k^T + b) v   is   matmul, mul, add, softmax, matmul;   a sigmoid(b)   is   slices, sigmoid, mul.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref, TensorInfo
from lipaudit.graph.passes.attention import ATTENTION

_GLU = "aten.glu.default"


def in_pieces(graph: Graph) -> Graph:
    """The graph with attention and gated linear units as products of two tensors; every other node stays as it is."""
    nodes: list[Node] = []
    for node in graph:
        writer = _Writer(node)
        if node.op == ATTENTION and _is_plain(node):
            nodes += _attention(node, writer)
        elif node.op == _GLU:
            nodes += _gated(node, writer)
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


@dataclass
class _Writer:
    """Makes the nodes that stand for one; the last of them takes its name."""

    node: Node
    nodes: list[Node] = field(default_factory=list)

    def add(self, op: str, shape: tuple[int, ...], arguments: Mapping[str, Argument]) -> Ref:
        """A node more, and a reference to it."""
        info = TensorInfo(shape, self.node.output.dtype)
        name = f"{self.node.name}.{len(self.nodes)}"
        self.nodes.append(Node(name, f"aten.{op}", arguments, (info,), self.node.module))
        return Ref(name, info)

    def finished(self) -> list[Node]:
        """All nodes."""
        return [*self.nodes[:-1], replace(self.nodes[-1], name=self.node.name)]


def _is_plain(node: Node) -> bool:
    """Whether queries, keys and values are the data of equal batches, without dropout, and nothing hides all keys of a query."""
    operands = [node[key] for key in ("query", "key", "value")]
    if not all(isinstance(operand, Ref) for operand in operands) or node.get("dropout_p") or node.get("enable_gqa"):
        return False
    shapes = {operand.info.shape[:-2] for operand in operands}  # type: ignore[union-attr]
    mask = node.get("attn_mask")
    return len(shapes) == 1 and (mask is None or isinstance(mask, Constant))


def _attention(node: Node, writer: _Writer) -> list[Node]:
    query, key, value = (node[name] for name in ("query", "key", "value"))
    assert isinstance(query, Ref)
    assert isinstance(key, Ref)
    *batch, queries, width = query.info.shape
    keys = key.info.shape[-2]
    scale = node.get("scale")
    turned = writer.add("transpose.int", (*batch, width, keys), {"self": key, "dim0": -2, "dim1": -1})
    logits = writer.add("matmul.default", (*batch, queries, keys), {"self": query, "other": turned})
    factor = 1 / math.sqrt(width) if scale is None else scale
    logits = writer.add("mul.Tensor", logits.info.shape, {"self": logits, "other": factor})
    for shift in _shifts(node, queries, keys):
        logits = writer.add("add.Tensor", logits.info.shape, {"self": logits, "other": Constant(shift), "alpha": 1})
    weights = writer.add("softmax.int", logits.info.shape, {"self": logits, "dim": -1, "dtype": None})
    writer.add("matmul.default", node.output.shape, {"self": weights, "other": value})
    return writer.finished()


def _shifts(node: Node, queries: int, keys: int) -> list[torch.Tensor]:
    """What is added to the logits: biases as they are, minus infinity where a mask hides a key."""
    shifts = []
    mask = node.get("attn_mask")
    if isinstance(mask, Constant):
        value = mask.value.detach()
        shifts.append(_hidden(~value) if value.dtype is torch.bool else value.to(torch.float64))
    if node.get("is_causal"):
        shifts.append(_hidden(torch.ones(queries, keys, dtype=torch.bool).triu(1)))
    return shifts


def _hidden(where: torch.Tensor) -> torch.Tensor:
    return torch.zeros(where.shape, dtype=torch.float64).masked_fill(where, -math.inf)


def _gated(node: Node, writer: _Writer) -> list[Node]:
    (source,), axis = node.refs, node["dim"]
    assert isinstance(axis, int)
    shape, size = node.output.shape, node.output.shape[axis]
    halves = [
        writer.add("slice.Tensor", shape, {"self": source, "dim": axis, "start": start, "end": start + size, "step": 1})
        for start in (0, size)
    ]
    gate = writer.add("sigmoid.default", shape, {"self": halves[1]})
    writer.add("mul.Tensor", shape, {"self": halves[0], "other": gate})
    return writer.finished()
