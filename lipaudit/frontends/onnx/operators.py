"""One registry from ONNX operator to torch module, and what a converter sees of a node.

A converter receives a :class:`NodeView` and returns a module that takes the node's data-dependent inputs, in order, and
returns its output (a tuple where there are several). Everything that does not depend on the network's input has been
evaluated before, so that axes, shapes, pads and weights are plain numbers, and every shape is static.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import numpy as np
import onnx
import torch
from torch import nn

from lipaudit.errors import ModelLoadError, RegistryError

# element types that torch can compute with
TORCH_DTYPES = {
    onnx.TensorProto.FLOAT: torch.float32,
    onnx.TensorProto.DOUBLE: torch.float64,
    onnx.TensorProto.FLOAT16: torch.float16,
    onnx.TensorProto.BFLOAT16: torch.bfloat16,
    onnx.TensorProto.INT64: torch.int64,
    onnx.TensorProto.INT32: torch.int32,
    onnx.TensorProto.INT16: torch.int16,
    onnx.TensorProto.INT8: torch.int8,
    onnx.TensorProto.UINT8: torch.uint8,
    onnx.TensorProto.BOOL: torch.bool,
}


class UnsupportedOperatorError(ModelLoadError):
    """An operator, or this use of it, has no conversion; the message names the operator and the node."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph: ``constant`` where it does not depend on the input, else an ``example`` of its content.

    ``name`` is the name under which the network computes it; ``tensor`` caches the constant so that ties stay ties.
    """

    name: str
    constant: np.ndarray[Any, Any] | None = None
    example: torch.Tensor | None = None
    cache: list[torch.Tensor] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, ...]:
        """The static shape."""
        source = self.constant if self.constant is not None else self.example
        return tuple(source.shape) if source is not None else ()

    @property
    def tensor(self) -> torch.Tensor:
        """The constant as a torch tensor, the same object at each call."""
        if not self.cache and self.constant is not None:
            self.cache.append(to_torch(self.constant, self.name))
        return self.cache[0]


def first_line(error: Exception) -> str:
    """The first line of an error's message: what torch and onnx put below it is no help to the reader."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def to_torch(array: np.ndarray[Any, Any], name: str) -> torch.Tensor:
    """A numpy array of an ONNX tensor as a torch tensor with its own memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    if array.dtype.kind not in "fiub":
        raise ModelLoadError(f"the tensor {name} has the type {array.dtype}, which has no arithmetic in torch")
    return torch.from_numpy(np.array(array))


def to_numpy(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The content of a tensor on the CPU as a numpy array, bfloat16 included."""
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        bits: np.ndarray[Any, Any] = tensor.view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    return tensor.numpy()


@dataclass(frozen=True, eq=False)
class NodeView:
    """A node with its operator-set version, its attributes and its inputs (None where an optional one is left out)."""

    proto: onnx.NodeProto
    opset: int
    operands: tuple[Value | None, ...]

    @property
    def op(self) -> str:
        """Operator name."""
        return str(self.proto.op_type)

    @property
    def label(self) -> str:
        """Operator, version and node name for messages."""
        where = f"node {self.proto.name!r}" if self.proto.name else f"the node that computes {self.proto.output[0]!r}"
        return f"{operator_name(self.proto)} (opset {self.opset}, {where})"

    def fail(self, reason: str) -> NoReturn:
        """Refuse this use of the operator."""
        raise UnsupportedOperatorError(f"the ONNX operator {self.label} cannot be converted: {reason}")

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute (text decoded), or the default."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                value = onnx.helper.get_attribute_value(attribute)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def has(self, index: int) -> bool:
        """Whether the optional input is given."""
        return index < len(self.operands) and self.operands[index] is not None

    def value(self, index: int) -> Value:
        """The input, which must be there."""
        value = self.operands[index] if index < len(self.operands) else None
        if value is None:
            self.fail(f"input {index} is missing")
        return value

    def is_constant(self, index: int) -> bool:
        """Whether the input is given and does not depend on the network's input."""
        return self.has(index) and self.value(index).constant is not None

    def constant(self, index: int) -> np.ndarray[Any, Any]:
        """The content of a constant input."""
        array = self.value(index).constant
        if array is None:
            self.fail(f"input {index} depends on the network's input; only a constant is supported there")
        return array

    def tensor(self, index: int) -> torch.Tensor:
        """The content of a constant input as a tensor."""
        self.constant(index)
        return self.value(index).tensor

    def ints(self, index: int, attribute: str = "") -> list[int] | None:
        """Integers from a constant input or, where it is not given, from an attribute."""
        if self.has(index):
            return [int(i) for i in self.constant(index).reshape(-1)]
        integers = self.attr(attribute) if attribute else None
        return None if integers is None else [int(i) for i in integers]

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The static shape of an input."""
        return self.value(index).shape

    def axis(self, name: str, default: int) -> int:
        """An axis attribute, counted from the front; the place behind the last axis is one, too."""
        axis, rank = int(self.attr(name, default)), len(self.shape())
        return rank if axis == rank else self.place(axis)

    def place(self, axis: int, rank: int | None = None) -> int:
        """An axis of the first input, or of a tensor of that rank, counted from the front; one outside of the tensor is refused."""
        rank = len(self.shape()) if rank is None else rank
        if not -rank <= axis < rank:
            self.fail(f"the axis {axis} lies outside of its {rank} axes")
        return axis + rank if axis < 0 else axis


Converter: TypeAlias = Callable[[NodeView], nn.Module]
_CONVERTERS: dict[str, Converter] = {}


def operator_name(proto: onnx.NodeProto) -> str:
    """The operator with its domain in front, unless that is the standard's (which has two spellings)."""
    domain = standard_domain(proto.domain)
    return f"{domain}.{proto.op_type}" if domain else str(proto.op_type)


