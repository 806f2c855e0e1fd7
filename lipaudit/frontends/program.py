"""Exported programs (``torch.export``): their inputs, the sizes that they accept, and a module that capture can export again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from lipaudit.errors import ModelLoadError
from lipaudit.errors.inputs import IntegerInputError, NoFreeInputError, UnknownInputError
from lipaudit.frontends.forward import copied, view
from lipaudit.frontends.held_inputs import Fixed, as_tensor
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.shapes import Shape, resolve_shapes
from lipaudit.frontends.size_conditions import check_guards

_TRAINING_OPERATORS = ("batch_norm", "dropout")


@dataclass(frozen=True)
class _Input:
    """A tensor that a program takes: sizes as exported, ``axes`` with the names of those that it leaves open."""

    name: str
    dtype: torch.dtype
    exported: Shape
    axes: tuple[int | str, ...]

    @property
    def default(self) -> Shape:
        """The exported sizes, with one sample where the batch is open."""
        return (1, *self.exported[1:]) if self.axes and isinstance(self.axes[0], str) else self.exported


@dataclass(frozen=True, eq=False)
class _Call:
    """A program on its free inputs: ``values`` are all arguments in order, tensors by name."""

    forward: Any
    values: tuple[Any, ...]
    free: tuple[str, ...]
    names: tuple[str | None, ...]
    structure: pytree.TreeSpec

    def __call__(self, module: nn.Module, *tensors: torch.Tensor) -> Any:
        given = dict(zip(self.free, tensors, strict=True))
        flat = [
            given[name] if name in given else copied(value, tensors[0].device)
            for name, value in zip(self.names, self.values, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(flat, self.structure)
        return self.forward(module, *args, **kwargs)


def load_program(
    program: ExportedProgram,
    *,
    spec: str,
    source: str,
    weights: str,
    requested: Mapping[str, Shape] | None = None,
    fixed: Fixed,
    file_sha256: str | None = None,
) -> LoadedModel:
    """Describe an exported program as a model with one sample, at the ``requested`` sizes where it leaves them open.

    Raises :class:`ModelLoadError` for a program of training mode, or that takes other things than tensors of numbers, and
    :class:`UsageError` for sizes that the program does not accept.
    """
    tensors, constants, order = _arguments(program, spec)
    check_evaluation(program.graph.nodes, spec)
    for name in fixed:
        if name not in tensors:
            raise UnknownInputError(name, tensors)
    wanted = dict(requested or {})
    held = {
        name: as_tensor(name, value, tensors[name].dtype, tensors[name].axes, wanted.pop(name, None))
        for name, value in fixed.items()
    }
    free = {name: entry for name, entry in tensors.items() if name not in held}
    if not free:
        raise NoFreeInputError
    for name, entry in free.items():
        if not entry.dtype.is_floating_point:
            raise IntegerInputError(name, _text(entry.axes), entry.dtype)
    shapes = resolve_shapes(wanted, {name: entry.default for name, entry in free.items()})
    _check_sizes(program, shapes, held, tensors, spec)
    module = torch.export.unflatten(program)  # with the hierarchy of the original modules, whose paths the report shows
    module.train(False)
    values = tuple(held.get(name, constants.get(name)) for name in order)
    structure = program.call_spec.in_spec
    assert structure is not None
    call = _Call(type(module).forward, values, tuple(free), tuple(order), structure)
    return LoadedModel(
        module=view(module, call),
        spec=spec,
        source=source,
        input_shapes=shapes,
        input_dtypes={name: entry.dtype for name, entry in free.items()},
        weights=weights,
        file_sha256=file_sha256,
        fixed=held,
    )


def _arguments(program: ExportedProgram, spec: str) -> tuple[dict[str, _Input], dict[str, Any], list[str]]:
    """The tensors among the arguments, the other ones with the values that they were exported with, and all names in order."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    tensors: dict[str, _Input] = {}
    constants: dict[str, Any] = {}
    order = []
    for entry in program.graph_signature.input_specs:
        if entry.kind is not InputKind.USER_INPUT:
            continue
        name = entry.arg.name
        order.append(name)
        if isinstance(entry.arg, ConstantArgument):
            constants[name] = entry.arg.value
            continue
        value = placeholders[name].meta.get("val")
        if not isinstance(value, torch.Tensor):
            raise ModelLoadError(
                f"{spec} takes a number of its own choice as the input {name!r}: export it with a constant one"
            )
        axes = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        tensors[name] = _Input(name, value.dtype, tuple(map(_exported, value.shape)), axes)
    if not any(entry.dtype.is_floating_point for entry in tensors.values()):
        raise ModelLoadError(
            f"{spec} takes no floating-point tensor: a Lipschitz constant needs one; export the part behind the embedding"
        )
    return tensors, constants, order


def _exported(size: int | torch.SymInt) -> int:
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return int(hint) if hint is not None else 1


def _check_sizes(
    program: ExportedProgram,
    shapes: Mapping[str, Shape],
    held: Mapping[str, torch.Tensor],
    tensors: Mapping[str, _Input],
    spec: str,
) -> None:
    """Refuse sizes for which the program does not say that it is the exported network."""
    for name, shape in shapes.items():
        axes = tensors[name].axes
        if not axes or (isinstance(axes[0], int) and axes[0] != 1):
            raise ModelLoadError(
                f"{spec} was exported with the shape {_text(axes)} for {name!r}: export it with a batch of 1 or an open batch axis"
            )
        if any(isinstance(axis, int) and axis != size for axis, size in zip(axes, shape, strict=True)):
            raise ModelLoadError(
                f"{spec} was exported for {_text(axes)}, not for {shape}: export it at that size, or with these axes open"
            )
    asked = {**shapes, **{name: tuple(tensor.shape) for name, tensor in held.items()}}
    if any(shape != tensors[name].exported for name, shape in asked.items()):
        check_guards(list(program._guards_code), asked, spec)


def _text(axes: Iterable[int | str]) -> str:
    return "x".join(map(str, axes))


def check_evaluation(nodes: Iterable[torch.fx.Node], spec: str) -> None:
    """Refuse a program whose batch norms or dropouts were exported in training mode."""
    for node in nodes:
        if node.op != "call_function" or not any(word in str(node.target) for word in _TRAINING_OPERATORS):
            continue
        schema = getattr(node.target, "_schema", None)
        names = [a.name for a in schema.arguments] if schema is not None else []
        arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        if arguments.get("training") is True or arguments.get("train") is True:
            raise ModelLoadError(
                f"{spec} was exported in training mode ({node.name}): call model.eval() before torch.export.export"
            )
