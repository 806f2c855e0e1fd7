"""The domain that a user asks for: all inputs, the pixel box, or a ball around an image or a tensor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from lipaudit.errors import UsageError
from lipaudit.frontends.files import existing_file
from lipaudit.frontends.loaded import LoadedModel, Preprocessing
from lipaudit.network.domain import GLOBAL, Domain, ball, pixel_box

DOMAINS = ("global", "pixels", "ball")
_TENSORS = (".npy", ".pt", ".pth")


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
            raise UsageError("the domain ball needs its centre and its radius: --around IMAGE --radius R")
        if self.radius is not None and not (math.isfinite(self.radius) and self.radius > 0):
            raise UsageError(f"the radius {self.radius} is not a positive number")


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
    return _ball(request, loaded)


def pixels_of(loaded: LoadedModel, required: bool = False) -> Domain | None:
    """The pixel box of a model whose normalisation is known and whose inputs are images; None, or an error, otherwise."""
    if loaded.preprocessing is None and not required:
        return None
    known = _normalisation(loaded)
    shapes = loaded.input_shapes
    for name, shape in shapes.items():
        channels = shape[1] if len(shape) >= 3 else None
        if channels is None or not {len(known.mean), len(known.std)} <= {1, channels}:
            if not required:
                return None
            raise UsageError(
                f"input {name} of shape {tuple(shape)} is no image whose channels the mean {known.mean} and std {known.std} fit"
            )
    return pixel_box(shapes, *_same_length(known))


def _normalisation(loaded: LoadedModel) -> Preprocessing:
    if loaded.preprocessing is None:
        raise UsageError(
            f"how {loaded.spec} normalises pixels is not known: give --mean and --std, one number per channel (0 and 1 if it "
            "takes pixels in [0, 1] as they are)"
        )
    return loaded.preprocessing


def _same_length(known: Preprocessing) -> tuple[tuple[float, ...], tuple[float, ...]]:
    longest = max(len(known.mean), len(known.std))
    mean, std = (tuple(v) * longest if len(v) == 1 else tuple(v) for v in (known.mean, known.std))
    return mean, std


def _ball(request: DomainRequest, loaded: LoadedModel) -> Domain:
    if request.around is None or request.radius is None:
        raise UsageError("the domain ball needs its centre and its radius: --around IMAGE --radius R")
    if len(loaded.input_shapes) != 1:
        raise UsageError(
            f"the domain ball is for networks with one input; {loaded.spec} has {len(loaded.input_shapes)}"
        )
    (name, shape), around, radius = *loaded.input_shapes.items(), request.around, request.radius
    if isinstance(around, str) and Path(around).suffix not in _TENSORS:
        mean, std = _same_length(_normalisation(loaded))
        image = _image(existing_file(around), shape)
        column = (1, -1, 1, 1)
        centre = (image - torch.tensor(mean, dtype=torch.float64).reshape(column)) / torch.tensor(
            std, dtype=torch.float64
        ).reshape(column)
        return ball({name: centre}, radius * max(1 / abs(s) for s in std) * (1 + 1e-12))
    centre = _tensor(existing_file(around)) if isinstance(around, str) else around.detach().cpu()
    if centre.dim() == len(shape) - 1:
        centre = centre[None]
    if tuple(centre.shape) != tuple(shape):
        raise UsageError(f"the centre of the ball has shape {tuple(centre.shape)}, the network's input {tuple(shape)}")
    if not centre.is_floating_point() or not bool(torch.isfinite(centre).all()):
        raise UsageError("the centre of the ball is not made of finite floating-point numbers")
    return ball({name: centre}, radius)


def _image(path: Path, shape: tuple[int, ...]) -> torch.Tensor:
    """An image file as pixels in [0, 1], (1, C, H, W), resized to the network's input."""
    import numpy as np
    from PIL import Image

    if len(shape) != 4 or shape[1] not in (1, 3):
        raise UsageError(
            f"an image cannot be the centre of inputs of shape {tuple(shape)}: give a tensor file (.npy, .pt)"
        )
    try:
        with Image.open(path) as opened:
            picture = opened.convert("RGB" if shape[1] == 3 else "L").resize(
                (shape[3], shape[2]), Image.Resampling.BICUBIC
            )
    except OSError as error:
        raise UsageError(
            f"{path} is no image that can be read ({error}); give a PNG or JPEG file, or a tensor (.npy, .pt)"
        ) from error
    pixels = torch.from_numpy(np.asarray(picture).copy()).to(torch.float64) / 255
    return (pixels.permute(2, 0, 1) if pixels.dim() == 3 else pixels[None])[None]


def _tensor(path: Path) -> torch.Tensor:
    try:
        if path.suffix == ".npy":
            import numpy as np

            return torch.from_numpy(np.load(path, allow_pickle=False))
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UsageError(f"{path} cannot be read as a tensor: {error}") from error
    if not isinstance(found, torch.Tensor):
        raise UsageError(f"{path} holds {type(found).__name__}, not one tensor")
    return found


def override_preprocessing(
    loaded: LoadedModel, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> Preprocessing | None:
    """The normalisation in force: what the user gave, else the model's own."""
    if mean is None and std is None:
        return loaded.preprocessing
    if mean is None or std is None:
        raise UsageError("--mean and --std belong together: give both")
    if not all(math.isfinite(v) for v in (*mean, *std)) or any(s == 0 for s in std) or not mean or not std:
        raise UsageError(f"mean {mean} and std {std} are not finite numbers with std different from 0")
    return Preprocessing(mean, std)
