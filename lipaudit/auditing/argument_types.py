"""What Python callers often pass by mistake, refused with a sentence that says what to pass instead."""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import nn
from torch.export import ExportedProgram

from lipaudit.errors import UsageError
from lipaudit.user_code import exit_is_an_error

P = ParamSpec("P")
T = TypeVar("T")


def checks_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Refuse what the arguments of a public function cannot be, and make paths, numbers and devices of any package plain ones.

    ``sys.exit`` in the code of the model that it is given is an error of that model.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        given = signature.bind(*args, **kwargs)
        for name, value in given.arguments.items():
            given.arguments[name] = _CHECKS[name](value) if name in _CHECKS else value
        arch = given.arguments.get("arch")
        with exit_is_an_error(given.arguments["model"] if arch is None else arch):
            return function(*given.args, **given.kwargs)

    return call


def check_model(model: object) -> object:
    """Refuse what is neither a module nor a text, and a class in the place of a module; a path becomes a text."""
    model = _text(model)
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
    return model


def channels(name: str, values: float | Sequence[float] | None) -> tuple[float, ...] | None:
    """The numbers of a mean or a standard deviation, one per channel or one for all, from a number, a sequence, an array or a tensor.

    >>> channels("mean", 0.5), channels("std", torch.ones(3))
    ((0.5,), (1.0, 1.0, 1.0))
    """
    if values is None:
        return None
    found: Any = values.tolist() if isinstance(values, torch.Tensor | np.ndarray | np.generic) else values
    numbers = found if isinstance(found, Sequence) and not isinstance(found, str) else (found,)
    if not all(isinstance(v := _number(n), int | float) and not isinstance(v, bool) for n in numbers):
        shown = repr(values)[:80] if isinstance(values, int | float | str | tuple | list) else _kind(values)
        raise UsageError(f"{name} (--{name}) is {shown}: pass a number, or one per channel, such as (0.5, 0.4, 0.4)")
    return tuple(float(_number(n)) for n in numbers)  # type: ignore[arg-type]


def _shape(input_shape: object) -> object:
    """Refuse a tensor in the place of its shape, and sizes that are no positive integers."""
    if input_shape is None or isinstance(input_shape, str):
        return input_shape
    if isinstance(input_shape, torch.Tensor):
        raise UsageError(f"input_shape is a tensor: pass the shape of one sample, {_advised(tuple(input_shape.shape))}")
    if isinstance(input_shape, Mapping):
        for name, shape in input_shape.items():
            if isinstance(shape, torch.Tensor):
                raise UsageError(
                    f"input_shape[{name!r}] is a tensor: pass its shape with a batch axis of 1, {(1, *shape.shape[1:])}"
                )
        return {name: _sizes(f"input_shape[{name!r}]", shape) for name, shape in input_shape.items()}
    return _sizes("input_shape", input_shape)


def _advised(shape: tuple[int, ...]) -> str:
    """Three axes are an image without a batch, one is a vector; the first of any others is the batch."""
    sizes = shape if len(shape) == 3 else shape[1:] if len(shape) == 4 else (1, *(shape[1:] or shape))
    return f"input_shape={sizes}"


def _sizes(what: str, shape: object) -> object:
    alone = isinstance(shape, int | np.integer)
    sizes = [_number(n) for n in shape] if isinstance(shape, tuple | list) else [_number(shape)]
    if not (alone or isinstance(shape, tuple | list)) or not sizes or not all(map(_is_size, sizes)):
        shown = repr(shape) if isinstance(shape, int | float | tuple | list) else _kind(shape)
        raise UsageError(f"{what} is {shown[:80]}: pass positive integers, such as (3, 224, 224)")
    if math.prod(sizes) >= 2**48:  # type: ignore[arg-type]
        raise UsageError(f"{what} has more numbers than any memory holds: pass the shape of one sample")
    return sizes[0] if alone else tuple(sizes)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _number(value: object) -> object:
    """The number in an array or a tensor without axes; anything else as it is."""
    alone = isinstance(value, torch.Tensor | np.ndarray) and value.ndim == 0
    return value.item() if alone or isinstance(value, np.generic) else value  # type: ignore[attr-defined]


def _radius(value: object) -> object:
    radius = _number(value)
    if radius is not None and (
        isinstance(radius, bool) or not isinstance(radius, int | float) or not 0 < radius < math.inf
    ):
        raise UsageError(f"the radius (--radius) is a number above 0, not {value!r}")
    return radius


def _text(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _device(value: object) -> object:
    return value.type if isinstance(value, torch.device) and value.index in (None, 0) else value


def _path(name: str) -> Callable[[object], object]:
    def check(value: object) -> object:
        path = _text(value)
        if not isinstance(path, str | None) or path == "":
            raise UsageError(f"{name} is the name of a file or folder, not {value!r}: leave it out, or name one")
        return path

    return check


def _weights(value: object) -> object:
    weights = _text(value)
    if isinstance(weights, Mapping):
        raise UsageError(
            "weights is a mapping, such as a state dict: load it into the network (load_state_dict) and pass that as model, or save it "
            "and pass the name of its file"
        )
    if not isinstance(weights, str | None):
        raise UsageError(f"weights is {_kind(weights)}: pass a tag, the name of a file, or 'random'")
    return weights


def _arch(value: object) -> object:
    if isinstance(value, nn.Module):
        raise UsageError(
            f"arch is a network ({type(value).__name__}): load the file into it (load_state_dict) and pass it as model, or name an "
            "architecture, such as 'resnet50' or 'package.module:factory'"
        )
    if not isinstance(value, str | None):
        raise UsageError(
            f"arch is {_kind(value)}: name an architecture, such as 'resnet50' or 'package.module:factory'"
        )
    return value


def _flag(name: str) -> Callable[[object], object]:
    def check(value: object) -> object:
        if not isinstance(value, bool):
            raise UsageError(f"{name} is True or False, not {value!r}")
        return value

    return check


def _callable(value: object) -> object:
    if value is not None and not callable(value):
        raise UsageError(f"progress is a function of (done, total, name), not {_kind(value)}")
    return value


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "model": check_model,
    "input_shape": _shape,
    "weights": _weights,
    "progress": _callable,
    "arch": _arch,
    "device": _device,
    "around": _text,
    "radius": _radius,
    **{name: _flag(name) for name in ("lower_bound", "structure", "absolute_paths")},
    **{name: _path(name) for name in ("cache", "save_pair")},
    **dict.fromkeys(("tol", "seed", "freeze_random", "iterations", "time_limit"), _number),
}
