"""A network on the meta device: shapes and types without numbers.

While such a network is captured, its tensors are replaced by fake tensors on the CPU, so that constants which ``forward`` makes there
keep their values. In the graph a constant without values is a meta tensor; :mod:`lipaudit.graph.passes.unknown_weights` puts other
numbers in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode


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
