"""What Python callers often pass by mistake, refused with a sentence that says what to pass instead."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn
from torch.export import ExportedProgram

from lipaudit.errors import UsageError


def check_model(model: object) -> None:
    """Refuse what is neither a module nor a text, and a class in the place of a module."""
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise UsageError(f"model is the class {model.__name__}, not a network: make one, {model.__name__}(...)")
    if isinstance(model, Mapping):
        raise UsageError(
            "model is a mapping, such as a state dict: load it into its network and pass that, or save it and name its file with arch"
        )
    if not isinstance(model, nn.Module | ExportedProgram | str):
        raise UsageError(
            f"model is {_kind(model)}: pass an nn.Module or an ExportedProgram, or what the command line takes, such as 'resnet50' or "
            "'model.onnx'"
        )


def check_shape(input_shape: object) -> None:
    """Refuse a tensor in the place of its shape, and sizes that are no positive integers."""
    if input_shape is None or isinstance(input_shape, str):
        return
    if isinstance(input_shape, torch.Tensor):
        shape = tuple(input_shape.shape)
        raise UsageError(f"input_shape is a tensor: pass its shape without the batch axis, input_shape={shape[1:]}")
    if isinstance(input_shape, Mapping):
        for name, shape in input_shape.items():
            if isinstance(shape, torch.Tensor):
                raise UsageError(
                    f"input_shape[{name!r}] is a tensor: pass its shape with a batch axis of 1, {tuple(shape.shape)}"
                )
            _check_sizes(f"input_shape[{name!r}]", shape)
        return
    _check_sizes("input_shape", input_shape)


def check_radius(radius: object) -> None:
    """Refuse a radius that is no number above 0."""
    if radius is not None and (
        isinstance(radius, bool) or not isinstance(radius, int | float) or not 0 < radius < math.inf
    ):
        raise UsageError(f"the radius (--radius) is a number above 0, not {radius!r}")


def _check_sizes(what: str, shape: object) -> None:
    sizes = (shape,) if isinstance(shape, int) else shape
    if not isinstance(sizes, tuple | list) or not sizes or not all(map(_is_size, sizes)):
        shown = repr(shape) if isinstance(shape, int | float | tuple | list) else _kind(shape)
        raise UsageError(f"{what} is {shown}: pass positive integers, such as (3, 224, 224)")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
