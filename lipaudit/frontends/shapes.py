"""Input shapes: from the short forms a user types to full shapes with a batch axis of 1."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from lipaudit.errors import RepeatedNameError
from lipaudit.errors.inputs import (
    AmbiguousSizeError,
    AxesError,
    BatchAxisError,
    OneNumberError,
    UnknownInputError,
    UnknownSizeError,
)
from lipaudit.option_names import spell

Shape = tuple[int, ...]
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def complete_shape(requested: Shape, default: Shape | None = None, name: str = "") -> Shape:
    """The full shape, batch axis of 1 included, that a short form stands for.

    ``default`` is the model's own full shape where it is known: it gives the rank, a single number replaces its
    last two axes (its last axis below rank 4), and two numbers replace the last two of an image. Without a default three
    numbers without a ``name`` are an image, C x H x W; anything else is a full shape and taken literally.

    >>> complete_shape((64,), (1, 3, 16, 112, 112)), complete_shape((3, 32, 48)), complete_shape((1, 2, 16), name="x")
    ((1, 3, 16, 64, 64), (1, 3, 32, 48), (1, 2, 16))
    >>> complete_shape((32, 48), (1, 3, 224, 224))
    (1, 3, 32, 48)
    """
    if default is None:
        if len(requested) == 1 and requested != (1,):
            raise OneNumberError(requested[0], name)
        requested = (1, *requested) if len(requested) == 3 and not name else requested
    elif len(requested) == 1:
        size = requested[0]
        return (*default[:-2], size, size) if len(default) >= 4 else (*default[:-1], size)
    elif len(requested) == 2 and len(default) >= 4:
        return (*default[:-2], *requested)
    elif len(requested) == len(default) - 1:
        requested = (1, *requested)
    elif len(requested) != len(default):
        raise AxesError(requested, default, name)
    if requested[0] != 1:
        raise BatchAxisError(requested, name)
    return requested


def shape_by_first_layer(module: nn.Module, sizes: Shape) -> Shape | None:
    """The full shape that one or two numbers stand for, by the layer of a network that comes first; None where they fit none.

    A convolution has channels and takes as many sizes as it has axes, one number serving all of them; a dense layer reads vectors.

    >>> shape_by_first_layer(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), (32,)), shape_by_first_layer(nn.Linear(7, 2), (7,))
    ((1, 3, 32, 32), (1, 7))
    """
    first = next((m for m in module.modules() if isinstance(m, (*_CONVOLUTIONS, nn.Linear, nn.Embedding))), None)
    if isinstance(first, nn.Linear) and len(sizes) == 1:
        return (1, *sizes)
    for axes, kind in enumerate(_CONVOLUTIONS, start=1):
        if isinstance(first, kind) and sizes and len(sizes) in (1, axes):
            return (1, first.in_channels, *(sizes * axes if len(sizes) == 1 else sizes))
    return None


def resolve_shapes(requested: Mapping[str, Shape] | None, defaults: Mapping[str, Shape | None]) -> dict[str, Shape]:
    """Full shapes for every input named in ``defaults``, in that order.

    ``requested`` uses the key ``""`` for the only input. An input that has neither a request nor a default, and a name
    that the model does not have, raise :class:`UsageError`.
    """
    wanted = dict(requested or {})
    names = list(defaults)
    if "" in wanted:
        if len(names) != 1:
            raise AmbiguousSizeError(names)
        if names[0] in wanted and names[0] != "":
            raise RepeatedNameError(spell("input_shape"), names[0])
        wanted[names[0]] = wanted.pop("") if names[0] != "" else wanted[""]
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        raise UnknownInputError(unknown[0], names)
    shapes: dict[str, Shape] = {}
    for name, default in defaults.items():
        if name in wanted:
            shapes[name] = complete_shape(wanted[name], default, name if name in (requested or {}) else "")
        elif default is not None:
            shapes[name] = default
        else:
            raise UnknownSizeError(name)
    return shapes
