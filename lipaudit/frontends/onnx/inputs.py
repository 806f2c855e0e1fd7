"""The inputs of an ONNX graph: names, element types, fixed and symbolic axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx
import torch

from lipaudit.errors import ModelLoadError, UsageError
from lipaudit.frontends.shapes import Shape, complete_shape

_DTYPES = {
    onnx.TensorProto.FLOAT: torch.float32,
    onnx.TensorProto.DOUBLE: torch.float64,
    onnx.TensorProto.FLOAT16: torch.float16,
    onnx.TensorProto.BFLOAT16: torch.bfloat16,
}


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
    """The inputs that are not initialisers. Raises :class:`ModelLoadError` for inputs that are not floating-point tensors."""
    weights = {initializer.name for initializer in model.graph.initializer}
    found = []
    for info in model.graph.input:
        if info.name in weights:
            continue
        tensor = info.type.tensor_type
        dtype = _DTYPES.get(tensor.elem_type)
        if dtype is None:
            kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
            raise ModelLoadError(
                f"the input {info.name!r} holds {kind} values: a Lipschitz constant needs floating-point inputs; cut the graph "
                "behind the embedding or the conversion to float"
            )
        if not tensor.HasField("shape"):
            raise ModelLoadError(f"the input {info.name!r} has no shape in the file: export the model with one")
        axes = tuple(
            d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else (d.dim_param or f"axis{i}")
            for i, d in enumerate(tensor.shape.dim)
        )
        found.append(GraphInput(info.name, axes, dtype))
    if not found:
        raise ModelLoadError("the ONNX graph has no input: its output is constant")
    return found


def resolve_inputs(inputs: list[GraphInput], requested: Mapping[str, Shape] | None) -> dict[str, Shape]:
    """A full shape with a batch of 1 for every input.

    A symbolic first axis is the batch. Other symbolic axes need a request; a request that contradicts a fixed axis raises
    :class:`UsageError`.
    """
    wanted = dict(requested or {})
    names = [i.name for i in inputs]
    if "" in wanted:
        if len(inputs) != 1:
            raise UsageError(
                f"the model has the inputs {', '.join(names)}: say which one a size is for, --input {names[0]}:SIZES"
            )
        wanted[names[0]] = wanted.pop("")
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise UsageError(f"the model has no input named {unknown[0]!r}; its inputs are {', '.join(map(repr, names))}")
    return {i.name: _shape(i, wanted.get(i.name)) for i in inputs}


def _shape(entry: GraphInput, requested: Shape | None) -> Shape:
    if requested is None:
        free = [a for a in entry.axes[1:] if isinstance(a, str)]
        if free:
            example = "x".join(str(a) if isinstance(a, int) else "SIZE" for a in entry.axes[1:])
            raise UsageError(
                f"the input {entry.name!r} has the shape {entry.text} with the symbolic axes {', '.join(free)}: give the sizes "
                f"with --input, for example --input {example}"
            )
        return (1, *(a for a in entry.axes[1:] if isinstance(a, int))) if entry.axes else ()
    template = tuple(a if isinstance(a, int) else 1 for a in entry.axes)
    shape = complete_shape(requested, (1, *template[1:]), entry.name)
    for position, (size, axis) in enumerate(zip(shape, entry.axes, strict=True)):
        if position and isinstance(axis, int) and axis != size:
            raise UsageError(
                f"the file fixes the input {entry.name!r} at {entry.text}; {'x'.join(map(str, shape))} differs in axis "
                f"{position}: export the model with a symbolic axis to audit other sizes"
            )
    return shape
