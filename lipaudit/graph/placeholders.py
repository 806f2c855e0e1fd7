"""Networks without weights: what stands for a tensor whose values are unknown.

A network built on the meta device has shapes and types but no numbers. While it is captured its tensors are replaced by fake
tensors on the CPU, so that constants which ``forward`` makes there keep their values. In the graph an unknown constant is
a meta tensor; before the rules run, :func:`fill` replaces it by ones (zeros for integers, True for booleans), except
for the weights of linear maps, whose size matters and whose values do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from lipaudit.graph.linear import CONVOLUTIONS
from lipaudit.graph.node import Argument, Constant, Graph, Node

# Arguments that are the weights of linear maps: their norms are not computed without values.
_WEIGHTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(CONVOLUTIONS, ("weight",)),
    "aten.linear.default": ("weight",),
    "aten.addmm.default": ("mat1", "mat2"),
    "aten.mm.default": ("self", "mat2"),
    "aten.bmm.default": ("self", "mat2"),
    "aten.matmul.default": ("self", "other"),
}


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
    """The graph with a stand-in for every unknown constant that is not the weight of a linear map."""

    def filled(node: Node) -> Node:
        kept = _WEIGHTS.get(node.op, ())
        return replace(node, arguments={k: a if k in kept else _stand_in(a) for k, a in node.arguments.items()})

    return replace(graph, nodes=tuple(filled(node) for node in graph))


def _stand_in(argument: Argument) -> Argument:
    if isinstance(argument, tuple):
        return tuple(_stand_in(part) for part in argument)
    if not isinstance(argument, Constant) or not argument.value.is_meta:
        return argument
    like = argument.value
    make: Any = torch.ones if like.dtype.is_floating_point or like.dtype is torch.bool else torch.zeros
    return Constant(make(like.shape, dtype=like.dtype), argument.names)
