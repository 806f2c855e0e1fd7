"""The domain that a request names, in the network's own input: all inputs, the pixel box, or a ball around an image or a tensor."""

from __future__ import annotations

import math

import torch

from lipaudit.auditing.request import LARGEST, AuditOptions
from lipaudit.errors import UsageError
from lipaudit.errors.inputs import (
    CentreError,
    ChannelsError,
    NoPixelsError,
    ReadFileError,
    SeveralInputsError,
    UnheldInputError,
    UnknownNormalisationError,
)
from lipaudit.frontends.loaded import LoadedModel, Preprocessing
from lipaudit.frontends.tensors import read_tensor, readable_file
from lipaudit.network.domain import GLOBAL, Domain, ball, pixel_box
from lipaudit.option_names import spell

_TENSOR = "give a tensor file (.npy, .pt)"


def resolve_domain(request: AuditOptions, loaded: LoadedModel) -> Domain:
    """The domain in the network's own input space.

    A ball around an image file has its radius in pixels in [0, 1]: it lies in the ball of radius r max(1/std) around the
    normalised image. Around a tensor (a tensor, .npy, .pt) centre and radius are those of the network's input.

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
        known = _normalisation(loaded)
        _check_channels(loaded, known)
    except UsageError:
        if required:
            raise
        return None
    return pixel_box(loaded.input_shapes, *_same_length(known))


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
    _check_channels(loaded, given)
    return given


def _normalisation(loaded: LoadedModel) -> Preprocessing:
    if loaded.preprocessing is None:
        raise UnknownNormalisationError(loaded.spec)
    return loaded.preprocessing


def _check_channels(loaded: LoadedModel, known: Preprocessing) -> None:
    for name, shape in loaded.input_shapes.items():
        if len(shape) < 3:
            raise NoPixelsError(name, shape)
        if not {len(known.mean), len(known.std)} <= {1, shape[1]}:
            raise ChannelsError(name, shape, known.mean, known.std)


def _same_length(known: Preprocessing) -> tuple[tuple[float, ...], tuple[float, ...]]:
    longest = max(len(known.mean), len(known.std))
    mean, std = (tuple(v) * longest if len(v) == 1 else tuple(v) for v in (known.mean, known.std))
    return mean, std


def _ball(request: AuditOptions, loaded: LoadedModel) -> Domain:
    assert request.around is not None
    assert request.radius is not None
    if len(loaded.input_shapes) != 1:
        raise SeveralInputsError(loaded.spec, len(loaded.input_shapes))
    (name, shape), around, radius = *loaded.input_shapes.items(), request.around, request.radius
    if isinstance(around, str) and request.in_pixels:
        pixels = _image(around, shape)
        known = _normalisation(loaded)
        _check_channels(loaded, known)
        mean, std = (torch.tensor(v, dtype=torch.float64).reshape(1, -1, 1, 1) for v in _same_length(known))
        steepest, flattest = max(1 / abs(s) for s in known.std), min(1 / abs(s) for s in known.std)
        middle = (pixels - mean) / std
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
    return ball({name: centre}, radius)


def _image(text: str, shape: tuple[int, ...]) -> torch.Tensor:
    """An image file as pixels in [0, 1], (1, C, H, W), resized to the network's input."""
    import numpy as np
    from PIL import Image

    if len(shape) != 4 or shape[1] not in (1, 3):
        raise CentreError(f"is an image, and the network's input has the shape {tuple(shape)}", _TENSOR)
    path = readable_file(text, spell("around", text))
    try:
        with Image.open(path) as opened:
            if opened.mode.startswith(("I", "F")):
                raise ReadFileError(spell("around", text), f"it has more than 8 bits per pixel; {_TENSOR}")
            picture = opened.convert("RGB" if shape[1] == 3 else "L").resize(
                (shape[3], shape[2]), Image.Resampling.BICUBIC
            )
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        problem = f"it is not an image that can be read ({error}); give a PNG or JPEG file, or a tensor (.npy, .pt)"
        raise ReadFileError(spell("around", text), problem) from error
    pixels = torch.from_numpy(np.asarray(picture).copy()).to(torch.float64) / 255
    return (pixels.permute(2, 0, 1) if pixels.dim() == 3 else pixels[None])[None]
