"""Constant folding: operations that read no value of a data-dependent tensor are evaluated, and become constants.

Some operations read a tensor for its shape, dtype and device only: ``arange(n).type_as(x)``, ``zeros_like(x)``,
``x[:, 0].fill_(1)``. Their results do not depend on the network's input either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lipaudit.errors import CaptureError
from lipaudit.graph.arguments import call
from lipaudit.graph.node import Constant, Ref
from lipaudit.graph.placeholders import unknown

# Entries of a sparse tensor that is written out; half a gigabyte in float64.
MOST_ENTRIES = 2**26

# Per operation the arguments whose values it does not read.
_UNREAD: Mapping[str, tuple[str, ...]] = {
    **{
        f"aten.{name}": ("self",)
        for name in (
            "zeros_like.default", "ones_like.default", "full_like.default", "new_zeros.default", "new_ones.default",
            "new_full.default", "fill.Scalar", "fill.Tensor", "zero.default", "copy.default",
        )
    },
    **{f"aten.{name}": ("other",) for name in ("type_as.default", "to.other", "expand_as.default", "view_as.default",
                                               "reshape_as.default")},
}  # fmt: skip


def is_constant(target: torch._ops.OpOverload, bound: Mapping[str, Any]) -> bool:
    """Whether a call, its arguments named as in the schema, depends on no value of a data-dependent tensor."""
    unread = _UNREAD.get(str(target), ())
    return not any(True for name, value in bound.items() if name not in unread for _ in parts(value, Ref))


def evaluated(target: torch._ops.OpOverload, bound: Mapping[str, Any], described: Any) -> Any:
    """The result of a constant call, every tensor in it a :class:`Constant`.

    ``described`` are tensors with the shape, dtype and device of the result; their values are not read. A tensor computed
    from constants without values has none itself.

    Raises:
        CaptureError: if the operation draws random numbers.
    """
    draws = torch.Tag.nondeterministic_seeded in target.tags
    if draws and bound.get("train") is not False:  # dropout in eval mode draws nothing
        raise CaptureError(f"the network draws random numbers ({target}) in eval mode: no single function to bound")
    constants = list(parts(dict(bound), Constant))
    names = tuple(dict.fromkeys(n for c in constants for n in c.names))
    tensors = [*(c.value for c in constants), *pytree.tree_leaves(described)]
    place = next((t.device for t in tensors if isinstance(t, torch.Tensor) and not t.is_meta), None)

    def real(value: Any) -> Any:
        if isinstance(value, Constant):
            return value.value
        if isinstance(value, Ref):  # only its shape, dtype and device are read
            return torch.zeros(value.info.shape, dtype=value.info.dtype, device=place)
        return type(value)(real(v) for v in value) if isinstance(value, list | tuple) else value

    if any(c.value.is_meta for c in constants):
        result = pytree.tree_map_only(torch.Tensor, unknown, described)
    else:
        result = call(target, {name: real(value) for name, value in bound.items()})

    def wrap(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return Constant(value, names)
        return tuple(wrap(v) for v in value) if isinstance(value, list | tuple) else value

    return wrap(result)


def strided(value: torch.Tensor, name: str) -> torch.Tensor:
    """A constant in the layout that rules read: a sparse matrix is written out.

    Raises:
        CaptureError: if that takes more than ``MOST_ENTRIES``.
    """
    if value.layout is torch.strided:
        return value
    if value.numel() > MOST_ENTRIES:
        raise CaptureError(
            f"the sparse tensor {name} of shape {tuple(value.shape)} has more than {MOST_ENTRIES} entries when it is "
            "written out: audit a smaller graph"
        )
    return value.to_dense()


def parts(value: Any, kind: type | tuple[type, ...]) -> Iterator[Any]:
    """Everything of a kind within nested tuples, lists and dictionaries."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from parts(part, kind)
    elif isinstance(value, dict):
        yield from parts(list(value.values()), kind)
