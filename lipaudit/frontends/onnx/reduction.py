"""ONNX operators that reduce, sort or accumulate along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.operators import NodeView, converter, first_operand


@converter("TopK")
def top_k(node: NodeView) -> nn.Module:
    """The k largest or smallest along an axis, with their indices."""
    count = int(node.constant(1).item())
    axis, largest, ordered = node.axis("axis", -1), bool(node.attr("largest", 1)), bool(node.attr("sorted", 1))
    return first_operand(node, lambda x: tuple(torch.topk(x, count, dim=axis, largest=largest, sorted=ordered)))


@converter("CumSum")
def cumulative_sum(node: NodeView) -> nn.Module:
    """Running sum along an axis, from the other end on request (``reverse``), without the entry itself (``exclusive``)."""
    exclusive, reverse = bool(node.attr("exclusive", 0)), bool(node.attr("reverse", 0))
    axis = node.place(int(node.constant(1).item()))
    behind = len(node.shape()) - 1 - axis
    rest = node.shape()[axis] - 1

    def accumulate(x: torch.Tensor) -> torch.Tensor:
        x = x.flip(axis) if reverse else x
        x = torch.cumsum(x.narrow(axis, 0, rest) if exclusive else x, dim=axis)
        x = functional.pad(x, [0, 0] * behind + [1, 0]) if exclusive else x
        return x.flip(axis) if reverse else x

    return first_operand(node, accumulate)


def _reduction(name: str, axes: tuple[int, ...], keep: bool) -> Callable[[torch.Tensor], Any]:
    def norm(order: float) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda x: torch.linalg.vector_norm(x, ord=order, dim=axes, keepdim=keep)

    def product(x: torch.Tensor) -> torch.Tensor:
        for axis in sorted(axes, reverse=True):
            x = torch.prod(x, dim=axis, keepdim=keep)
        return x

    table: dict[str, Callable[[torch.Tensor], Any]] = {
        "ReduceMean": lambda x: torch.mean(x, dim=axes, keepdim=keep),
        "ReduceSum": lambda x: torch.sum(x, dim=axes, keepdim=keep),
        "ReduceMax": lambda x: torch.amax(x, dim=axes, keepdim=keep),
        "ReduceMin": lambda x: torch.amin(x, dim=axes, keepdim=keep),
        "ReduceL1": norm(1),
        "ReduceL2": norm(2),
        "ReduceSumSquare": lambda x: torch.sum(x * x, dim=axes, keepdim=keep),
        "ReduceLogSum": lambda x: torch.log(torch.sum(x, dim=axes, keepdim=keep)),
        "ReduceLogSumExp": lambda x: torch.logsumexp(x, dim=axes, keepdim=keep),
        "ReduceProd": product,
    }
    return table[name]


@converter(
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceProd",
)
def reduction(node: NodeView) -> nn.Module:
    """Over the stated axes, or over all of them."""
    rank = len(node.shape())
    axes = node.ints(1, "axes")
    if not axes:
        if node.attr("noop_with_empty_axes", 0):
            if node.op not in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"):
                node.fail("an empty list of axes that means no reduction is not supported")
            return first_operand(node, lambda x: x.clone())
        axes = list(range(rank))
    positions = tuple(sorted(node.place(a) for a in axes))
    return first_operand(node, _reduction(node.op, positions, bool(node.attr("keepdims", 1))))


@converter("ArgMax", "ArgMin")
def extremum_position(node: NodeView) -> nn.Module:
    """Index of the largest or smallest entry along an axis."""
    if node.attr("select_last_index", 0):
        node.fail("select_last_index is not supported")
    function = torch.argmax if node.op == "ArgMax" else torch.argmin
    axis, keep = node.axis("axis", 0), bool(node.attr("keepdims", 1))
    return first_operand(node, lambda x: function(x, dim=axis, keepdim=keep))
