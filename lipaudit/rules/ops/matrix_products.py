"""Matrix products of data-dependent tensors with each other, and batched products with a constant."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from lipaudit.graph.contraction import EINSUM, Contraction, einsum_of, matrix_product
from lipaudit.graph.node import Node, Ref
from lipaudit.graph.ops import aten
from lipaudit.graph.weights import weights_of
from lipaudit.rules.contraction import product_effect, product_factors, product_radii
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.movement import Movement, Neighbourhood, matrix_product_movement
from lipaudit.rules.operands import count_refs, repeats, root, shape_of, stretch
from lipaudit.rules.radii_facets import whole_tensor
from lipaudit.rules.region.axes import along
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket

BILINEAR = "matrix product of two data-dependent tensors: no finite constant holds over all inputs"
BATCHED = operations(*aten("bmm"))
EINSUM_OF_TWO = operations(EINSUM)


def matrix_norm(matrices: Iterable[torch.Tensor], settings: Settings) -> Bracket:
    """The largest spectral norm among constant matrices."""
    return Bracket.maximum(settings.norms.norm(matrix).bracket for matrix in matrices)


@BATCHED.constant(
    formula="max over the batch of sigma_1 of the constant matrix, else unbounded",
    source="a block-diagonal map; its norm is the largest of the blocks'",
    exact=True,
    where_bounded=True,
    complex_numbers=True,
)
def batched_product(node: Node, settings: Settings) -> Effect:
    """Batched matrix product with a constant on either side."""
    if count_refs(node["self"]) and count_refs(node["mat2"]):
        if node.output.dtype.is_complex:
            return Effect.unsupported("nothing is known of a product of two data-dependent complex tensors")
        product = matrix_product(shape_of(node["self"]), shape_of(node["mat2"]), node.output.shape)
        return Effect.where_bounded(BILINEAR, lambda operands: product_effect(product, *operands))
    constants = weights_of(node)
    if not constants:
        return Effect.unsupported(f"{node.op} without a constant matrix")
    varying = "self" if count_refs(node["self"]) else "mat2"
    return stretch(node, {varying: matrix_norm(constants[0].matrices(), settings)})


@EINSUM_OF_TWO.constant(
    formula="sigma_1 of the constant operand as a matrix from summed to output indices; for two data-dependent operands "
    "unbounded, or the Frobenius norm of the other operand's slices where it is bounded",
    source="a block-diagonal map; bilinear in two data-dependent tensors (Cauchy-Schwarz)",
    where_bounded=True,
    covers=lambda node: einsum_of(node) is not None,
)
def einsum_of_two(node: Node, settings: Settings) -> Effect:
    """An einsum of two operands."""
    product, tensors = einsum_of(node), node["tensors"]
    if product is None:
        return Effect.unsupported(
            f"einsum {node['equation']!r} does not have two operands, repeats an index, sums over one operand alone, or broadcasts an "
            "index: write it as several products"
        )
    if count_refs(tensors) == 2:
        return Effect.where_bounded(BILINEAR, lambda operands: product_effect(product, *operands))
    constants = weights_of(node)
    if not constants:
        return Effect.unsupported("einsum without a constant or data-dependent operand")
    return Effect.stretch(matrix_norm(constants[0].matrices(), settings))


@operations("aten.baddbmm.default", "aten.dot.default", "aten.outer.default").constant(
    formula="unbounded; the Frobenius norm of the other matrix where it is bounded",
    source="bilinear in two data-dependent tensors (Cauchy-Schwarz)",
    where_bounded=True,
    covers=lambda node: all(count_refs(node[key]) for key in _pair(node)),
)
def bilinear(node: Node, _settings: Settings) -> Effect:
    """Bilinear operations of two data-dependent tensors; no constant is derived where one of them is constant."""
    keys = _pair(node)
    if sum(count_refs(node[key]) for key in keys) < 2:
        return Effect.unsupported(f"lipaudit has no bound for {node.op.split('.')[1]} with a constant operand")
    left, right = (shape_of(node[key]) for key in keys)
    outer = Contraction(("row",), ("column",), ("row", "column"))
    product = outer if node.op.startswith("aten.outer") else matrix_product(left, right, node.output.shape)
    return Effect.where_bounded(BILINEAR, lambda operands: _with_added(node, product, operands))


def _pair(node: Node) -> tuple[str, str]:
    """The names of the two factors."""
    pairs = (("batch1", "batch2"), ("self", "tensor"), ("self", "vec2"))
    return next(pair for pair in pairs if pair[1] in node.arguments)


def _with_added(node: Node, product: Contraction, operands: tuple[Magnitude, ...]) -> Effect:
    """beta self + alpha batch1 batch2; without the first term for the others."""
    factors = [Bracket.exact(abs(float(node.get("alpha", 1)))) * f for f in product_factors(product, *operands[-2:])]  # type: ignore[arg-type]
    if len(operands) == 3:
        own = Bracket.exact(abs(float(node["beta"]))) * root(repeats(node["self"], node.output))  # type: ignore[arg-type]
        factors = [own, *factors]
    return Effect.stretch(*factors)


@(BATCHED | EINSUM_OF_TWO | operations(*aten("matmul", "mm"))).radii
def contractions(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Products of two data-dependent matrices; rows of a product with a constant matrix on the right."""
    if len(operands) == 2:
        product = (
            einsum_of(node)
            if node.op == EINSUM
            else matrix_product(operands[0].shape, operands[1].shape, node.output.shape)
        )
        return (
            (product_radii(product, node, *operands),) if product is not None else whole_tensor(node, effect, operands)
        )
    first = next(iter(node.arguments.values()))
    rows = isinstance(first, Ref) and len(first.info.shape) == len(node.output.shape) > 0 and node.op != EINSUM
    return (
        (along(operands[0], effect.factors[0], (-1,), node.output.shape),)
        if rows
        else whole_tensor(node, effect, operands)
    )


@(BATCHED | operations(*aten("matmul", "mm"))).movement
def matrix_products_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """A product of two data-dependent stacks of matrices."""
    return matrix_product_movement(*operands, node.output.shape) if len(operands) == 2 else None
