"""Masks and other lists of places that a network computes from its buffers while it is traced.

``x[:, self.mask]`` has a shape that depends on the values of the mask, which a tracer does not know. Here they are known: while
the network runs, a function mode remembers how tensors were computed from parameters, buffers and numbers alone. Where such a
tensor is used as a mask, or in an operation whose result has a shape of its own (``nonzero``, ``bincount`` ...), it is evaluated,
and the places go into the graph as constants. Nothing is remembered any more once one of these tensors is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

# Functions of constants that are remembered, by name; none of them draws random numbers or changes its arguments.
_REMEMBERED = {
    "arange", "tensor", "as_tensor", "ones", "zeros", "full", "eye", "linspace", "ones_like", "zeros_like", "full_like",
    "eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__",
    "logical_not", "logical_and", "logical_or", "logical_xor", "__invert__", "__and__", "__or__", "__xor__", "bitwise_not",
    "bitwise_and", "bitwise_or", "add", "sub", "mul", "div", "neg", "abs", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__",
    "__rmul__", "__truediv__", "__floordiv__", "__mod__", "floor_divide", "remainder", "bool", "to", "long", "int", "float",
    "double", "type", "type_as", "view", "reshape", "flatten", "squeeze", "unsqueeze", "permute", "transpose", "expand", "t",
    "__getitem__", "select", "cat", "stack", "flip", "roll", "tril", "triu", "sum", "any", "all", "cumsum", "sort", "argsort",
    "clone", "contiguous", "detach", "isin", "isfinite", "isnan", "max", "min", "amax", "amin", "where", "index_select",
}  # fmt: skip
# Functions whose result has a shape that depends on values; evaluated where their arguments are known.
_OF_OWN_SHAPE = {
    "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "repeat_interleave",
}  # fmt: skip
_BY_PLACES = {"masked_select", "repeat_interleave"}


class KnownMasks(TorchFunctionMode):
    """Replaces masks that are computed from a module's own tensors by the places that they pick."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._module = module
        # what is stored, before it is replaced by what the tracer puts there
        self._stored = {
            (owner, name): value.detach()
            for owner in module.modules()
            for name, value in (*owner._parameters.items(), *owner._buffers.items())
            if value is not None and not value.is_meta
        }
        # per tensor of the trace, which is kept alive, how to compute its values
        self._known: dict[int, tuple[torch.Tensor, Callable[[], Any]]] = {}

    def __enter__(self) -> KnownMasks:
        for (owner, name), value in self._stored.items():
            self._remember(getattr(owner, name), partial(_same, value))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        known = all(id(t) in self._known for t in tensors)
        if known and tensors and (name in _OF_OWN_SHAPE or (name == "where" and len(args) == 1)):
            return self._constants(self._evaluate(func, args, kwargs))
        if name == "__getitem__" and not known:
            args = (args[0], self._places(args[1]))
        elif name in _BY_PLACES and (picked := self._picked(name, args, kwargs)) is not None:
            return picked
        if self._known and _changes(name, kwargs):
            memory = {_memory(t) for t, _ in self._known.values()}
            if any(_memory(t) in memory for t in tensors):
                self._known.clear()
        result = func(*args, **kwargs)
        if known and name in _REMEMBERED:
            for i, leaf in enumerate(pytree.tree_leaves(result)):
                if isinstance(leaf, torch.Tensor) and id(leaf) not in self._known:
                    self._remember(leaf, partial(self._leaf, i, func, args, kwargs))
        return result

    def _picked(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``masked_select`` and ``repeat_interleave`` at known places; None where they are not known."""
        given = (
            dict(zip(("input", "mask" if name == "masked_select" else "repeats", "dim"), args, strict=False)) | kwargs
        )
        source, where, dim = given.get("input"), given.get("mask", given.get("repeats")), given.get("dim")
        if not isinstance(source, torch.Tensor) or not isinstance(where, torch.Tensor) or id(where) not in self._known:
            return None
        if name == "masked_select":
            shape = torch.broadcast_shapes(source.shape, where.shape)  # type: ignore[no-untyped-call]
            with _plain():
                places = self._values(where).expand(shape).nonzero(as_tuple=True)
            return source.expand(shape)[self._constants(places)]
        source, dim = (source.reshape(-1), 0) if dim is None else (source, dim)
        with _plain():
            repeats = self._values(where).expand(source.shape[dim])
            index = torch.arange(source.shape[dim], device=repeats.device).repeat_interleave(repeats)
        return source.index_select(dim, self._constants(index))

    def _remember(self, tensor: torch.Tensor, compute: Callable[[], Any]) -> None:
        self._known[id(tensor)] = (tensor, compute)

    def _values(self, tensor: torch.Tensor) -> torch.Tensor:
        with _plain():
            values: torch.Tensor = self._known[id(tensor)][1]()
        return values

    def _leaf(self, i: int, func: Any, args: Any, kwargs: Any) -> Any:
        return pytree.tree_leaves(self._evaluate(func, args, kwargs))[i]

    def _evaluate(self, func: Any, args: Any, kwargs: Any) -> Any:
        def value(leaf: Any) -> Any:
            return self._values(leaf) if isinstance(leaf, torch.Tensor) else leaf

        with _plain():
            return func(*pytree.tree_map(value, args), **pytree.tree_map(value, kwargs))

    def _places(self, index: Any) -> Any:
        """An index with every known mask replaced by the places where it holds, and every known number by itself."""
        entries = index if isinstance(index, tuple) else (index,)
        replaced: list[Any] = []
        for entry in entries:
            if not isinstance(entry, torch.Tensor) or id(entry) not in self._known:
                replaced.append(entry)
            elif entry.dtype in (torch.bool, torch.uint8):
                with _plain():
                    places = self._values(entry).nonzero(as_tuple=True)
                replaced += self._constants(places)  # one tensor per axis of the mask
            else:
                replaced.append(int(self._values(entry)) if entry.dim() == 0 else entry)
        return tuple(replaced) if isinstance(index, tuple) or len(replaced) != 1 else replaced[0]

    def _constants(self, value: Any) -> Any:
        """Values as constants of the trace in progress, whose values are known as well."""

        def constant(values: torch.Tensor) -> torch.Tensor:
            lifted: torch.Tensor = torch.ops.aten.lift_fresh_copy.default(values)
            self._remember(lifted, lambda: values)
            return lifted

        return pytree.tree_map_only(torch.Tensor, constant, value)


@contextmanager
def _plain() -> Iterator[None]:
    """Ordinary computation in the middle of a trace."""
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


def _changes(name: str, kwargs: dict[str, Any]) -> bool:
    """Whether a function may change what it is given."""
    if name.startswith("__"):
        return name in ("__setitem__", "__set__") or (
            name.startswith("__i") and name not in ("__invert__", "__index__")
        )
    return name.endswith("_") or "out" in kwargs


def _memory(tensor: torch.Tensor) -> int:
    """The same number for tensors that share their memory, as views do."""
    return int(tensor.untyped_storage()._cdata)


def _same(value: torch.Tensor) -> torch.Tensor:
    return value
