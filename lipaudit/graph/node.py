"""The graph that every rule reads: frozen nodes in topological order, one ATen operation each.

Only what depends on the network's input is a node. Whatever depends on weights alone has been evaluated and appears
as a :class:`Constant` among the arguments of the nodes that use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import torch

from lipaudit.errors import GraphError

T = TypeVar("T", "Ref", "Constant")


@dataclass(frozen=True)
class TensorInfo:
    """Shape and dtype of a tensor that depends on the input; the batch axis (of size 1) is included."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Ref:
    """A use of another node's output. ``name`` is the node; ``info`` describes the tensor that arrives."""

    name: str
    info: TensorInfo


@dataclass(frozen=True, eq=False)
class Constant:
    """A tensor that does not depend on the input, with the parameter or buffer names that it was computed from.

    ``known`` is False where the structure of a network is audited and the value stands for any other: no status may
    rest on it (:func:`lipaudit.graph.passes.unknown_weights.replace_unknown_weights`).

    What a network computes from its weights is evaluated in float64: ``computed_in`` is the dtype in which the network
    does it (None for stored numbers), and ``error`` bounds how far an entry may be from what the stored numbers define, relative to the
    entry; infinite where that is not known.
    """

    value: torch.Tensor
    names: tuple[str, ...] = ()
    known: bool = True
    error: float = 0.0
    computed_in: torch.dtype | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The dtype that the tensor has in the network."""
        return self.computed_in or self.value.dtype


Literal: TypeAlias = int | float | bool | str | torch.dtype | torch.device | torch.layout | torch.memory_format | None
Argument: TypeAlias = "Ref | Constant | Literal | tuple[Argument, ...]"


@dataclass(frozen=True, eq=False)
class Node:
    """One operation.

    ``op`` is the ATen overload name (``aten.conv2d.default``), ``input`` for a network input, ``getitem`` for one
    output of an operation that returns several, or a ``lipaudit.*`` name for what ``simplify`` put in the place of
    several nodes.
    ``arguments`` are named as in the operation's schema (``input``/``self``, ``weight``, ``stride`` …) with defaults
    filled in.
    ``outputs`` has one entry per tensor returned (usually one).
    ``module`` is the path of the module that ran the operation (``layer1.0.conv1``), ``""`` at the top level.
    ``sources`` are the names of nodes that were merged into this one.
    """

    name: str
    op: str
    arguments: Mapping[str, Argument]
    outputs: tuple[TensorInfo, ...]
    module: str = ""
    sources: tuple[str, ...] = ()
    payload: Any = field(default=None)

    def __getitem__(self, key: str) -> Argument:
        try:
            return self.arguments[key]
        except KeyError:
            raise GraphError(f"node {self.name} ({self.op}) has no argument {key!r}") from None

    def get(self, key: str, default: Argument = None) -> Argument:
        """The argument ``key``, or ``default`` where the operation has none."""
        return self.arguments.get(key, default)

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Every data-dependent tensor among the arguments, in order, repeated where it is used twice."""
        return tuple(parts(tuple(self.arguments.values()), Ref))

    @property
    def output(self) -> TensorInfo:
        """The only output of a node with one output."""
        if len(self.outputs) != 1:
            raise GraphError(f"node {self.name} ({self.op}) has {len(self.outputs)} outputs, one was expected")
        return self.outputs[0]


def parts(argument: Argument, kind: type[T]) -> Iterator[T]:
    """Everything of a kind (:class:`Ref` or :class:`Constant`) in an argument, in order."""
    if isinstance(argument, kind):
        yield argument
    elif isinstance(argument, tuple):
        for part in argument:
            yield from parts(part, kind)


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in topological order; ``inputs`` and ``outputs`` name nodes.

    ``outputs`` keeps the order of the network's outputs, ``output_names`` says where each stands in what the network
    returns (``0``, ``out``, ``boxes.1``); an output that does not depend on the input is left out and counted in
    ``constant_outputs``. ``input_sizes`` maps a module path to the shapes that its forward hook saw.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    output_names: tuple[str, ...] = ()
    constant_outputs: int = 0
    input_sizes: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    num_parameters: int = 0
    unused_parameters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for node in self.nodes:
            if node.name in seen:
                raise GraphError(f"two nodes are named {node.name}")
            for ref in node.refs:
                if ref.name not in seen:
                    raise GraphError(f"node {node.name} uses {ref.name} before it is computed")
            seen.add(node.name)
        for name in (*self.inputs, *self.outputs):
            if name not in seen:
                raise GraphError(f"the graph names {name}, which is not one of its nodes")

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)
