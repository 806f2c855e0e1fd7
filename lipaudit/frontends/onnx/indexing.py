"""ONNX operators that read or write entries at constant positions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from lipaudit.frontends.onnx.operators import NodeView, all_operands, converter, first_operand

Array: TypeAlias = np.ndarray[Any, Any]


@converter("Gather")
def gather(node: NodeView) -> nn.Module:
    """Entries along one axis by constant indices; consecutive ones are a slice."""
    if not node.is_constant(1):
        node.fail("its indices depend on the network's input")
    if node.is_constant(0):
        node.fail("it reads a table")
    axis, shape = node.axis("axis", 0), node.shape()
    array = _from_the_front(node, node.constant(1), shape[axis])
    if array.ndim == 0:
        return first_operand(node, partial(torch.select, dim=axis, index=int(array)))
    flat = array.reshape(-1)
    target = (*shape[:axis], *array.shape, *shape[axis + 1 :])
    if flat.size and np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size)):
        start, length = int(flat[0]), int(flat.size)
        return first_operand(node, lambda x: x.narrow(axis, start, length).reshape(target))
    indices = torch.from_numpy(flat.copy())
    if array.ndim == 1:
        return first_operand(node, lambda x, index: x.index_select(axis, index), indices)
    return first_operand(node, lambda x, index: x.index_select(axis, index).reshape(target), indices)


@converter("GatherElements")
def gather_elements(node: NodeView) -> nn.Module:
    """One index per output entry."""
    axis = node.axis("axis", 0)
    indices = torch.from_numpy(_from_the_front(node, node.constant(1), node.shape()[axis]))
    return first_operand(node, lambda x, index: torch.gather(x, axis, index), indices)


def _from_the_front(node: NodeView, indices: Array, sizes: int | Array) -> Array:
    """Indices with those below 0 counted from the end of their axis; one outside of the axis is refused."""
    indices = indices.astype(np.int64)
    places = np.where(indices < 0, indices + sizes, indices)
    outside = (places < 0) | (places >= sizes)
    if outside.any():
        node.fail(
            f"the index {indices[outside][0]} lies outside of its axis of size {np.broadcast_to(sizes, indices.shape)[outside][0]}"
        )
    return places


def _selection(node: NodeView, select: Callable[[Array], Array]) -> nn.Module:
    """What ``select`` does to the numbers of the input's entries, as a selection of entries."""
    shape = node.shape()
    chosen = select(np.arange(int(np.prod(shape))).reshape(shape))
    target, index = tuple(chosen.shape), torch.from_numpy(chosen.reshape(-1).astype(np.int64))
    return first_operand(node, lambda x, i: x.reshape(-1).index_select(0, i).reshape(target), index)


@converter("GatherND")
def gather_nd(node: NodeView) -> nn.Module:
    """Slices at constant tuples of indices, behind ``batch_dims`` common axes."""
    indices, batch = node.constant(1), int(node.attr("batch_dims", 0))
    if node.shape()[:batch] != indices.shape[:batch]:
        node.fail(f"the common axes of its inputs differ: {node.shape()[:batch]} and {indices.shape[:batch]}")
    sizes = np.array(node.shape()[batch : batch + indices.shape[-1]])
    indices = _from_the_front(node, indices, sizes)

    def select(numbers: Array) -> Array:
        if not batch:
            return np.asarray(numbers[tuple(np.moveaxis(indices, -1, 0))])
        rows = zip(
            numbers.reshape(-1, *numbers.shape[batch:]), indices.reshape(-1, *indices.shape[batch:]), strict=True
        )
        parts = np.stack([row[tuple(np.moveaxis(index, -1, 0))] for row, index in rows])
        return parts.reshape(*numbers.shape[:batch], *parts.shape[1:])

    return _selection(node, select)


@converter("Compress")
def compress(node: NodeView) -> nn.Module:
    """The entries of one axis, or of the flat tensor, where a constant condition holds."""
    condition, axis = node.constant(1).astype(bool), node.attr("axis")
    return _selection(node, lambda numbers: np.compress(condition, numbers, axis))


@converter("ReverseSequence")
def reverse_sequence(node: NodeView) -> nn.Module:
    """The first ``sequence_lens[b]`` steps of each sample b in reverse order, the others as they are."""
    time, batch, lengths = int(node.attr("time_axis", 0)), int(node.attr("batch_axis", 1)), node.constant(1)

    def select(numbers: Array) -> Array:
        result = numbers.copy()
        source, goal = (np.moveaxis(a, (time, batch), (0, 1)) for a in (numbers, result))
        for position, length in enumerate(lengths.reshape(-1)):
            goal[:length, position] = source[:length, position][::-1]
        return result

    return _selection(node, select)


def _reduction(node: NodeView) -> bool:
    """Whether updates are added (or replace what was there)."""
    reduction = node.attr("reduction", "none")
    if reduction not in ("none", "add"):
        node.fail(f"the reduction {reduction!r} is not supported")
    return bool(reduction == "add")


@converter("ScatterND")
def scatter_nd(node: NodeView) -> nn.Module:
    """Write or add slices at constant tuples of indices."""
    add, shape = _reduction(node), node.shape()
    indices = node.constant(1)
    places = _from_the_front(node, indices, np.array(shape[: indices.shape[-1]]))
    unique = _are_unique(node, places.reshape(-1, places.shape[-1]), add)

    def write(x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        if not add:
            return x.index_put(tuple(index.unbind(-1)), updates)
        return x + updates.new_zeros(shape).index_put(tuple(index.unbind(-1)), updates, accumulate=not unique)

    return all_operands(node, write, {1: torch.from_numpy(places)})


@converter("ScatterElements", "Scatter")
def scatter_elements(node: NodeView) -> nn.Module:
    """Write or add one entry per constant index along an axis."""
    add, axis = _reduction(node), node.axis("axis", 0)
    indices = _from_the_front(node, node.constant(1), node.shape()[axis])
    places = np.stack(np.meshgrid(*map(np.arange, indices.shape), indexing="ij"), axis=-1)
    places[..., axis] = indices
    unique, shape = _are_unique(node, places.reshape(-1, indices.ndim), add), node.shape()

    def write(x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        if not add:
            return x.scatter(axis, index, updates)
        nothing = updates.new_zeros(shape)
        return x + (nothing.scatter if unique else nothing.scatter_add)(axis, index, updates)

    return all_operands(node, write, {1: torch.from_numpy(indices)})


def _are_unique(node: NodeView, places: Array, add: bool) -> bool:
    """Whether every update goes to a place of its own; else only sums are defined."""
    unique = len(np.unique(places, axis=0)) == len(places)
    if not unique and not add:
        node.fail("two updates go to one place, so that the result is not defined")
    return unique
