"""The inputs of an ONNX graph: names, element types, fixed and symbolic axes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import onnx
import torch

from lipaudit.errors import ModelLoadError
from lipaudit.errors.inputs import (
    AmbiguousSizeError,
    FixedSizeError,
    IntegerInputError,
    NoFreeInputError,
    OpenSizesError,
    UnknownInputError,
)
from lipaudit.frontends.held_inputs import Fixed, as_tensor
from lipaudit.frontends.onnx.operators import TORCH_DTYPES
from lipaudit.frontends.onnx.side_inputs import needs_value
from lipaudit.frontends.shapes import Shape, complete_shape

# how exporters and people call the axis of the batch
_BATCH = re.compile(r"batch|^(n|b|bs)$", re.IGNORECASE)


@dataclass(frozen=True)
class GraphInput:
    """A network input: ``axes`` holds a size or the name of a symbolic axis; ``batch`` is the file's own batch size."""

    name: str
    axes: tuple[int | str, ...]
    dtype: torch.dtype

    @property
    def batch(self) -> int:
        """The batch size that the file fixes, 1 where it leaves it open."""
        first = self.axes[0] if self.axes else 1
        return first if isinstance(first, int) else 1

    @property
    def text(self) -> str:
        """The axes as the file has them."""
        return "x".join(map(str, self.axes))


def graph_inputs(model: onnx.ModelProto) -> list[GraphInput]:
    """The inputs that are not initialisers. Raises :class:`ModelLoadError` for inputs that are no tensors of numbers."""
    weights = {initializer.name for initializer in model.graph.initializer}
    inputs = []
    for info in model.graph.input:
        if info.name in weights:
            continue
        tensor = info.type.tensor_type
        dtype = TORCH_DTYPES.get(tensor.elem_type)
        if dtype is None:
            kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
            raise ModelLoadError(
                f"the input {info.name!r} holds {kind} values, which are no numbers that torch computes with: cut the graph behind it"
            )
        if not tensor.HasField("shape"):
            raise ModelLoadError(f"the input {info.name!r} has no shape in the file: export the model with one")
        axes = tuple(
            d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else (d.dim_param or f"axis{i}")
            for i, d in enumerate(tensor.shape.dim)
        )
        inputs.append(GraphInput(info.name, axes, dtype))
    if not inputs:
        raise ModelLoadError("the ONNX graph has no input: its output is constant")
    return inputs


def free_inputs(inputs: list[GraphInput], fixed: Fixed) -> tuple[list[GraphInput], list[GraphInput]]:
    """The inputs that are not held, of floating point and of integers. Raises :class:`UsageError` for a held name that is none."""
    if not any(i.dtype.is_floating_point for i in inputs):
        kind = str(inputs[0].dtype).removeprefix("torch.").upper()
        raise ModelLoadError(
            f"the input {inputs[0].name!r} holds {kind} values: a Lipschitz constant needs a floating-point input, and the file has none; "
            "cut the graph behind the embedding or the conversion to float"
        )
    names = [i.name for i in inputs]
    for name in fixed:
        if name not in names:
            raise UnknownInputError(name, names)
    free = [i for i in inputs if i.name not in fixed and i.dtype.is_floating_point]
    if not free:
        raise NoFreeInputError
    return free, [i for i in inputs if i.name not in fixed and not i.dtype.is_floating_point]


def check_unheld(unheld: list[GraphInput], free: list[GraphInput], graph: onnx.GraphProto) -> None:
    """Refuse an integer input without a value unless the bound is the same for every value."""
    where = needs_value(graph, [i.name for i in unheld], [i.name for i in free]) if unheld else ""
    if where:
        entry = unheld[0]
        raise IntegerInputError(entry.name, entry.text, entry.dtype, where)


