"""The domain that a request names, in the network's own input: all inputs, the pixel box, or a ball around an image or a tensor."""

from __future__ import annotations

import math

import torch

from lipaudit.auditing.request import LARGEST, AuditOptions
from lipaudit.errors import UsageError
from lipaudit.errors.inputs import (
    CentreError,
    SeveralInputsError,
    UnheldInputError,
)
from lipaudit.frontends.loaded import LoadedModel, Preprocessing
from lipaudit.frontends.normalisation import check_channels, known_normalisation, normalise, of_equal_length
from lipaudit.frontends.picture import fits_pictures, read_picture
from lipaudit.frontends.tensors import read_tensor
from lipaudit.network.domain import GLOBAL, Domain, ball, cube, pixel_box
from lipaudit.option_names import spell

_TENSOR = "give a tensor file (.npy, .pt)"


def resolve_domain(request: AuditOptions, loaded: LoadedModel) -> Domain:
    """The domain in the network's own input space.

    A ball around an image file has its radius in pixels in [0, 1]: it lies in the ball of radius r max(1/std) around the
    normalised image. Around a tensor (a tensor, .npy, .pt) centre and radius are those of the network's input. In the l-infinity norm the
    ball is a cube, and each channel has the half width r / std.

    Raises:
        UsageError: if the normalisation of the pixels is not known, or the centre does not fit the network's input.
    """
    if request.domain == "global":
        return GLOBAL
    if request.domain == "pixels":
        return pixels_of(loaded, required=True) or GLOBAL
    _check_held(loaded)
    return _ball(request, loaded)


def pixels_of(loaded: LoadedModel, required: bool = False) -> Domain | None:
    """The pixel box of a model whose normalisation is known and whose inputs are images; None, or an error, otherwise."""
    try:
        _check_held(loaded)
        known = known_normalisation(loaded)
        for name, shape in loaded.input_shapes.items():
            check_channels(name, shape, known)
    except UsageError:
        if required:
            raise
        return None
    return pixel_box(loaded.input_shapes, *of_equal_length(known))


def _check_held(loaded: LoadedModel) -> None:
    for name in loaded.unheld:
        raise UnheldInputError(name)


def override_preprocessing(
    loaded: LoadedModel, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> Preprocessing | None:
    """The normalisation in force: what the user gave, else the model's own."""
    if mean is None or std is None:
        return loaded.preprocessing
    given = Preprocessing(mean, std)
    for name, shape in loaded.input_shapes.items():
        check_channels(name, shape, given)
    return given


def _ball(request: AuditOptions, loaded: LoadedModel) -> Domain:
    assert request.around is not None
    assert request.radius is not None
    if len(loaded.input_shapes) != 1:
        raise SeveralInputsError(spell("domain", "ball"), loaded.spec, len(loaded.input_shapes))
    (name, shape), around, radius = *loaded.input_shapes.items(), request.around, request.radius
    if isinstance(around, str) and request.in_pixels:
        if not fits_pictures(shape):
            raise CentreError(f"is an image, and the network's input has the shape {tuple(shape)}", _TENSOR)
        pixels = read_picture(around, shape, spell("around", around))
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
    centre = read_tensor(around, spell("around", around)) if isinstance(around, str) else around.detach()
    if centre.layout is not torch.strided or centre.is_meta or centre.is_quantized:
        raise CentreError("is a sparse, quantised or empty (meta) tensor", "give a plain one")
    centre = centre.cpu()
    if centre.dim() == len(shape) - 1:
        centre = centre[None]
    if tuple(centre.shape) != tuple(shape):
        raise CentreError(f"has the shape {tuple(centre.shape)}, and the network's input {tuple(shape)}")
    if not centre.is_floating_point() or not bool((centre.abs() <= LARGEST).all()):
        raise CentreError(
            f"must have finite floating-point numbers up to {LARGEST:g} (an input of the network, after its normalisation)"
        )
    if request.norm_domain == "linf":
        return cube({name: centre}, {name: torch.tensor(radius, dtype=torch.float64)})
    return ball({name: centre}, radius)
