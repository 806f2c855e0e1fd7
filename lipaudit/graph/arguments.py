"""Arguments of an ATen operation by the names of its schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


def bind(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Name every argument of a call of ``op`` as its schema does, with defaults filled in.

    >>> bound = bind(torch.ops.aten.max_pool2d.default, ("x", [3, 3]), {"ceil_mode": True})
    >>> bound["self"], bound["kernel_size"], bound["padding"], bound["ceil_mode"]
    ('x', [3, 3], [0, 0], True)
    """
    bound: dict[str, Any] = {}
    for position, argument in enumerate(op._schema.arguments):
        if position < len(args) and not argument.kwarg_only:
            bound[argument.name] = args[position]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        else:
            bound[argument.name] = argument.default_value
    return bound


def call(op: torch._ops.OpOverload, bound: Mapping[str, Any]) -> Any:
    """Call ``op`` with arguments named as in its schema."""
    positional = [bound[a.name] for a in op._schema.arguments if not a.kwarg_only]
    keywords = {a.name: bound[a.name] for a in op._schema.arguments if a.kwarg_only}
    return op(*positional, **keywords)


def overload(name: str) -> torch._ops.OpOverload:
    """The overload behind a name such as ``aten.conv2d.default``."""
    namespace, packet, variant = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), variant)  # type: ignore[no-any-return]


def precision(own: torch.dtype, dtype: torch.dtype | None) -> torch.dtype:
    """``dtype`` for a floating dtype, its complex counterpart for a complex one, any other unchanged.

    >>> precision(torch.complex64, torch.float64), precision(torch.int32, torch.float64)
    (torch.complex128, torch.int32)
    """
    if dtype is None:
        return own
    if own.is_complex:
        return dtype.to_complex()
    return dtype if own.is_floating_point else own
