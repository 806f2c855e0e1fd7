"""Products of two tensors by the indices of their axes: gating, matrix products, einsum, all as one contraction.

out[o] = sum over c of a[i_a] b[i_b], where every axis of a and b has an index, and indices that are not among those of the output are
summed. An index is shared if a, b and the output all have it: along these the product is block diagonal in each operand, one
block per value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from lipaudit.graph.node import Argument, Constant, Node, Ref

EINSUM = "aten.einsum.default"


@dataclass(frozen=True)
class Contraction:
    """The indices of the axes of both operands and of the output; an axis that is broadcast has the index None."""

    left: tuple[str | None, ...]
    right: tuple[str | None, ...]
    output: tuple[str, ...]

    @property
    def shared(self) -> frozenset[str]:
        """The indices that both operands and the output have."""
        return frozenset(index for index in self.output if index in self.left and index in self.right)

    def blocks(self, constant: torch.Tensor, right: bool) -> torch.Tensor:
        """The product as a linear map of one operand, the other one (the right or the left) being constant: its blocks.

        For each value of the shared indices the constant is a matrix from its summed indices to its own output indices;
        it acts alike on all other indices of the operand, so that the norm is the largest of these matrices'.
        """
        indices = self.right if right else self.left
        shared = [a for a, index in enumerate(indices) if index in self.shared]
        summed = [a for a, index in enumerate(indices) if index not in self.output]
        rest = [a for a in range(constant.dim()) if a not in (*shared, *summed)]
        sizes = [math.prod(constant.shape[a] for a in axes) for axes in (shared, summed, rest)]
        return constant.permute(*shared, *summed, *rest).reshape(sizes)


def entrywise_product(left: tuple[int, ...], right: tuple[int, ...], output: tuple[int, ...]) -> Contraction:
    """a * b with broadcasting."""
    return Contraction(_aligned(left, output), _aligned(right, output), _names(len(output)))


def _aligned(shape: tuple[int, ...], output: tuple[int, ...]) -> tuple[str | None, ...]:
    names = _names(len(output))[len(output) - len(shape) :]
    sizes = output[len(output) - len(shape) :]
    return tuple(None if n == 1 and m > 1 else name for name, n, m in zip(names, shape, sizes, strict=True))


def _names(count: int) -> tuple[str, ...]:
    return tuple(f"o{i}" for i in range(count))


def matrix_product(left: tuple[int, ...], right: tuple[int, ...], output: tuple[int, ...]) -> Contraction:
    """a @ b as in torch.matmul: vectors are matrices without the axis that they lack, leading axes broadcast."""
    rows = ("row",) if len(left) > 1 else ()
    columns = ("column",) if len(right) > 1 else ()
    stack = len(output) - len(rows) - len(columns)
    batch = output[:stack]
    return Contraction(
        (*_aligned(left[:-2], batch), *rows, "sum"),
        (*_aligned(right[:-2], batch), "sum", *columns),
        (*_names(stack), *rows, *columns),
    )


def einsum(equation: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Contraction | None:
    """The contraction of an einsum of two operands of the given shapes.

    None where an index is repeated within one operand, summed over one operand alone, or broadcast (of two sizes).
    """
    sides = equation.replace(" ", "").split("->")
    operands = sides[0].split(",")
    if len(operands) != 2 or any("." in operand for operand in operands):
        return None
    output = (
        sides[1] if len(sides) == 2 else "".join(sorted(c for c in set(sides[0]) - {","} if sides[0].count(c) == 1))
    )
    if any(len(set(indices)) != len(indices) for indices in (*operands, output)):
        return None
    fits = all(len(indices) == len(shape) for indices, shape in zip(operands, shapes, strict=True))
    if not fits or not set(output) <= set("".join(operands)):
        return None
    if set("".join(operands)) - set(output) - (set(operands[0]) & set(operands[1])):
        return None
    sizes = dict(zip(operands[0], shapes[0], strict=True))
    if any(sizes.get(index, size) != size for index, size in zip(operands[1], shapes[1], strict=True)):
        return None
    return Contraction(tuple(operands[0]), tuple(operands[1]), tuple(output))


def einsum_of(node: Node) -> Contraction | None:
    """The contraction that an einsum node computes; None where :func:`einsum` knows none."""
    tensors, equation = node["tensors"], node["equation"]
    if not isinstance(tensors, tuple) or not isinstance(equation, str) or len(tensors) != 2:
        return None
    return einsum(equation, (_shape(tensors[0]), _shape(tensors[1])))


def _shape(argument: Argument) -> tuple[int, ...]:
    if isinstance(argument, Ref):
        return argument.info.shape
    return tuple(argument.value.shape) if isinstance(argument, Constant) else ()