def standard_domain(domain: str) -> str:
    """The domain, with the two spellings of the standard's own made one.

    >>> standard_domain("ai.onnx"), standard_domain("com.microsoft")
    ('', 'com.microsoft')
    """
    return "" if domain == "ai.onnx" else domain


def converter(*operators: str, domain: str = "") -> Callable[[Converter], Converter]:
    """Register the decorated function for operators of a domain (default: the standard's); twice raises."""

    def register(function: Converter) -> Converter:
        for operator in operators:
            name = f"{domain}.{operator}" if domain else operator
            if name in _CONVERTERS:
                raise RegistryError(f"the ONNX operator {name} has two converters")
            _CONVERTERS[name] = function
        return function

    return register


def find_converter(proto: onnx.NodeProto) -> Converter | None:
    """The converter for a node's operator, or None."""
    return _CONVERTERS.get(operator_name(proto))


class Apply(nn.Module):
    """A function of all operands of a node; ``forward`` takes the data-dependent ones and fills in the constants."""

    def __init__(
        self, function: Callable[..., Any], operands: Sequence[torch.Tensor | float | int | bool | None]
    ) -> None:
        super().__init__()
        self._function = function
        self._slots: list[Any] = []
        for index, operand in enumerate(operands):
            if isinstance(operand, torch.Tensor):
                name = f"operand_{index}"
                # a mask may hold infinities, a weight may not
                if operand.is_floating_point() and operand.numel() > 1 and bool(torch.isfinite(operand).all()):
                    self.register_parameter(name, nn.Parameter(operand, requires_grad=False))
                else:
                    self.register_buffer(name, operand)
                self._slots.append(name)
            else:
                self._slots.append(operand)

    def forward(self, *data: torch.Tensor) -> Any:
        """Call the function."""
        rest = iter(data)
        arguments = []
        for slot in self._slots:
            if slot is None:
                arguments.append(next(rest))
            else:
                arguments.append(getattr(self, slot) if isinstance(slot, str) else slot)
        return self._function(*arguments)


def frozen(tensor: torch.Tensor) -> nn.Parameter:
    """A parameter that is not trained."""
    return nn.Parameter(tensor, requires_grad=False)


def elementwise(node: NodeView, function: Callable[..., Any]) -> Apply:
    """Apply a broadcasting function to all operands; one-element constants become plain numbers."""
    ranks = [len(v.shape) for v in node.operands if v is not None and v.constant is None]
    slots: list[torch.Tensor | float | int | bool | None] = []
    for value in node.operands:
        if value is None or value.constant is None:
            slots.append(None)
        elif value.constant.size == 1 and value.constant.ndim <= max(ranks):
            slots.append(value.tensor.item())
        else:
            slots.append(value.tensor)
    return Apply(function, slots)


def all_operands(
    node: NodeView, function: Callable[..., Any], replaced: Mapping[int, torch.Tensor] | None = None
) -> Apply:
    """Apply a function to all operands, constants as tensors; ``replaced`` holds others in the place of some."""
    slots = {i: v.tensor for i, v in enumerate(node.operands) if v is not None and v.constant is not None}
    slots.update(replaced or {})
    return Apply(function, [slots.get(i) for i in range(len(node.operands))])


def first_operand(node: NodeView, function: Callable[..., Any], *tensors: torch.Tensor) -> Apply:
    """Apply a function to the first operand, which must be the only data-dependent one, and to further tensors."""
    for index in range(1, len(node.operands)):
        if node.has(index):
            node.constant(index)
    return Apply(function, [None, *tensors])
