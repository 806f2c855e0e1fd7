"""Decomposition: an operation without a rule becomes operations that have one, by torch's own definitions of it.

torch defines most operations by others: composite operations in C++, a table of decompositions in Python, and the
implementations of its primitives. An operation without a rule is traced through its definition on tensors without values;
what comes out is decomposed again until every piece has a rule. Where a piece is left without one the operation stays as
it was, and the report names it. So it does where the definition decides by values (``where(x > y, ...)``): each piece
jumps, and the whole may not. Everything in a definition that reads no value becomes a constant.

The pieces compute what the operation computes, so that a bound for them is one for it. It need not be the least.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from lipaudit.graph.arguments import bind, overload
from lipaudit.graph.constants import evaluated, is_constant, parts
from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref, TensorInfo
from lipaudit.graph.passes.decomposition_rules import DEFINITIONS
from lipaudit.graph.rewrite import drop_unread

Known: TypeAlias = Callable[[Node], bool]
Definitions: TypeAlias = Mapping[str, Callable[..., Any]]
# Definitions within definitions; torch needs four at most.
_DEEPEST = 8
# Operations that decide by the values of a tensor.
_DECISIONS = {
    f"aten.{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Scalar", "Tensor")
} | {
    f"aten.{name}.default"
    for name in ("sign", "sgn", "floor", "ceil", "round", "trunc", "frac", "isnan", "isinf", "isfinite", "signbit",
                 "argmax", "argmin", "nonzero")
}  # fmt: skip


class _NoDefinitionError(Exception):
    """An operation has no definition whose pieces all have rules."""


def decompose(graph: Graph, known: Known, definitions: Definitions = DEFINITIONS) -> Graph:
    """The graph with every operation that is not ``known`` replaced by its pieces, where all of them are.

    What follows the constants among the pieces is folded as well. Names of nodes that stay do not change. ``definitions`` of operations
    come before torch's own.
    """
    if all(node.op in ("input", "getitem") or known(node) for node in graph):
        return graph
    builder = _Builder(known, definitions, {node.name for node in graph})
    for node in graph:
        builder.place(node)
    values = [builder.values[name] for name in graph.outputs]
    kept = [isinstance(value, Ref) for value in values]
    return drop_unread(
        replace(
            graph,
            nodes=tuple(builder.nodes),
            outputs=tuple(value.name for value in values if isinstance(value, Ref)),
            output_names=tuple(name for name, stays in zip(graph.output_names, kept, strict=True) if stays),
            constant_outputs=graph.constant_outputs + kept.count(False),
        )
    )


class _Several(tuple[Ref, ...]):
    """The outputs of a node with several, which are read by ``getitem`` nodes only."""

    __slots__ = ()


class _Builder:
    """Nodes of the new graph in order, and what stands in it for each node of the old one."""

    def __init__(self, known: Known, definitions: Definitions, taken: set[str]) -> None:
        self.known, self.definitions = known, definitions
        self.nodes: list[Node] = []
        # per node: a Ref, a Constant, a tuple of both (a node with several outputs in pieces), or _Several
        self.values: dict[str, Any] = {}
        self._taken = taken

    def place(self, node: Node) -> None:
        """Append a node of the old graph, or its pieces."""
        arguments = {key: self._moved(argument) for key, argument in node.arguments.items()}
        moved = replace(node, arguments=arguments)
        if node.op == "getitem" and isinstance(node["self"], Ref):
            source = self.values[node["self"].name]
            if not isinstance(source, _Several | Ref):
                self.values[node.name] = source[node["index"]]
                return
        elif node.op not in ("input", "getitem") and not node.payload:
            count = len(self.nodes)
            try:
                target = _target(node)
                if not self.known(node) or is_constant(target, arguments):
                    self.values[node.name] = self._expanded(target, moved, 0)
                    return
            except _NoDefinitionError:
                del self.nodes[count:]
        self.values[node.name] = self._append(moved)

    def _moved(self, argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            value = self.values[argument.name]
            return argument if isinstance(value, tuple) else value
        return tuple(self._moved(part) for part in argument) if isinstance(argument, tuple) else argument

    def _append(self, node: Node) -> Any:
        self.nodes.append(node)
        refs = _Several(Ref(node.name, info) for info in node.outputs)
        return refs[0] if len(refs) == 1 else refs

    def _named(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def _expanded(self, target: torch._ops.OpOverload, node: Node, depth: int) -> Any:
        """What a call gives once it is in pieces: a Ref or Constant, or a tuple of them."""
        if is_constant(target, node.arguments):
            return evaluated(target, dict(node.arguments), _described(node))
        definition = _definition(target, self.definitions)
        if definition is None or depth > _DEEPEST:
            raise _NoDefinitionError
        decides = torch.Tag.pointwise not in target.tags or len({ref.name for ref in node.refs}) > 1
        graph = _traced(definition, node)
        leaves = map(_contiguous, parts(list(node.arguments.values()), (Ref, Constant)))
        values: dict[torch.fx.Node, Any] = {}
        for step in graph.graph.nodes:
            if step.op == "placeholder":
                values[step] = next(leaves)
            elif step.op == "get_attr":
                values[step] = Constant(getattr(graph, step.target))
            elif step.op == "call_function":
                values[step] = self._step(step, values, node, decides, depth)
            else:
                return pytree.tree_map_only(torch.fx.Node, values.__getitem__, step.args[0])
        raise _NoDefinitionError

    def _step(
        self, step: torch.fx.Node, values: Mapping[torch.fx.Node, Any], whole: Node, decides: bool, depth: int
    ) -> Any:
        args: Any = torch.fx.map_arg(step.args, values.__getitem__)
        kwargs: Any = torch.fx.map_arg(step.kwargs, values.__getitem__)
        name = f"{whole.name}_{step.name}"
        if step.target is operator.getitem:
            source, index = args
            if not isinstance(source, _Several | Ref):
                return source[index]
            ref = source if isinstance(source, Ref) else source[index]  # a list of one tensor
            return self._append(
                Node(self._named(name), "getitem", {"self": ref, "index": index}, (ref.info,), whole.module)
            )
        if not isinstance(step.target, torch._ops.OpOverload):
            raise _NoDefinitionError
        bound = {key: _plain(value) for key, value in bind(step.target, args, kwargs).items()}
        if is_constant(step.target, bound):
            return evaluated(step.target, bound, step.meta.get("val"))
        outputs = tuple(TensorInfo(tuple(t.shape), t.dtype) for t in pytree.tree_leaves(step.meta["val"]))
        piece = Node(self._named(name), str(step.target), bound, outputs, whole.module)
        if decides and piece.op in _DECISIONS:
            raise _NoDefinitionError
        return self._append(piece) if self.known(piece) else self._expanded(step.target, piece, depth + 1)


def _described(node: Node) -> Any:
    """Tensors without values of the shapes and types of a node's outputs."""
    tensors = tuple(torch.empty(info.shape, dtype=info.dtype, device="meta") for info in node.outputs)
    return tensors[0] if len(tensors) == 1 else tensors