def hold(
    inputs: list[GraphInput], fixed: Fixed, requested: Mapping[str, Shape] | None, batch: int = 1
) -> dict[str, torch.Tensor]:
    """The held inputs as tensors, of one sample where the file fixes a ``batch`` of several.

    Raises :class:`UsageError` for a value that does not fit its input.
    """
    batches = {i.axes[0] for i in inputs if i.axes and isinstance(i.axes[0], str)}
    held = {}
    for entry in inputs:
        if entry.name in fixed:
            axes = tuple(1 if axis in batches else axis for axis in entry.axes)
            if batch > 1 and axes and axes[0] == batch:
                axes = (1, *axes[1:])
            shape = (requested or {}).get(entry.name)
            held[entry.name] = as_tensor(entry.name, fixed[entry.name], entry.dtype, axes, shape)
    return held


def resolve_inputs(
    inputs: list[GraphInput], requested: Mapping[str, Shape] | None, whole: bool = False
) -> dict[str, Shape]:
    """A full shape for every input.

    A symbolic first axis is the batch, and 1, as is every axis of that name. A first axis of n that all inputs share is a batch of n,
    of which one sample is taken, unless ``whole`` or a request for the file's own sizes keeps it. Where fixed first axes differ, as
    those of a state and of a frame do, none is a batch. Other symbolic axes need a request; a request that contradicts a fixed axis
    raises :class:`UsageError`.

    >>> frame, state = GraphInput("x", ("n", 4), torch.float32), GraphInput("state", (2, "n", 8), torch.float32)
    >>> resolve_inputs([frame, state], None)
    {'x': (1, 4), 'state': (2, 1, 8)}
    """
    wanted = dict(requested or {})
    names = [i.name for i in inputs]
    if "" in wanted:
        if len(inputs) != 1:
            raise AmbiguousSizeError(names)
        wanted[names[0]] = wanted.pop("")
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise UnknownInputError(unknown[0], names)
    batches = {i.axes[0] for i in inputs if i.axes and isinstance(i.axes[0], str)}
    whole = whole or not _share_a_batch(inputs) or any(_is_whole(i, wanted.get(i.name)) for i in inputs)
    expected = {i.name: tuple(1 if axis in batches else axis for axis in i.axes) for i in inputs}
    if not whole:
        expected = {name: (1, *axes[1:]) if axes else () for name, axes in expected.items()}
    return {i.name: _shape(i, expected[i.name], wanted.get(i.name)) for i in inputs}


def batch_of(inputs: list[GraphInput], shapes: Mapping[str, Shape]) -> int:
    """How many samples the file takes at once, where ``shapes`` hold one of them."""
    return max(i.batch if i.axes and shapes[i.name][0] == 1 else 1 for i in inputs)


def _share_a_batch(inputs: list[GraphInput]) -> bool:
    return len({i.axes[0] if i.axes and isinstance(i.axes[0], int) else None for i in inputs}) == 1


def _is_whole(entry: GraphInput, requested: Shape | None) -> bool:
    """Whether a request asks for the file's own first axis where that could be a batch."""
    return requested is not None and len(requested) == len(entry.axes) and requested[0] == entry.axes[0] != 1


def _shape(entry: GraphInput, expected: tuple[int | str, ...], requested: Shape | None) -> Shape:
    """The shape that is asked for; by default the expected one, which symbolic axes leave open."""
    free = [axis for axis in expected if isinstance(axis, str)]
    if requested is None:
        if free:
            example = tuple("SIZE" if isinstance(axis, str) else axis for axis in expected[1:])
            raise OpenSizesError(entry.name, entry.text, example)
        return tuple(axis for axis in expected if isinstance(axis, int))
    if len(requested) == len(expected) and _may_be_literal(entry.axes[0], expected[0]):
        shape = requested
    else:
        template = tuple(1 if isinstance(axis, str) else axis for axis in expected)
        first, *rest = complete_shape(requested, (1, *template[1:]), entry.name)
        shape = (first if expected[0] == 1 else template[0], *rest)
    for position, (size, axis, fixed) in enumerate(zip(shape, expected, entry.axes, strict=True)):
        if isinstance(fixed, int) and axis != size:
            raise FixedSizeError(entry.name, entry.text, shape, position)
    return shape


def _may_be_literal(axis: int | str, expected: int | str) -> bool:
    """Whether a first axis need not be a batch of 1: one that is fixed at more, or symbolic with a name that is not a batch's."""
    return not _BATCH.search(axis) if isinstance(axis, str) else expected != 1
