"""Spellings of an operation become the operation: the arguments that :data:`lipaudit.graph.ops.ALIASES` leaves implicit are filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

from lipaudit.errors import GraphError
from lipaudit.graph.node import Argument, Constant, Graph, Node, Ref
from lipaudit.graph.ops import (
    ALIASES,
    CASTS,
    CLAMPS,
    EXPANSIONS,
    IDENTITIES,
    MOVEMENT,
    RESPELLED,
    SPLITS,
    VIEWS,
    aten,
)
from lipaudit.graph.rewrite import drop_unread, rebuild

Arguments = Mapping[str, Argument]


def canonical(node: Node) -> Node:
    """The node under the canonical name of its operation, itself where it has that name.

    Its data-dependent operands are the same ones in the same order, also those that are read for their shape or type only.

    >>> from lipaudit.graph.node import TensorInfo
    >>> info = TensorInfo((2, 3), torch.float32)
    >>> node = canonical(Node("y", "aten.flipud.default", {"self": Ref("x", info)}, (info,)))
    >>> node.op, node["dims"]
    ('aten.flip.default', (0,))
    """
    name = ALIASES.get(node.op)
    if name is None:
        return node
    translate = _TRANSLATIONS.get(node.op)
    arguments = dict(node.arguments if translate is None else translate(node))
    if isinstance(node.get("other"), Ref) and "other" not in arguments:
        arguments["other"] = node["other"]
    return replace(node, op=name, arguments=arguments)


def resolve_aliases(graph: Graph) -> Graph:
    """The graph with one spelling of everything that moves data or compares; activations keep the name that a report shows.

    What is read for its shape or type only is read no more.
    """

    def change(node: Node) -> Node | None:
        if node.op not in RESPELLED or node.op not in ALIASES:
            return None
        spelled = canonical(node)
        if node.op not in MOVEMENT:
            return spelled
        return replace(spelled, arguments={k: v for k, v in spelled.arguments.items() if k != "other"})

    return drop_unread(rebuild(graph, change))


def _reshape(node: Node) -> Arguments:
    return {"self": node["self"], "shape": node.output.shape}


def _clone(node: Node) -> Arguments:
    return {"self": node["self"], "memory_format": None}


def _cast(node: Node) -> Arguments:
    return {
        "self": node["self"], "dtype": node.output.dtype, "layout": None, "device": node.get("device"), "pin_memory": None,
        "non_blocking": False, "memory_format": None,
    }  # fmt: skip


def _permute(node: Node) -> Arguments:
    rank = len(node.output.shape)
    order = list(range(rank))
    name = node.op.split(".")[1]
    if name in ("transpose", "swapaxes", "swapdims", "mT") and rank:
        first, second = (-2, -1) if name == "mT" else (_integer(node[key]) for key in list(node.arguments)[1:3])
        order[first], order[second] = order[second], order[first]
    elif name in ("t", "numpy_T"):
        order.reverse()
    elif name in ("movedim", "moveaxis") and rank:
        source, target = ([axis % rank for axis in _integers(node[key])] for key in ("source", "destination"))
        rest = iter([axis for axis in range(rank) if axis not in source])
        order = [source[target.index(axis)] if axis in target else next(rest) for axis in range(rank)]
    return {"self": node["self"], "dims": tuple(order)}


def _flip(axis: int) -> Callable[[Node], Arguments]:
    return lambda node: {"self": node["self"], "dims": (axis,)}


def _slice(node: Node) -> Arguments:
    source = node["self"]
    axis, start, length = (_integer(node[key]) for key in ("dim", "start", "length"))
    if start < 0 and isinstance(source, Ref):
        start += source.info.shape[axis]
    return {"self": source, "dim": axis, "start": start, "end": start + length, "step": 1}


def _split(node: Node) -> Arguments:
    axis = _integer(node["dim"])
    return {"self": node["self"], "split_sizes": tuple(output.shape[axis] for output in node.outputs), "dim": axis}


def _expand(node: Node) -> Arguments:
    return {"self": node["self"], "size": node.output.shape, "implicit": False}


def _repeat(node: Node) -> Arguments:
    repeats = _integers(node["dims"])
    return {"self": node["self"], "repeats": (1,) * (len(node.output.shape) - len(repeats)) + repeats}


def _softmax(node: Node) -> Arguments:
    return {"self": node["self"], "dim": node["dim"], "dtype": torch.float32 if node["half_to_float"] else None}


def _clamp(node: Node) -> Arguments:
    if node.op == "aten.relu6.default":
        return {"self": node["self"], "min": 0.0, "max": 6.0}
    low, high = node.get("min", node.get("min_val")), node.get("max", node.get("max_val"))
    return {"self": node["self"], "min": low, "max": high}


def _prelu(node: Node) -> Arguments:
    """The kernel's weights have the axes of the tensor, one entry along each but that of the channels."""
    weight = node["weight"]
    return {
        "self": node["self"],
        "weight": replace(weight, value=weight.value.reshape(-1)) if isinstance(weight, Constant) else weight,
    }


def _integer(argument: Argument) -> int:
    if not isinstance(argument, int):
        raise GraphError(f"an axis or a size of a spelling of data movement is no integer: {argument!r}")
    return argument


def _integers(argument: Argument) -> tuple[int, ...]:
    return tuple(map(_integer, argument if isinstance(argument, tuple) else (argument,)))


# Aliases that are missing here have the arguments of their operation.
_TRANSLATIONS: dict[str, Callable[[Node], Arguments]] = {
    **dict.fromkeys(VIEWS, _reshape),
    **dict.fromkeys(IDENTITIES, _clone),
    **dict.fromkeys(CASTS, _cast),
    **dict.fromkeys(aten("transpose.int", "swapaxes", "swapdims", "t", "mT", "numpy_T"), _permute),
    **dict.fromkeys(aten("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist"), _permute),
    **dict.fromkeys(aten("flipud"), _flip(0)),
    **dict.fromkeys(aten("fliplr"), _flip(1)),
    **dict.fromkeys(aten("narrow"), _slice),
    **dict.fromkeys(SPLITS, _split),
    **dict.fromkeys(EXPANSIONS, _expand),
    **dict.fromkeys(aten("tile"), _repeat),
    **dict.fromkeys(aten("_softmax"), _softmax),
    **dict.fromkeys(aten("_log_softmax"), _softmax),
    **dict.fromkeys(CLAMPS, _clamp),
    **dict.fromkeys(aten("_prelu_kernel"), _prelu),
}
