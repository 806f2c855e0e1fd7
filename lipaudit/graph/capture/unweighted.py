"""The structure of a network: what stands for the weights, whose values no status may depend on.

A network built on the meta device has shapes and types but no numbers. While it is captured its tensors are replaced by fake
tensors on the CPU, so that constants which ``forward`` makes there keep their values. In the graph an unknown constant is
a meta tensor. Before the rules run, :func:`fill` replaces every constant that was computed from parameters or buffers, unknown or
not, so that the status is that of the architecture: a gain that happens to be zero must not hide what it multiplies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from lipaudit.graph.node import Argument, Constant, Graph, Node
from lipaudit.graph.passes.linear import CONVOLUTIONS

# Arguments that are the weights of linear maps: their norms are not computed without values.
_WEIGHTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(CONVOLUTIONS, ("weight",)),
    "aten.linear.default": ("weight",),
    "aten.addmm.default": ("mat1", "mat2"),
    "aten.mm.default": ("self", "mat2"),
    "aten.bmm.default": ("self", "mat2"),
    "aten.matmul.default": ("self", "other"),
}

# Arguments that say where something is read or written.
_PLACES = {"condition", "mask", "index", "indices", "attn_mask"}
_PRODUCTS = {"aten.mul.Tensor", "aten.mul.Scalar"}
_SINGLE = 1.5


def has_values(module: nn.Module) -> bool:
    """Whether every parameter and buffer holds numbers."""
    return not any(t.is_meta for t in (*module.parameters(), *module.buffers()))


@contextmanager
def faked(module: nn.Module) -> Iterator[FakeTensorMode | None]:
    """The module with fake CPU tensors for its meta tensors; yields their mode, None where every tensor has values.

    The caller restores the module's attributes.
    """
    if has_values(module):
        yield None
        return
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    known: dict[int, torch.Tensor] = {}
    for owner in module.modules():
        stores: tuple[dict[str, Any], ...] = (owner._parameters, owner._buffers, vars(owner))
        for store in stores:
            for name, value in store.items():
                if isinstance(value, torch.Tensor) and value.is_meta:
                    if id(value) not in known:
                        known[id(value)] = _fake(value, mode)
                    store[name] = known[id(value)]
    yield mode


def _fake(value: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    with mode:
        fake = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cpu")
        return nn.Parameter(fake, requires_grad=value.requires_grad) if isinstance(value, nn.Parameter) else fake


def unknown(like: torch.Tensor) -> torch.Tensor:
    """A tensor without values, of the shape and type of ``like``."""
    return torch.empty(like.shape, dtype=like.dtype, device="meta")


def fill(graph: Graph) -> Graph:
    """The graph with a stand-in for everything that was computed from weights, marked as not known.

    The weights of linear maps become meta tensors: their size matters and their values do not. Other numbers become
    different numbers from 1 to 2 (1.5 where there is a single one), which vanish nowhere and are not equal; masks and
    indices keep what they have, or are True and 0. A number 0 in a product, which may have been a weight of one entry
    in a file, becomes 1.5.
    """

    def filled(node: Node) -> Node:
        weights = _WEIGHTS.get(node.op, ())
        arguments = {k: _stand_in(a, k, k in weights) for k, a in node.arguments.items()}
        if node.op in _PRODUCTS:
            arguments = {k: _SINGLE if _is_zero(a) else a for k, a in arguments.items()}
        return replace(node, arguments=arguments)

    return replace(graph, nodes=tuple(filled(node) for node in graph))


def _is_zero(argument: Argument) -> bool:
    return isinstance(argument, int | float) and argument == 0


def _stand_in(argument: Argument, key: str, linear: bool) -> Argument:
    if isinstance(argument, tuple):
        return tuple(_stand_in(part, key, linear) for part in argument)
    if not isinstance(argument, Constant) or not (argument.names or argument.value.is_meta):
        return argument
    value = unknown(argument.value) if linear else _values(argument.value, key)
    return Constant(value, argument.names, known=False)


def _values(like: torch.Tensor, key: str) -> torch.Tensor:
    if key in _PLACES:
        return torch.full(like.shape, like.dtype is torch.bool, dtype=like.dtype) if like.is_meta else like
    if not like.dtype.is_floating_point and not like.dtype.is_complex:
        return torch.ones(like.shape, dtype=like.dtype)
    numbers = torch.linspace(1, 2, like.numel()) if like.numel() > 1 else torch.full((1,), _SINGLE)
    return numbers.reshape(like.shape).to(like.dtype)
