"""Operations written as others: products of several tensors as products of two, and what no movement is known of.

softmax(s q k^T + b) v   is   matmul, mul, add, softmax, matmul;   a sigmoid(b)   is   slices, sigmoid, mul.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from lipaudit.graph.aliases import canonical
from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref, TensorInfo
from lipaudit.graph.ops import MAXIMA, MINIMA, aten
from lipaudit.graph.passes.attention import ATTENTION
from lipaudit.graph.passes.decomposition import decompose
from lipaudit.graph.passes.elementwise import ELEMENTWISE
from lipaudit.graph.passes.local_response_norm import RESPONSE_NORM
from lipaudit.graph.passes.power_means import POWER_MEAN
from lipaudit.graph.passes.radial import RADIAL
from lipaudit.network.local.definitions import LOCAL_DEFINITIONS
from lipaudit.spectral.bracket import Rigor

_WRITTEN_OUT = {POWER_MEAN, RADIAL, RESPONSE_NORM, ELEMENTWISE}
# Operations with a movement for some of their forms only.
_CHOICES = MAXIMA | MINIMA | set(aten("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor"))
_NORMS = set(aten("linalg_vector_norm", "norm.Scalar", "norm.ScalarOpt_dim"))
_PRODUCTS = set(aten("matmul", "mm", "bmm"))
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


def moves(node: Node) -> bool:
    """Whether the movement that is registered for an operation is one for this form of it."""
    node, shapes = canonical(node), [ref.info.shape for ref in node.refs]
    if node.op == POWER_MEAN:
        return node.payload.order == 2 and all(factor.rigor is Rigor.CERTIFIED for factor in node.payload.factors)
    if node.op in _CHOICES:
        return (
            len(shapes) == 2
            and shapes[0] == shapes[1]
            and not (node.get("min") is not None and node.get("max") is not None)
        )
    if node.op in _NORMS:
        return node["ord" if "ord" in node.arguments else "p"] in (None, 2)
    if node.op in _PRODUCTS:
        return len(shapes) == 2 and len(shapes[0]) > 1 and shapes[0][:-2] == shapes[1][:-2]
    return node.op != "aten.aminmax.default"


def written_out(graph: Graph, followed: Callable[[Node], bool]) -> Graph:
    """The graph with every operation that is not ``followed`` as a composition of those that are, where there is one.

    What passes have recognised becomes the operations that it was recognised in, other operations their definitions
    (:mod:`lipaudit.network.local.definitions`). The outputs keep their names.
    """
    if all(node.op == "input" or followed(node) for node in graph):
        return graph
    nodes: list[Node] = []
    for node in graph:
        inner = (node,) if node.op == "input" or followed(node) else _recognised(node)
        # a function of each entry that jumps between its operations does not jump as a whole
        nodes += inner if node.op != ELEMENTWISE or all(map(followed, inner)) else (node,)
    graph = replace(graph, nodes=tuple(nodes))
    pieces = decompose(graph, followed, LOCAL_DEFINITIONS)
    if len(pieces.outputs) != len(graph.outputs):
        return graph
    known = {node.name: node for node in pieces}
    named = dict.fromkeys(
        (name, now) for name, now in zip(graph.outputs, pieces.outputs, strict=True) if name not in known
    )
    aliases = [
        Node(name, "aten.alias.default", {"self": Ref(now, known[now].output)}, known[now].outputs)
        for name, now in named
    ]
    return replace(pieces, nodes=(*pieces.nodes, *aliases), outputs=graph.outputs)


def _recognised(node: Node) -> Sequence[Node]:
    """The operations that a pass has recognised one in, with names of their own; the node itself where it is not of that kind."""
    inner: tuple[Node, ...] = getattr(node.payload, "nodes", ())
    sources = getattr(node.payload, "sources", None) or (getattr(node.payload, "source", None),)
    if node.op not in _WRITTEN_OUT or len(sources) != len(node.refs):
        return [node]
    names = dict(zip(sources, node.refs, strict=True))

    def renamed(argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            ref = names[argument.name]
            return replace(argument, name=ref.name)
        return tuple(map(renamed, argument)) if isinstance(argument, tuple) else argument

    pieces = []
    for k, piece in enumerate(inner):
        name = node.name if k == len(inner) - 1 else f"{node.name}.{k}"
        arguments = {key: renamed(argument) for key, argument in piece.arguments.items()}
        pieces.append(replace(piece, name=name, arguments=arguments))
        names[piece.name] = Ref(name, piece.outputs[0])
    return pieces


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
