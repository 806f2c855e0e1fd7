"""Constant folding: operations that read no value of a data-dependent tensor are evaluated, and become constants.

Some operations read a tensor for its shape, dtype and device only: ``arange(n).type_as(x)``, ``zeros_like(x)``,
``x[:, 0].fill_(1)``. Their results do not depend on the network's input either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lipaudit.errors import CaptureError
from lipaudit.graph.arguments import call, precision
from lipaudit.graph.constant_errors import MOVES, relative_error
from lipaudit.graph.node import Constant, Ref
from lipaudit.graph.ops import CASTS
from lipaudit.option_names import spell

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


def evaluated(
    target: torch._ops.OpOverload, bound: Mapping[str, Any], described: Any, precise: bool = True, frozen: bool = False
) -> Any:
    """The result of a constant call, every tensor in it a :class:`Constant`.

    ``described`` are tensors with the shape, dtype and device of the result; their values are not read. A tensor computed
    from constants without values has none itself.

    With ``precise`` an operation that rounds is evaluated in float64, and the constant says how far that is from the function that the
    stored numbers define (:mod:`lipaudit.graph.constant_errors`); without, as the network does it.

    With ``frozen`` random numbers are drawn, in the network's own precision, from the state that torch's generator is in.

    Raises:
        CaptureError: if the operation draws random numbers that are not frozen.
    """
    # dropout in eval mode draws nothing
    draws = torch.Tag.nondeterministic_seeded in target.tags and bound.get("train") is not False
    if draws and not frozen:
        raise CaptureError(
            f"the network draws random numbers ({target}) in eval mode: no single function to bound; where they are those of a "
            f"computation of weights, one draw can be held ({spell('freeze_random', 'SEED')})"
        )
    constants = list(parts(dict(bound), Constant))
    names = tuple(dict.fromkeys(n for c in constants for n in c.names))
    if any(c.value.is_meta for c in constants):
        return _wrapped(
            pytree.tree_map_only(torch.Tensor, without_values, described), lambda value: Constant(value, names)
        )
    tensors = [*(c.value for c in constants), *pytree.tree_leaves(described)]
    place = next((t.device for t in tensors if isinstance(t, torch.Tensor) and not t.is_meta), None)
    if draws:
        error = math.inf if any(c.error for c in constants) else 0.0
        values = {name: _real(value, place, None) for name, value in bound.items()}
        return _wrapped(call(target, values), lambda value: Constant(value, names, error=error))
    stored = all(c.computed_in is None and c.error == 0 for c in constants)
    op = str(target)
    if not precise or (stored and (op in MOVES or not _rounds(described))):
        values = {name: _real(value, place, None) for name, value in bound.items()}
        return _wrapped(call(target, values), lambda value: Constant(value, names))
    quantised = _quantised(described) if op in CASTS else None
    values = {name: _real(value, place, torch.float64) for name, value in bound.items()}
    result = call(target, values)
    dtypes = iter([t.dtype for t in pytree.tree_leaves(described) if isinstance(t, torch.Tensor)])

    def computed(value: torch.Tensor) -> Constant:
        dtype = next(dtypes)
        if not value.is_floating_point() and not value.is_complex():
            return Constant(value, names, error=relative_error(op, bound, values, value))
        if quantised is not None:
            exact = all(c.error == 0 for c in constants)
            return Constant(value.to(quantised), names, error=0.0 if exact else math.inf)
        error = relative_error(op, bound, values, value)
        return Constant(value, names, error=error, computed_in=dtype)

    return _wrapped(result, computed)


def without_values(like: torch.Tensor) -> torch.Tensor:
    """A tensor without values (on the meta device), of the shape and type of ``like``."""
    return torch.empty(like.shape, dtype=like.dtype, device="meta")


def _rounds(described: Any) -> bool:
    """Whether an operation gives numbers that it may have rounded."""
    tensors = [t for t in pytree.tree_leaves(described) if isinstance(t, torch.Tensor)]
    return any(t.is_floating_point() or t.is_complex() for t in tensors)


def _quantised(described: Any) -> torch.dtype | None:
    """The dtype of a cast to a floating type of 8 bits, which is meant to round; wider ones are precisions."""
    (result,) = (t.dtype for t in pytree.tree_leaves(described) if isinstance(t, torch.Tensor))
    return result if result.is_floating_point and result.itemsize == 1 else None


def _real(value: Any, place: torch.device | None, dtype: torch.dtype | None) -> Any:
    """What a call reads: tensors, and with ``dtype`` every floating dtype in that precision."""
    if isinstance(value, Constant):
        return value.value.to(precision(value.dtype, dtype))
    if isinstance(value, Ref):  # only its shape, dtype and device are read
        return torch.zeros(value.info.shape, dtype=precision(value.info.dtype, dtype), device=place)
    if isinstance(value, torch.dtype):
        return precision(value, dtype)
    return type(value)(_real(v, place, dtype) for v in value) if isinstance(value, list | tuple) else value


def _wrapped(result: Any, constant: Callable[[torch.Tensor], Constant]) -> Any:
    """A result with a constant for every tensor in it."""
    if isinstance(result, torch.Tensor):
        return constant(result)
    return tuple(_wrapped(v, constant) for v in result) if isinstance(result, list | tuple) else result


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
