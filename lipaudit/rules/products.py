"""Matrix products and attention of several data-dependent tensors, and batched products with a constant."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from lipaudit.graph.node import Constant, Node
from lipaudit.rules.operands import count_refs, stretch
from lipaudit.rules.registry import Effect, Settings, rule
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.gram import spectral_norm

BILINEAR = "matrix product of two data-dependent tensors: no finite constant holds over all inputs"
ATTENTION = (
    "dot-product attention: its slope grows with the queries, keys and values; no finite constant holds over all inputs"
)


def matrix_norm(matrices: Iterable[torch.Tensor], settings: Settings) -> Bracket:
    """The largest spectral norm among constant matrices."""
    if settings.structure:
        return Bracket.exact(1.0)
    return Bracket.maximum(spectral_norm(matrix.to("cpu"), settings.tolerance) for matrix in matrices)


@rule(
    "aten.bmm.default",
    formula="max over the batch of sigma_1 of the constant matrix, else unbounded",
    source="a block-diagonal map; its norm is the largest of the blocks'",
    exact=True,
)
def batched_product(node: Node, settings: Settings) -> Effect:
    """Batched matrix product with a constant on either side."""
    if count_refs(node["self"]) and count_refs(node["mat2"]):
        return Effect.unbounded(BILINEAR)
    varying, fixed = ("self", node["mat2"]) if count_refs(node["self"]) else ("mat2", node["self"])
    if not isinstance(fixed, Constant):
        return Effect.unsupported(f"{node.op} without a constant matrix")
    return stretch(node, {varying: matrix_norm(fixed.value.detach(), settings)})


@rule(
    "aten.einsum.default", "aten.baddbmm.default", "aten.dot.default", "aten.outer.default",
    formula="unbounded", source="bilinear in two data-dependent tensors",
)  # fmt: skip
def bilinear(node: Node, _settings: Settings) -> Effect:
    """Bilinear operations; no constant is derived where one of the operands is constant."""
    factors = sum(count_refs(node.get(key)) for key in ("tensors", "batch1", "batch2", "self", "tensor", "vec2"))
    factors -= count_refs(node["self"]) if node.op.startswith("aten.baddbmm") else 0
    if factors > 1:
        return Effect.unbounded(BILINEAR)
    return Effect.unsupported(f"lipaudit has no bound for {node.op.split('.')[1]} with a constant operand")


@rule(
    "aten.scaled_dot_product_attention.default",
    formula="unbounded",
    source="softmax(s Q K^T) V is not globally Lipschitz (Kim, Papamakarios, Mnih, ICML 2021)",
)
def attention(node: Node, _settings: Settings) -> Effect:
    """Dot-product attention with at least two of query, key and value depending on the data."""
    if sum(count_refs(node[key]) for key in ("query", "key", "value")) > 1:
        return Effect.unbounded(ATTENTION)
    return Effect.unsupported("attention with only one data-dependent tensor among query, key and value")
