"""Products of two data-dependent tensors: gating, matrix products, bilinear pooling, all as one contraction.

out[o] = sum over c of a[i_a] b[i_b], where every axis of a and b has an index and indices that are not among those of
the output are summed. It is linear in each operand: da -> contraction(da, b) has a norm of at most

    max over the shared indices of ||slice of b over its other axes||_F,

where an index is shared if a, b and the output all have it: along these the map is block diagonal, one block per value,
and a block's norm is at most its Frobenius norm (Cauchy-Schwarz). For a product of equal shapes that is max|b|; for a
gate s broadcast over the positions of a it is max|s| for a and, for s, the largest l2 norm of a slice of a that shares
an entry of s; for a matrix product the Frobenius norm of the other matrix (bounds.md section 6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from lipaudit.graph.node import Node
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import Effect
from lipaudit.spectral.bracket import Bracket


@dataclass(frozen=True)
class Contraction:
    """The indices of the axes of both operands and of the output; an axis that is broadcast has the index None."""

    left: tuple[str | None, ...]
    right: tuple[str | None, ...]
    output: tuple[str, ...]

    @property
    def _shared(self) -> set[str]:
        return {index for index in self.output if index in self.left and index in self.right}

    def factors(self, left: Magnitude, right: Magnitude) -> tuple[Bracket, Bracket]:
        """The constants in the left and in the right operand, the other one held fixed."""
        shared = self._shared
        return (
            right.size(_without(self.right, shared)),
            left.size(_without(self.left, shared)),
        )

    def blocks(self, constant: torch.Tensor, right: bool) -> torch.Tensor:
        """The product as a linear map of one operand, the other one (the right or the left) being constant: its blocks.

        For each value of the shared indices the constant is a matrix from its summed indices to its own output indices;
        it acts alike on all other indices of the operand, so that the norm is the largest of these matrices'.
        """
        indices = self.right if right else self.left
        shared = [a for a, index in enumerate(indices) if index in self._shared]
        summed = [a for a, index in enumerate(indices) if index not in self.output]
        rest = [a for a in range(constant.dim()) if a not in (*shared, *summed)]
        sizes = [math.prod(constant.shape[a] for a in axes) for axes in (shared, summed, rest)]
        return constant.permute(*shared, *summed, *rest).reshape(sizes)

    def radii(self, node: Node, left: Magnitude, right: Magnitude) -> Radii:
        """How far the product strays from the product of the centres: |a b - c_a c_b| <= |da b| + |c_a db|."""
        shape = node.outputs[0].shape
        everything = frozenset(range(len(shape)))
        wanted = {frozenset(), everything}
        wanted |= {self._of_output(self.left, axes) for axes in left.radii.logs}
        wanted |= {self._of_output(self.right, axes) for axes in right.radii.logs}
        bounds: dict[tuple[int, ...], float | Bracket] = {}
        for axes in wanted:
            fixed = {index for axis, index in enumerate(self.output) if axis not in axes}
            shared = self._shared - fixed
            here, there = _without(self.left, fixed), _without(self.right, fixed)
            here_once, there_once = _without(self.left, fixed | shared), _without(self.right, fixed | shared)
            moved = _least(left.spread(here) * right.size(there_once), left.spread(here_once) * right.size(there))
            rest = _least(
                left.centre_size(here) * right.spread(there_once), left.centre_size(here_once) * right.spread(there)
            )
            bounds[tuple(axes)] = Bracket.sum([moved, rest])
        return Radii.of(shape, bounds).sharpest()

    def _of_output(self, indices: tuple[str | None, ...], axes: frozenset[int]) -> frozenset[int]:
        chosen = {indices[axis] for axis in axes} - {None}
        return frozenset(axis for axis, index in enumerate(self.output) if index in chosen)

    def effect(self, left: Magnitude, right: Magnitude) -> Effect:
        """The effect of the product in both operands."""
        return Effect.stretch(*self.factors(left, right))


def _without(indices: tuple[str | None, ...], left_out: set[str]) -> tuple[int, ...]:
    return tuple(axis for axis, index in enumerate(indices) if index is None or index not in left_out)


def _least(*brackets: Bracket) -> Bracket:
    return min(brackets, key=lambda b: b.log_upper)


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
