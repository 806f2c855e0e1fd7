"""Nodes for tests: one ATen operation, called with data-dependent and constant tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from lipaudit.graph.arguments import bind, call, overload
from lipaudit.graph.node import Argument, Constant, Node, Ref, TensorInfo


@dataclass(frozen=True)
class Data:
    """Stands for a tensor that depends on the network's input.

    Where tensors are drawn for it, a complex one is real, with real and imaginary parts along a last axis.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float64

    @property
    def drawn(self) -> Data:
        return Data((*self.shape, 2), self.dtype.to_real()) if self.dtype.is_complex else self

    def random(self, generator: torch.Generator, scale: float = 1.0) -> torch.Tensor:
        if self.dtype.is_floating_point:
            return torch.randn(self.shape, generator=generator, dtype=self.dtype) * scale
        if self.dtype is torch.bool:
            return torch.rand(self.shape, generator=generator) > 0.5
        return torch.randint(0, 2, self.shape, generator=generator, dtype=self.dtype)


def data(*shape: int, dtype: torch.dtype = torch.float64) -> Data:
    return Data(shape, dtype)


@dataclass(frozen=True, eq=False)
class Operation:
    """A node and the function that it stands for: tensors in the order of ``node.refs`` to a list of tensors.

    Complex ones are real, with real and imaginary parts along a last axis.
    """

    node: Node
    inputs: tuple[Data, ...]
    function: Callable[..., list[torch.Tensor]]


def operation(
    op: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    function: Callable[..., Any] | None = None,
    payload: Any = None,
) -> Operation:
    """The node of one call of ``op`` (``aten.name.overload``), :class:`Data` marking what depends on the input.

    ``function`` replaces the operation itself, for nodes that are no operations of torch; ``kwargs`` are their arguments.
    """
    bound = bind(overload(op), args, kwargs) if op.count(".") == 2 else dict(kwargs)
    inputs = tuple(_data(list(bound.values())))
    counter = iter(range(len(inputs)))

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return [torch.view_as_real(r.resolve_conj()) if r.is_complex() else r for r in plain(*tensors)]

    def plain(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = [torch.view_as_complex(t) if x.dtype.is_complex else t for t, x in zip(tensors, inputs, strict=True)]
        if function is not None:
            result = function(*given)
        else:
            queue = iter(given)
            result = call(overload(op), {name: _filled(value, queue) for name, value in bound.items()})
        return list(result) if isinstance(result, list | tuple) else [result]

    arguments = {name: _argument(value, counter) for name, value in bound.items()}
    results = plain(*(x.drawn.random(torch.Generator().manual_seed(0)) for x in inputs))
    outputs = tuple(TensorInfo(tuple(r.shape), r.dtype) for r in results)
    return Operation(Node("node", op, arguments, outputs, payload=payload), tuple(x.drawn for x in inputs), run)


def function_of(node: Node) -> Callable[..., list[torch.Tensor]]:
    """The function of an ATen node, from tensors in the order of ``node.refs``."""

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        queue = iter(tensors)
        result = call(overload(node.op), {k: _filled(v, queue) for k, v in node.arguments.items()})
        return list(result) if isinstance(result, list | tuple) else [result]

    return run


def unit_vectors(shape: tuple[int, ...], limit: int = 200) -> Iterator[torch.Tensor]:
    """Up to ``limit`` tensors with a single one."""
    n = math.prod(shape)
    for i in range(0, n, max(1, n // limit)):
        e = torch.zeros(n, dtype=torch.float64)
        e[i] = 1.0
        yield e.reshape(shape)


def _data(value: Any) -> Iterator[Data]:
    if isinstance(value, Data):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _data(part)


def _argument(value: Any, counter: Iterator[int]) -> Argument:
    if isinstance(value, Data):
        return Ref(f"x{next(counter)}", TensorInfo(value.shape, value.dtype))
    if isinstance(value, torch.Tensor):
        return Constant(value)
    if isinstance(value, list | tuple):
        return tuple(_argument(part, counter) for part in value)
    return value  # type: ignore[no-any-return]


def _filled(value: Any, queue: Iterator[torch.Tensor]) -> Any:
    if isinstance(value, Data | Ref):
        return next(queue)
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, list | tuple):
        return [_filled(part, queue) for part in value]
    return value
