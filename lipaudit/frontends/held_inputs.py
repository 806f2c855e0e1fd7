"""Inputs that are held fixed: constants of the audit, as a user writes them and as a network takes them.

A sampling rate, a mask, token ids, a flag of ``forward``: with such inputs held, what is bounded is the network as a function of
its other inputs, and whatever depends on the held ones alone counts as a weight does.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from lipaudit.errors import InvalidValueError
from lipaudit.errors.inputs import FixedInputError, OpenSizesError
from lipaudit.frontends.spec import HELD_VALUES, file_of
from lipaudit.frontends.tensors import read_tensor
from lipaudit.option_names import spell

Fixed = Mapping[str, object]
NOTHING: Fixed = MappingProxyType({})
_WORDS = {"true": True, "false": False, "none": None, "null": None}


def read_fixed(fix: Mapping[str, object] | None) -> dict[str, object]:
    """The values that inputs are held at.

    Tensors and numpy arrays become tensors, text is read as the command line reads it (a number, true, false, none, a list, which
    becomes a tensor, or a file), everything else is left as it is. Raises :class:`~lipaudit.errors.UsageError` for text that is none of
    these, and for NaN.

    >>> read_fixed({"rate": "16000", "ids": "[[1, 2]]", "labels": None})
    {'rate': 16000, 'ids': tensor([[1, 2]]), 'labels': None}
    """
    if fix is None:
        return {}
    if not isinstance(fix, Mapping) or not all(isinstance(name, str) and name for name in fix):
        raise InvalidValueError(spell("fix"), "a mapping from names of inputs to values", fix)
    return {name: _checked(name, _value(name, value)) for name, value in fix.items()}


def _value(name: str, value: object) -> object:
    if isinstance(value, str):
        return _read(name, value)
    if isinstance(value, np.ndarray | np.generic):
        return torch.from_numpy(np.array(value))
    return value.detach() if isinstance(value, torch.Tensor) else value


def _read(name: str, text: str) -> object:
    if file_of(text) is not None:
        return read_tensor(text, spell("fix", {name: text}))
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = {}
    if isinstance(value, dict):
        raise InvalidValueError(f"the value of {spell('fix', {name: 'VALUE'})}", HELD_VALUES, text)
    return _tensor_of(name, value) if isinstance(value, list) else value


def _checked(name: str, value: object) -> object:
    numbers = value if isinstance(value, torch.Tensor) else None
    if numbers is not None and (numbers.layout is not torch.strided or numbers.is_meta or numbers.is_quantized):
        raise FixedInputError(name, "is a sparse, quantised or empty (meta) tensor", "give a plain one")
    if numbers is not None and numbers.is_floating_point() and bool(torch.isnan(numbers).any()):
        raise FixedInputError(name, "holds NaN", "no bound exists with it")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FixedInputError(name, "is an integer that no tensor holds", "give one within 64 bits")
    if isinstance(value, float) and math.isnan(value):
        raise FixedInputError(name, "is NaN", "no bound exists with it")
    return value


def as_tensor(
    name: str, value: object, dtype: torch.dtype, axes: Sequence[int | str], requested: tuple[int, ...] | None = None
) -> torch.Tensor:
    """A held value as the tensor that a file's input takes: ``axes`` are its sizes, or names where the file leaves them open.

    A number fills the whole tensor; open axes then need their sizes in ``requested``, but for the first, the batch, which is 1.
    Raises :class:`~lipaudit.errors.UsageError` where the value does not fit the sizes, or the type cannot hold it exactly.

    >>> as_tensor("mask", 1, torch.int64, ("batch", 3))
    tensor([[1, 1, 1]])
    """
    tensor = _tensor(name, value)
    if tensor.dim() == 0 and axes:
        tensor = tensor.expand(_filled(name, axes, requested))
    if len(tensor.shape) != len(axes) or any(
        isinstance(axis, int) and axis != size for axis, size in zip(axes, tensor.shape, strict=True)
    ):
        takes = "x".join(map(str, axes)) or "a single number"
        raise FixedInputError(name, f"has the shape {tuple(tensor.shape)}, and the model takes {takes}")
    converted = tensor.cpu().to(dtype)
    if not torch.equal(converted.to(tensor.dtype), tensor.cpu()) and not dtype.is_floating_point:
        raise FixedInputError(name, f"holds values that {dtype}, which the model takes, cannot hold")
    return converted.contiguous()


def as_argument(name: str, value: object, dtype: torch.dtype, requested: tuple[int, ...] | None = None) -> object:
    """A held value as an argument of ``forward``: as it is, but a number with a ``requested`` shape fills a tensor of it.

    Floats then have the type ``dtype``, integers int64.

    >>> as_argument("mask", True, torch.float32, (1, 2)), as_argument("rate", 16000, torch.float32)
    (tensor([[True, True]]), 16000)
    """
    if requested is None:
        return value
    if not isinstance(value, bool | int | float):
        raise FixedInputError(
            name, f"has a value ({spell('fix')}) of its own shape", f"leave out its {spell('input_shape')}"
        )
    return torch.full(requested, value, dtype=dtype if isinstance(value, float) else None)


def describe(fixed: Fixed) -> str:
    """What is held at what, in a sentence for the report; empty where nothing is.

    >>> describe({"rate": 16000, "ids": torch.tensor([[1, 2]])})
    'Held fixed, as constants: rate = 16000; ids = 1x2 numbers of int64 (SHA-256 0c730b69905c). The figures hold for these values.'
    """
    if not fixed:
        return ""
    parts = "; ".join(f"{name} = {_shown(value)}" for name, value in fixed.items())
    return f"Held fixed, as constants: {parts}. The figures hold for these values."


def _shown(value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return str(value)[:40]
    sizes, kind = "x".join(map(str, value.shape)), str(value.dtype).removeprefix("torch.")
    if value.numel() and bool((value == value.reshape(-1)[0]).all()):
        return f"{value.reshape(-1)[0].item()}" + (f" ({sizes}, {kind})" if sizes else f" ({kind})")
    data = value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"{sizes} numbers of {kind} (SHA-256 {hashlib.sha256(data).hexdigest()[:12]})"


def _tensor(name: str, value: object) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, bool | int | list | tuple):
        return _tensor_of(name, value)
    raise InvalidValueError(f"the value of the fixed input {name!r}, which is a tensor,", HELD_VALUES, value)


def _tensor_of(name: str, value: Any) -> torch.Tensor:
    try:
        return torch.tensor(value)
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        reason = str(error).splitlines()[0][:200]
        raise FixedInputError(name, f"has a value that is not a tensor ({reason})") from None


def _filled(name: str, axes: Sequence[int | str], requested: tuple[int, ...] | None) -> tuple[int, ...]:
    """The sizes of a tensor that one number fills."""
    if requested is not None:
        return requested
    template = [1 if isinstance(axis, str) and not i else axis for i, axis in enumerate(axes)]
    sizes = tuple(axis for axis in template if isinstance(axis, int))
    if len(sizes) < len(axes):
        example = ["SIZE" if isinstance(axis, str) else axis for axis in template]
        raise OpenSizesError(name, "x".join(map(str, axes)), example, fixed=True)
    return sizes
