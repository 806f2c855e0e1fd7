"""The value of every option of an audit by itself: what it may be, and the plain form in which a request keeps it.

Numbers, arrays and tensors of any package become plain numbers, paths become text. Torch is not imported: it is there already where
a caller has a network or a tensor.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lipaudit.errors import EmptyListError, InvalidValueError, RepeatedNameError, UnknownChoiceError
from lipaudit.frontends.memory import parse_memory
from lipaudit.frontends.spec import parse_input
from lipaudit.network.efforts import EFFORTS
from lipaudit.option_names import spell

GRAM = "gram"  # the method of lipaudit's own norms
DEVICES = ("auto", "cpu", "cuda")
DOMAINS = ("global", "pixels", "ball")
MOST_IMAGES = 32
"""The images that an audit reads at most, unless another number is asked for."""
NORMS = ("l2", "linf", "l1")
BALL_NORMS = ("l2", "linf")
"""The norms in which a ball may be given."""
MOST_ITERATIONS = 1_000_000
_TOLERANCES = (1e-9, 1.0)
_WEIGHTS = "a tag, the name of a file, or 'random'"
_ENTRIES = 2**48  # of an input; no memory holds more


def checked(name: str, value: Any) -> Any:
    """The plain form of the value of the argument ``name``.

    Raises :class:`~lipaudit.errors.UsageError`, which spells the option as whoever asked writes it.

    >>> checked("mean", 0.5), checked("seed", 3), checked("input_shape", "3x32x32")
    ((0.5,), 3, (3, 32, 32))
    """
    return _CHECKS[name](name, value)


def _model(_name: str, value: object) -> object:
    model = _text(value)
    if isinstance(model, str):
        return model
    from torch import nn
    from torch.export import ExportedProgram

    if isinstance(model, type) and issubclass(model, nn.Module):
        raise InvalidValueError("model", "a network", model, f"make one, {model.__name__}(...)")
    if isinstance(model, Mapping):
        advice = "load a state dict into its network and pass that, or save it and name its file with arch"
        raise InvalidValueError("model", "a network", model, advice)
    if not isinstance(model, nn.Module | ExportedProgram):
        expected = "an nn.Module, an ExportedProgram, or a text such as 'resnet50' or 'model.onnx'"
        raise InvalidValueError("model", expected, model)
    return model


def _input_shape(name: str, value: object) -> object:
    if value is None:
        return None
    if isinstance(value, str):
        key, sizes = parse_input(value)
        return {key: sizes} if key else sizes
    if is_tensor(value):
        raise InvalidValueError(name, "the shape of one sample", value, f"pass {_advised(tuple(value.shape))}")  # type: ignore[attr-defined]
    if isinstance(value, Mapping):
        return {key: _shape_of(f"{name}[{key!r}]", shape) for key, shape in value.items()}
    return _sizes(name, value)


def _shape_of(what: str, value: object) -> object:
    if is_tensor(value):
        shape = (1, *value.shape[1:])  # type: ignore[attr-defined]
        raise InvalidValueError(what, "a shape with a batch axis of 1", value, f"pass {shape}")
    sizes = _sizes(what, value)
    return (sizes,) if isinstance(sizes, int) else sizes


def _advised(shape: tuple[int, ...]) -> str:
    """Three axes are an image without a batch, one is a vector; the first of any others is the batch."""
    sizes = shape if len(shape) == 3 else shape[1:] if len(shape) == 4 else (1, *(shape[1:] or shape))
    return spell("input_shape", sizes)


def _sizes(what: str, value: object) -> object:
    several = isinstance(value, tuple | list)
    sizes: list[Any] = [plain_number(n) for n in value] if isinstance(value, tuple | list) else [plain_number(value)]
    if not sizes or not all(_is_integer(size) and size > 0 for size in sizes):
        raise InvalidValueError(what, "positive integers, such as (3, 224, 224)", value)
    if math.prod(sizes) >= _ENTRIES:
        raise InvalidValueError(what, "the shape of one sample", value, "no memory holds so many numbers")
    return tuple(sizes) if several else sizes[0]


def _fix(name: str, value: object) -> object:
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) and key for key in value)):
        raise InvalidValueError(spell(name), "a mapping from names of inputs to values", value)
    return None if value is None else dict(value)


def _weights(name: str, value: object) -> object:
    weights = _text(value)
    if isinstance(weights, Mapping):
        advice = (
            "load a state dict into the network (load_state_dict) and pass that as model, or pass the name of its file"
        )
        raise InvalidValueError(name, _WEIGHTS, weights, advice)
    if not isinstance(weights, str | None):
        raise InvalidValueError(name, _WEIGHTS, weights)
    return weights


def _arch(name: str, value: object) -> object:
    expected = "the name of an architecture, such as 'resnet50' or 'package.module:factory'"
    if not isinstance(value, str | None):
        advice = "load the file into the network (load_state_dict) and pass it as model"
        raise InvalidValueError(
            name, expected, value, advice if hasattr(value, "load_state_dict") and not isinstance(value, type) else ""
        )
    return value


def _device(_name: str, value: object) -> object:
    index, kind = getattr(value, "index", None), getattr(value, "type", None)
    device = kind if isinstance(kind, str) and index in (None, 0) else value  # a torch.device
    if not isinstance(device, str) or device not in DEVICES:
        raise UnknownChoiceError("device", device, DEVICES)
    return device


def _tolerance(name: str, value: object) -> object:
    least, most = _TOLERANCES
    return _number(name, value, f"a number from {least:g} to {most:g}", lambda tol: least <= tol <= most)


def _above_0(name: str, value: object) -> object:
    return None if value is None else _number(name, value, "a number above 0", lambda n: 0 < n <= sys.float_info.max)


def _number(name: str, value: object, expected: str, accepts: Callable[[float], bool]) -> object:
    number = plain_number(value)
    if isinstance(number, bool) or not isinstance(number, int | float) or not accepts(number):
        raise InvalidValueError(spell(name), expected, value)
    return number


def _seed(name: str, value: object) -> object:
    seed: Any = plain_number(value)
    if not _is_integer(seed) or not 0 <= seed < 2**63:
        raise InvalidValueError(spell(name), "an integer from 0 to 2^63 - 1", value)
    return seed


def _optional_seed(name: str, value: object) -> object:
    return None if value is None else _seed(name, value)


def _iterations(name: str, value: object) -> object:
    number: Any = plain_number(value)
    if number is not None and not (_is_integer(number) and 1 <= number <= MOST_ITERATIONS):
        raise InvalidValueError(spell(name), f"an integer from 1 to {MOST_ITERATIONS:,}", value)
    return number


def _flag(name: str, value: object) -> object:
    if not isinstance(value, bool):
        raise InvalidValueError(spell(name), "True or False", value)
    return value


def _norm(_name: str, value: object) -> object:
    if not isinstance(value, str) or value not in NORMS:
        raise UnknownChoiceError("norm", value, NORMS)
    return value


def _ball_norm(_name: str, value: object) -> object:
    if not isinstance(value, str) or value not in BALL_NORMS:
        raise UnknownChoiceError("norm_domain", value, BALL_NORMS)
    return value


def _effort(_name: str, value: object) -> object:
    if value is not None and (not isinstance(value, str) or value not in EFFORTS):
        raise UnknownChoiceError("effort", value, tuple(EFFORTS))
    return value


def _domain(_name: str, value: object) -> object:
    if not isinstance(value, str) or value not in DOMAINS:
        raise UnknownChoiceError("domain", value, DOMAINS)
    return value


def _around(name: str, value: object) -> object:
    centre = _text(value)
    if centre is not None and not isinstance(centre, str) and not is_tensor(centre):
        raise InvalidValueError(spell(name), "the name of a file or a tensor", centre)
    return centre


def _images(name: str, value: object) -> object:
    images = _text(value)
    if images is not None and not (isinstance(images, str) and images) and not is_tensor(images):
        raise InvalidValueError(spell(name), "the name of a file or folder, or a tensor", images)
    return images


def _count(name: str, value: object) -> object:
    number: Any = plain_number(value)
    if number is not None and not (_is_integer(number) and number >= 1):
        raise InvalidValueError(spell(name), "an integer from 1", value)
    return number


def _channels(name: str, value: Any) -> object:
    """The numbers of a mean or a standard deviation: one per channel, or one for all."""
    if value is None:
        return None
    plain = value.tolist() if hasattr(value, "tolist") else value
    numbers = plain if isinstance(plain, Sequence) and not isinstance(plain, str) else (plain,)
    entries: list[Any] = [plain_number(n) for n in numbers]
    if not entries or not all(map(_is_float, entries)):
        raise InvalidValueError(spell(name), "a number, or one per channel, such as (0.5, 0.4, 0.4)", value)
    return tuple(map(float, entries))


def _path(name: str, value: object) -> object:
    path = _text(value)
    if not isinstance(path, str | None) or path == "":
        raise InvalidValueError(spell(name), "the name of a file or folder", value)
    return path


def _memory(_name: str, value: Any) -> object:
    size = plain_number(value)
    if size is not None:
        parse_memory(size)  # type: ignore[arg-type]
    return size


def _method(name: str, value: object) -> object:
    if not isinstance(value, str):
        raise InvalidValueError(spell(name), "the name of a method", value)
    return value


def _methods(name: str, value: object) -> object:
    """Names in a list or tuple, or in a text, separated by commas; None for every method."""
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not all(isinstance(entry, str) for entry in names):
        raise InvalidValueError(spell(name), "a text, or a list or tuple of names of methods", value)
    if not names:
        raise EmptyListError(spell(name))
    if twice := next((entry for entry in names if names.count(entry) > 1), None):
        raise RepeatedNameError(spell(name), twice)
    return tuple(names)


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def plain_number(value: object) -> object:
    """The number in a numpy number, or in an array or a tensor without axes; anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_float(value: object) -> bool:
    """Whether a value is a number that fits into a float; infinities and NaN do."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) <= sys.float_info.max


def _text(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


_CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    "model": _model,
    "input_shape": _input_shape,
    "fix": _fix,
    "weights": _weights,
    "arch": _arch,
    "device": _device,
    "tol": _tolerance,
    "seed": _seed,
    "freeze_random": _optional_seed,
    "structure": _flag,
    "lower_bound": _flag,
    "absolute_paths": _flag,
    "domain": _domain,
    "around": _around,
    "radius": _above_0,
    "mean": _channels,
    "std": _channels,
    "method": _method,
    "methods": _methods,
    "iterations": _iterations,
    "effort": _effort,
    "norm": _norm,
    "norm_domain": _ball_norm,
    "certificate": _path,
    "warm_start": _path,
    "time_limit": _above_0,
    "cache": _path,
    "save_pair": _path,
    "images": _images,
    "max_images": _count,
    "max_memory": _memory,
}
