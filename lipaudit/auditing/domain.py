"""The domain that a user asks for: all inputs, the pixel box, or a ball around an image or a tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from lipaudit.errors import UsageError
from lipaudit.frontends.loaded import LoadedModel, Preprocessing
from lipaudit.frontends.tensors import TENSOR_SUFFIXES, read_tensor, readable_file
from lipaudit.network.domain import GLOBAL, Domain, ball, pixel_box

DOMAINS = ("global", "pixels", "ball")
# A centre beyond this is no image, and its products leave the range of floats.
_LARGEST = 1e30


@dataclass(frozen=True, eq=False)
class DomainRequest:
    """What a user typed: the domain's name, and for a ball its centre (an image, a tensor or a file) and radius."""

    name: str = "global"
    around: str | torch.Tensor | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        if self.name not in DOMAINS:
            raise UsageError(f"unknown domain {self.name!r}: choose one of {', '.join(DOMAINS)}")
        given = [option for option, value in (("around", self.around), ("radius", self.radius)) if value is not None]
        if self.name != "ball" and given:
            raise UsageError(f"{given[0]} is for the domain ball; say --domain ball, or leave it out")
        if self.name == "ball" and len(given) < 2:
            raise UsageError("the domain ball needs its centre and its radius: give --around IMAGE and --radius R")
        if self.radius is not None and not (math.isfinite(self.radius) and self.radius > 0):
            raise UsageError(f"the radius {self.radius} is not a positive number")
        if not isinstance(self.around, str | torch.Tensor | None):
            raise UsageError(f"the centre of the ball is a file or a tensor, not {type(self.around).__name__}")

    @property
    def in_pixels(self) -> bool:
        """Whether the centre and the radius count in pixels in [0, 1]: the centre is an image file."""
        return isinstance(self.around, str) and Path(self.around).suffix.lower() not in TENSOR_SUFFIXES


def resolve_domain(request: DomainRequest, loaded: LoadedModel) -> Domain:
    """The domain in the network's own input space.

    A ball around an image file has its radius in pixels in [0, 1]: it lies in the ball of radius r max(1/std) around the
    normalised image. Around a tensor (a tensor, .npy, .pt) centre and radius are those of the network's input.

    Raises:
        UsageError: if the normalisation of the pixels is not known, or the centre does not fit the network's input.
    """
    if request.name == "global":
        return GLOBAL
    if request.name == "pixels":
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
        raise UsageError(
            f"a bound over a domain depends on the value of the input {name!r}: hold it with --fix {name}=VALUE"
        )


