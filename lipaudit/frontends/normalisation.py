"""The normalisation of pixels that a model expects, (pixel - mean) / std per channel, and what it can be applied to."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lipaudit.errors.inputs import ChannelsError, NoPixelsError, UnknownNormalisationError
from lipaudit.frontends.loaded import LoadedModel, Preprocessing


def known_normalisation(loaded: LoadedModel) -> Preprocessing:
    """The normalisation in force; :class:`~lipaudit.errors.inputs.UnknownNormalisationError` where nobody knows it."""
    if loaded.preprocessing is None:
        raise UnknownNormalisationError(loaded.spec)
    return loaded.preprocessing


def check_channels(name: str, shape: Sequence[int], known: Preprocessing) -> None:
    """Raise a :class:`~lipaudit.errors.UsageError` where an input is no image, or has another number of channels."""
    if len(shape) < 3:
        raise NoPixelsError(name, tuple(shape))
    if not {len(known.mean), len(known.std)} <= {1, shape[1]}:
        raise ChannelsError(name, shape, known.mean, known.std)


def of_equal_length(known: Preprocessing) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation, one number per channel or one for all in both."""
    longest = max(len(known.mean), len(known.std))
    mean, std = (tuple(v) * longest if len(v) == 1 else tuple(v) for v in (known.mean, known.std))
    return mean, std


def normalise(pixels: torch.Tensor, known: Preprocessing) -> torch.Tensor:
    """(pixels - mean) / std, for pixels of shape (N, C, ...), in their dtype."""
    sizes = (1, -1, *[1] * (pixels.dim() - 2))
    mean, std = (torch.tensor(v, dtype=pixels.dtype).reshape(sizes) for v in of_equal_length(known))
    return (pixels - mean) / std
