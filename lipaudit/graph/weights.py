"""The weights of a graph: which constants multiply the data, in which operation, and as which linear maps.

A bound rests on the norms of the linear maps that constants define. Which ones these are is answered here, for all who ask: the norms that
are computed before the rules run, the audit of the structure alone, the comparison of methods, and training.

=============  ==========================================  ======================================================
kind           operations                                  linear maps
=============  ==========================================  ======================================================
convolution    convolutions, transposed or not             the convolution on its input size, with what is folded in
dense          x W^T on the last axis                      W, with what is folded in
product        other products with a constant matrix, a    each matrix of the stack; of an einsum the blocks from
               stack of them, or an einsum of two operands summed to output indices
recurrent      LSTM, GRU and RNN, layers and cells         the rows of each gate in W and W'; of an LSTM also the
                                                           rows of i, f and g together
projection     an LSTM's projected hidden state            the projection
=============  ==========================================  ======================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import torch

from lipaudit.errors import GraphError
from lipaudit.graph.contraction import EINSUM, einsum_of
from lipaudit.graph.linear import CONVOLUTIONS, Dense, as_convolution, as_dense, is_dense
from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.graph.recurrent import RECURRENT, cell_gates, directions, gates, kind_of
from lipaudit.graph.rewrite import label
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.linear_map import LinearMap

# The two factors of a matrix product, by operation.
FACTORS = {
    "aten.linear.default": ("input", "weight"),
    "aten.addmm.default": ("mat1", "mat2"),
    "aten.mm.default": ("self", "mat2"),
    "aten.matmul.default": ("self", "other"),
    "aten.bmm.default": ("self", "mat2"),
}
_WEIGHTS = {"weight", *(key for _, key in FACTORS.values())}


class Kind(StrEnum):
    """What a weight is in its operation."""

    CONVOLUTION = "convolution"
    DENSE = "dense"
    PRODUCT = "product"
    RECURRENT = "recurrent"
    PROJECTION = "projection"


@dataclass(frozen=True, eq=False)
class Weight:
    """A weight of one operation.

    ``constants`` are the tensors that the network holds, before anything is folded into them: one, or several where parallel
    branches were merged into one convolution.
    """

    node: Node
    kind: Kind
    constants: tuple[Constant, ...]

    @property
    def name(self) -> str:
        """The path of the module that has the weight, or the name of the node at the top level."""
        return label(self.node)

    def linear_map(self) -> Convolution | Dense | None:
        """The convolution or the dense layer that the operation is, with what is folded in; None for the other kinds.

        Raises:
            NonFiniteWeightsError: if the weight holds NaN or infinity.
        """
        node = self.node
        if self.kind not in (Kind.CONVOLUTION, Kind.DENSE):
            return None
        return node.payload if node.payload is not None else as_convolution(node) or as_dense(node)

    def matrices(self) -> tuple[torch.Tensor, ...]:
        """The constant as matrices: the blocks of a block-diagonal map, or of the gates of a recurrent layer."""
        (constant,) = self.constants
        value = constant.value.detach()
        match self.kind:
            case Kind.CONVOLUTION:
                return ()
            case Kind.RECURRENT:
                kind = kind_of(self.node)
                return (*gates(kind, value), *((cell_gates(value),) if kind == "lstm" else ()))
            case Kind.PROJECTION:
                return (value,)
        return tuple(_einsum_blocks(self.node, value) if self.node.op == EINSUM else stack(value))

    def linear_maps(self) -> tuple[LinearMap, ...]:
        """What the rule of the operation needs the norms of: a convolution, or matrices.

        Raises:
            NonFiniteWeightsError: if the weight of a convolution or dense layer holds NaN or infinity.
        """
        linear = self.linear_map()
        if linear is None:
            return self.matrices()
        return (linear.weight if isinstance(linear, Dense) else linear,)


def weights(graph: Iterable[Node]) -> Iterator[Weight]:
    """Every weight of a graph, in topological order of the operations."""
    for node in graph:
        yield from weights_of(node)


def weights_of(node: Node) -> tuple[Weight, ...]:
    """The weights of one operation, captured or simplified."""
    if isinstance(node.payload, Convolution | Dense):
        kind = Kind.DENSE if isinstance(node.payload, Dense) else Kind.CONVOLUTION
        return (Weight(node, kind, _stored(node)),)
    if node.op in CONVOLUTIONS:
        return _constant(node, Kind.CONVOLUTION, "input", "weight")
    if node.op in FACTORS:
        return _constant(node, Kind.DENSE if is_dense(node) else Kind.PRODUCT, *FACTORS[node.op])
    if node.op == EINSUM:
        return _of_einsum(node)
    return _of_recurrent(node) if node.op in RECURRENT else ()


def stack(value: torch.Tensor) -> torch.Tensor:
    """A constant factor of a matrix product as a stack of matrices; a vector is a matrix with one row.

    >>> stack(torch.ones(3)).shape, stack(torch.ones(2, 4, 3, 3)).shape
    (torch.Size([1, 1, 3]), torch.Size([8, 3, 3]))
    """
    return value.reshape(-1, *value.shape[-2:]) if value.dim() > 1 else value[None, None]


def _stored(node: Node) -> tuple[Constant, ...]:
    """The weights among the arguments of a simplified node; a merged one has those of all branches, with a number in front."""
    return tuple(a for key, a in node.arguments.items() if key.split("_")[-1] in _WEIGHTS and isinstance(a, Constant))


def _constant(node: Node, kind: Kind, *keys: str) -> tuple[Weight, ...]:
    """The one constant among two factors, of which the other is data."""
    factors = [node[key] for key in keys]
    constants = [factor for factor in factors if isinstance(factor, Constant)]
    if len(constants) != 1 or sum(isinstance(factor, Ref) for factor in factors) != 1:
        return ()
    if kind is Kind.CONVOLUTION and constants[0] is not node["weight"]:
        return ()  # a constant image with a kernel that depends on the data
    return (Weight(node, kind, (constants[0],)),)


def _of_einsum(node: Node) -> tuple[Weight, ...]:
    product, tensors = einsum_of(node), node["tensors"]
    constants = [t for t in tensors if isinstance(t, Constant)] if isinstance(tensors, tuple) else []
    return () if product is None or len(constants) != 1 else (Weight(node, Kind.PRODUCT, (constants[0],)),)


def _einsum_blocks(node: Node, value: torch.Tensor) -> torch.Tensor:
    product, tensors = einsum_of(node), node["tensors"]
    if product is None or not isinstance(tensors, tuple):
        raise GraphError(f"node {node.name} is no product of two operands")
    return product.blocks(value, right=isinstance(tensors[0], Ref))


def _of_recurrent(node: Node) -> tuple[Weight, ...]:
    of_node = []
    for direction in directions(node) or ():
        of_node += [Weight(node, Kind.RECURRENT, (matrix,)) for matrix in (direction.input, direction.recurrent)]
        if direction.projection is not None:
            of_node.append(Weight(node, Kind.PROJECTION, (direction.projection,)))
    return tuple(of_node)