def override_preprocessing(
    loaded: LoadedModel, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> Preprocessing | None:
    """The normalisation in force: what the user gave, else the model's own."""
    check_normalisation(mean, std)
    if mean is None or std is None:
        return loaded.preprocessing
    given = Preprocessing(mean, std)
    _check_channels(loaded, given)
    return given


def check_normalisation(
    mean: tuple[float, ...] | None, std: tuple[float, ...] | None, request: DomainRequest | None = None
) -> None:
    """Raise :class:`~lipaudit.errors.UsageError` where no network can have this normalisation."""
    if (mean is None) != (std is None):
        raise UsageError("--mean and --std belong together: give both")
    if mean is None or std is None:
        return
    if request is not None and request.name == "ball" and not request.in_pixels:
        raise UsageError(
            "--mean and --std are for pixels, and a ball around a tensor lies in the network's own input: leave them out (--no-config "
            "where they are in pyproject.toml)"
        )
    if not mean or not std or not {len(mean), len(std)} <= {1, max(len(mean), len(std))}:
        raise UsageError(
            f"--mean has {len(mean)} numbers and --std has {len(std)}: give one per channel, or one for all"
        )
    if any(s == 0 or not math.isfinite(s) for s in std):
        raise UsageError(
            f"--std {_listed(std)}: pixels are divided by these numbers, so none may be 0, infinite or NaN"
        )
    if not all(math.isfinite(m) for m in mean):
        raise UsageError(f"--mean {_listed(mean)}: every number must be finite")
    if max(1.0, *map(abs, mean)) / min(map(abs, std)) > _LARGEST:
        raise UsageError(f"--mean {_listed(mean)} and --std {_listed(std)} take pixels beyond {_LARGEST:g}: check them")


def _normalisation(loaded: LoadedModel) -> Preprocessing:
    if loaded.preprocessing is None:
        raise UsageError(
            f"how {loaded.spec} normalises pixels is not known: give --mean and --std, one number per channel (0 and 1 if it "
            "takes pixels in [0, 1] as they are)"
        )
    return loaded.preprocessing


def _check_channels(loaded: LoadedModel, known: Preprocessing) -> None:
    for name, shape in loaded.input_shapes.items():
        if len(shape) < 3:
            raise UsageError(f"input {name} of shape {tuple(shape)} is no image: it has no pixels")
        if not {len(known.mean), len(known.std)} <= {1, shape[1]}:
            raise UsageError(
                f"mean {_listed(known.mean)} and std {_listed(known.std)} do not fit input {name} of shape {tuple(shape)}: "
                f"it has {shape[1]} channel{'' if shape[1] == 1 else 's'}; give one number per channel, or one for all"
            )


def _same_length(known: Preprocessing) -> tuple[tuple[float, ...], tuple[float, ...]]:
    longest = max(len(known.mean), len(known.std))
    mean, std = (tuple(v) * longest if len(v) == 1 else tuple(v) for v in (known.mean, known.std))
    return mean, std


def _listed(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:g}" for value in values)


def _ball(request: DomainRequest, loaded: LoadedModel) -> Domain:
    if request.around is None or request.radius is None:
        raise UsageError("the domain ball needs its centre and its radius: give --around IMAGE and --radius R")
    if len(loaded.input_shapes) != 1:
        raise UsageError(
            f"the domain ball is for networks with one input; {loaded.spec} has {len(loaded.input_shapes)}"
        )
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
    centre = read_tensor(around, "--around") if isinstance(around, str) else around.detach()
    if centre.layout is not torch.strided or centre.is_meta or centre.is_quantized:
        raise UsageError("the centre of the ball is a sparse, quantised or empty (meta) tensor: give a plain one")
    centre = centre.cpu()
    if centre.dim() == len(shape) - 1:
        centre = centre[None]
    if tuple(centre.shape) != tuple(shape):
        raise UsageError(f"the centre of the ball has shape {tuple(centre.shape)}, the network's input {tuple(shape)}")
    if not centre.is_floating_point() or not bool((centre.abs() <= _LARGEST).all()):
        raise UsageError(
            f"the centre of the ball is not made of finite floating-point numbers up to {_LARGEST:g} (an input of the "
            "network, after its normalisation)"
        )
    return ball({name: centre}, radius)


def _image(text: str, shape: tuple[int, ...]) -> torch.Tensor:
    """An image file as pixels in [0, 1], (1, C, H, W), resized to the network's input."""
    import numpy as np
    from PIL import Image

    if len(shape) != 4 or shape[1] not in (1, 3):
        raise UsageError(
            f"an image cannot be the centre of inputs of shape {tuple(shape)}: give a tensor file (.npy, .pt)"
        )
    path = readable_file(text, "--around")
    try:
        with Image.open(path) as opened:
            if opened.mode.startswith(("I", "F")):
                raise UsageError(
                    f"--around {text} has more than 8 bits per pixel: give its pixels as a tensor (.npy, .pt)"
                )
            picture = opened.convert("RGB" if shape[1] == 3 else "L").resize(
                (shape[3], shape[2]), Image.Resampling.BICUBIC
            )
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UsageError(
            f"--around {text}: no image that can be read ({error}); give a PNG or JPEG file, or a tensor (.npy, .pt)"
        ) from error
    pixels = torch.from_numpy(np.asarray(picture).copy()).to(torch.float64) / 255
    return (pixels.permute(2, 0, 1) if pixels.dim() == 3 else pixels[None])[None]
