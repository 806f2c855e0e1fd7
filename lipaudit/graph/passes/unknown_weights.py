"""Audit of the structure alone: what stands for the weights, whose values no status may depend on.

Before the rules run, :func:`replace_unknown_weights` replaces every constant that was computed from parameters or buffers, known or
not, so that the status is that of the architecture: a gain that happens to be zero must not hide what it multiplies.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

import torch

from lipaudit.graph.constants import without_values
from lipaudit.graph.node import Argument, Constant, Graph, Node
from lipaudit.graph.weights import Kind, weights_of

# Arguments that say where something is read or written.
_INDICES = {"condition", "mask", "index", "indices", "attn_mask"}
_PRODUCTS = {"aten.mul.Tensor", "aten.mul.Scalar"}
_SINGLE = 1.5


def replace_unknown_weights(graph: Graph) -> Graph:
    """The graph with other numbers for everything that was computed from weights, marked as not known.

    The weights of linear maps become meta tensors: their size matters and their values do not (the projection of an LSTM keeps numbers,
    because they bound its hidden state). Other numbers become different numbers from 1 to 2 (1.5 where there is a single one), which
    vanish nowhere and are not equal; masks and indices keep what they have, or are True and 0. A number 0 in a product, which may have
    been a weight of one entry in a file, becomes 1.5.
    """
    return replace(graph, nodes=tuple(_replaced(node) for node in graph))


def _replaced(node: Node) -> Node:
    of_norms = {
        id(constant)
        for weight in weights_of(node)
        if weight.kind is not Kind.PROJECTION
        for constant in weight.constants
    }
    arguments = {key: _stand_in(argument, key, of_norms) for key, argument in node.arguments.items()}
    if node.op in _PRODUCTS:
        arguments = {key: _SINGLE if _is_zero(argument) else argument for key, argument in arguments.items()}
    return replace(node, arguments=arguments)


def _is_zero(argument: Argument) -> bool:
    return isinstance(argument, int | float) and argument == 0


def _stand_in(argument: Argument, key: str, of_norms: Set[int]) -> Argument:
    if isinstance(argument, tuple):
        return tuple(_stand_in(part, key, of_norms) for part in argument)
    if not isinstance(argument, Constant) or not (argument.names or argument.value.is_meta):
        return argument
    value = without_values(argument.value) if id(argument) in of_norms else _numbers(argument.value, key)
    return Constant(value, argument.names, known=False)


def _numbers(like: torch.Tensor, key: str) -> torch.Tensor:
    if key in _INDICES:
        return torch.full(like.shape, like.dtype is torch.bool, dtype=like.dtype) if like.is_meta else like
    if not like.dtype.is_floating_point and not like.dtype.is_complex:
        return torch.ones(like.shape, dtype=like.dtype)
    numbers = torch.linspace(1, 2, like.numel()) if like.numel() > 1 else torch.full((1,), _SINGLE)
    return numbers.reshape(like.shape).to(like.dtype)
