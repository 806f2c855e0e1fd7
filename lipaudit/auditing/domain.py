"""The domain that a request names, in the network's own input: all inputs, the pixel box, or a ball around an image or a tensor."""

from __future__ import annotations

from dataclasses import dataclass

from lipaudit.auditing.balls import Ball, balls_around
from lipaudit.auditing.request import AuditOptions
from lipaudit.errors import UsageError
from lipaudit.errors.inputs import UnheldInputError
from lipaudit.frontends.loaded import LoadedModel, Preprocessing
from lipaudit.frontends.normalisation import check_channels, known_normalisation, of_equal_length
from lipaudit.network.domain import GLOBAL, Domain, pixel_box


@dataclass(frozen=True, eq=False)
class Resolved:
    """The domain of a request, and the balls where it names several centres; ``domain`` is the first of them then."""

    domain: Domain
    balls: tuple[Ball, ...] = ()


def resolve_domain(request: AuditOptions, loaded: LoadedModel) -> Resolved:
    """The domain in the network's own input space.

    A ball around an image file has its radius in pixels in [0, 1]: it lies in the ball of radius r max(1/std) around the
    normalised image. Around a tensor (a tensor, .npy, .pt) centre and radius are those of the network's input. In the l-infinity norm the
    ball is a cube, and each channel has the half width r / std.

    Raises:
        UsageError: if the normalisation of the pixels is not known, or the centre does not fit the network's input.
    """
    if request.domain == "global":
        return Resolved(GLOBAL)
    if request.domain == "pixels":
        return Resolved(pixels_of(loaded, required=True) or GLOBAL)
    _check_held(loaded)
    balls = balls_around(request, loaded)
    return Resolved(balls[0].domain, balls if balls[0].name else ())


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
