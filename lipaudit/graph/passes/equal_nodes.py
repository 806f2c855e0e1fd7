"""Which nodes compute the same: the same operation with the same arguments."""

from __future__ import annotations

from lipaudit.graph.node import Argument, Constant, Graph, Ref


def representatives(graph: Graph) -> dict[str, str]:
    """For every node the name of the first one that computes the same."""
    first_equal: dict[str, str] = {}
    first: dict[tuple[object, ...], str] = {}
    for node in graph:
        arguments = tuple((key, _key(argument, first_equal)) for key, argument in node.arguments.items())
        own = (id(node.payload),) if node.payload is not None or node.op == "input" else ()
        name = node.name if node.op == "input" else ""
        first_equal[node.name] = first.setdefault((node.op, name, own, arguments), node.name)
    return first_equal


def _key(argument: Argument, first_equal: dict[str, str]) -> object:
    if isinstance(argument, Ref):
        return ("node", first_equal[argument.name])
    if isinstance(argument, Constant):
        return ("constant", id(argument.value))
    if isinstance(argument, tuple):
        return tuple(_key(part, first_equal) for part in argument)
    return (type(argument), argument)