def _target(node: Node) -> torch._ops.OpOverload:
    if node.op.count(".") != 2:
        raise _NoDefinitionError
    return overload(node.op)


def _definition(target: torch._ops.OpOverload, definitions: Definitions) -> Callable[..., Any] | None:
    """How torch computes an operation by others; None where it has a kernel only."""
    if (own := definitions.get(str(target))) is not None:
        return own
    if target._can_decompose():
        return target
    return decomposition_table.get(target) or getattr(target, "impl_aten", None)


def _traced(definition: Callable[..., Any], node: Node) -> torch.fx.GraphModule:
    """The operations that a definition runs for the arguments of a node; a placeholder for every tensor among them."""
    target = overload(node.op)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    constants = [c.value for c in parts(list(node.arguments.values()), Constant)]
    place = next((c.device for c in constants if not c.is_meta), torch.device("cpu"))
    shapes = [
        TensorInfo(tuple(leaf.value.shape), leaf.dtype) if isinstance(leaf, Constant) else leaf.info
        for leaf in parts(list(node.arguments.values()), (Ref, Constant))
    ]
    with mode:
        tensors = [torch.empty(info.shape, dtype=info.dtype, device=place) for info in shapes]

    def run(*given: torch.Tensor) -> Any:
        queue = iter(given)

        def fill(argument: Argument) -> Any:
            if isinstance(argument, tuple):
                return [fill(part) for part in argument]
            return next(queue) if isinstance(argument, Ref | Constant) else argument

        bound = {key: fill(argument) for key, argument in node.arguments.items()}
        positional = [bound.pop(a.name) for a in target._schema.arguments if not a.kwarg_only]
        result = definition(*positional, **bound)
        return tuple(result) if isinstance(result, list | tuple) else result  # some are tuples with names

    try:
        with torch.no_grad():
            traced: torch.fx.GraphModule = make_fx(dispatch_functionalize(run), _allow_non_fake_inputs=True)(*tensors)
    except Exception as error:  # a definition that reads values, or that torch itself cannot trace
        raise _NoDefinitionError from error
    return traced


def _contiguous(leaf: Ref | Constant) -> Ref | Constant:
    """Constants laid out like the tensors that stood for them."""
    return replace(leaf, value=leaf.value.contiguous()) if isinstance(leaf, Constant) else leaf


def _plain(value: Any) -> Argument:
    return tuple(_plain(part) for part in value) if isinstance(value, list | tuple) else value
