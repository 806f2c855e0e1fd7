"""The balls that a request names: one around an image or a tensor, or one around each image of a folder or each input of a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from lipaudit.auditing.request import LARGEST, AuditOptions
from lipaudit.errors.images import NoImagesError
from lipaudit.errors.inputs import CentreError, SeveralInputsError
from lipaudit.frontends.image_files import SUFFIXES, pictures_below
from lipaudit.frontends.images import images_and_labels
from lipaudit.frontends.loaded import LoadedModel
from lipaudit.frontends.normalisation import check_channels, known_normalisation, normalise, of_equal_length
from lipaudit.frontends.picture import fits_pictures, read_picture
from lipaudit.frontends.tensors import read_content
from lipaudit.network.domain import Domain, ball, cube
from lipaudit.option_names import spell

_TENSOR = "give a tensor file (.npy, .pt)"


@dataclass(frozen=True, eq=False)
class Ball:
    """A ball, and the name of its centre among several: that of a file below its folder, or its number in the batch, from 0.

    The name is empty where a request names one centre.
    """

    name: str
    domain: Domain


def balls_around(request: AuditOptions, loaded: LoadedModel) -> tuple[Ball, ...]:
    """The balls in the network's own input space; :func:`lipaudit.auditing.domain.resolve_domain` says what their radius is.

    Raises:
        UsageError: if the normalisation of the pixels is not known, or a centre cannot be read or does not fit the network's input.
    """
    assert request.around is not None
    if len(loaded.input_shapes) != 1:
        raise SeveralInputsError(spell("domain", "ball"), loaded.spec, len(loaded.input_shapes))
    around = request.around
    if not isinstance(around, str) or not request.in_pixels:
        return _around_tensors(request, loaded)
    option, folder = spell("around", around), Path(around).expanduser()
    if not folder.is_dir():
        return (Ball("", _around_picture(request, loaded, around, option)),)
    files = pictures_below(folder)
    if not files:
        raise NoImagesError(option, SUFFIXES)
    names = [file.relative_to(folder).as_posix() for file in files]
    return tuple(
        Ball(name, _around_picture(request, loaded, str(file), f"{option}, image {name}"))
        for name, file in zip(names, files, strict=True)
    )


def _around_picture(request: AuditOptions, loaded: LoadedModel, file: str, option: str) -> Domain:
    """The ball around an image file; ``option`` names it in messages."""
    assert request.radius is not None
    (name, shape), radius = *loaded.input_shapes.items(), request.radius
    if not fits_pictures(shape):
        raise CentreError(f"is an image, and the network's input has the shape {tuple(shape)}", _TENSOR)
    pixels = read_picture(file, shape, option)
    known = known_normalisation(loaded)
    check_channels(name, shape, known)
    steepest, flattest = max(1 / abs(s) for s in known.std), min(1 / abs(s) for s in known.std)
    middle = normalise(pixels, known)
    if request.norm_domain == "linf":
        lost = 2.0**-50 * float(middle.abs().max())  # by the rounding of the centre
        halves = [radius / abs(s) * (1 + 1e-12) + lost for s in of_equal_length(known)[1]]
        widths = torch.tensor(halves, dtype=torch.float64).reshape(1, -1, *[1] * (middle.dim() - 2))
        return cube({name: middle}, {name: widths})
    rounding = 2.0**-50 * math.sqrt(middle.numel()) * float(middle.abs().max())  # of the centre
    outer, inner = radius * steepest * (1 + 1e-12) + rounding, radius * flattest * (1 - 1e-12) - rounding
    return ball({name: middle}, outer, max(0.0, inner))


def _around_tensors(request: AuditOptions, loaded: LoadedModel) -> tuple[Ball, ...]:
    """The ball around a tensor, or one around each entry of a batch of another size than the network's own of 1."""
    around, shape = request.around, tuple(next(iter(loaded.input_shapes.values())))
    assert around is not None
    named = spell("around", around) if isinstance(around, str) else spell("around")
    content = read_content(around, named) if isinstance(around, str) else around
    centre = images_and_labels(content, named)[0].detach()
    centre = centre.cpu()
    if centre.dim() == len(shape) - 1:
        centre = centre[None]
    sizes = tuple(centre.shape)
    if shape[:1] == (1,) and sizes[1:] == shape[1:] and sizes[:1] != (1,):
        if not len(centre):
            raise CentreError("is a batch without an input", "give at least one")
        return tuple(
            Ball(str(i), _around_tensor(request, loaded, each, i)) for i, each in enumerate(torch.split(centre, 1))
        )
    if sizes != shape:
        raise CentreError(
            f"has the shape {sizes}, and the network's input {shape}{_batches(shape)}", "give one of this shape"
        )
    return (Ball("", _around_tensor(request, loaded, centre)),)


def _batches(shape: Sequence[int]) -> str:
    """What else a centre may be."""
    return f" (several centres: {('N', *shape[1:])})".replace("'", "") if tuple(shape[:1]) == (1,) else ""


def _around_tensor(
    request: AuditOptions, loaded: LoadedModel, centre: torch.Tensor, number: int | None = None
) -> Domain:
    assert request.radius is not None
    name = next(iter(loaded.input_shapes))
    if not centre.is_floating_point() or not bool((centre.abs() <= LARGEST).all()):
        raise CentreError(
            f"{'' if number is None else f'number {number} (from 0) '}must have finite floating-point numbers up to {LARGEST:g} (an input "
            "of the network, after its normalisation)"
        )
    if request.norm_domain == "linf":
        return cube({name: centre}, {name: torch.tensor(request.radius, dtype=torch.float64)})
    return ball({name: centre}, request.radius)
