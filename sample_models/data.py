"""scikit-learn's digits as 16x16 images in [0, 1], with one fixed stratified split."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch.nn import functional

from sample_models.models import IMAGE_SIZE

TEST_SHARE = 0.25
SPLIT_SEED = 0
NOISE_SEED = 1
NOISE_STD = 0.15


class Split(NamedTuple):
    """``images`` (n, 1, 16, 16) float32 in [0, 1]; ``targets`` (n,) int64 classes or (n, 1, 16, 16) float32 masks."""

    images: Tensor
    targets: Tensor


def load_classes(part: Literal["train", "test"]) -> Split:
    """Digits and their classes. The 8x8 originals (0 to 16) are scaled to [0, 1] and resized bilinearly to 16x16.

    >>> images, classes = load_classes("test")
    >>> tuple(images.shape), classes.unique().tolist()
    ((450, 1, 16, 16), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    pixels, classes = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        pixels, classes, test_size=TEST_SHARE, random_state=SPLIT_SEED, stratify=classes
    )
    x, y = (train_x, train_y) if part == "train" else (test_x, test_y)
    small = torch.from_numpy(x).reshape(-1, 1, 8, 8).float() / 16
    images = functional.interpolate(small, size=(IMAGE_SIZE, IMAGE_SIZE), mode="bilinear", align_corners=False)
    return Split(images, torch.from_numpy(y).long())


def foreground(images: Tensor) -> Tensor:
    """1 where a clean image is brighter than one half, else 0; same shape."""
    return (images > 0.5).float()


def add_noise(images: Tensor, generator: torch.Generator) -> Tensor:
    """Images under Gaussian noise of standard deviation 0.15, clipped to [0, 1]."""
    noise = torch.randn(images.shape, generator=generator)
    return (images + NOISE_STD * noise).clamp(0, 1)


def load_masks(part: Literal["train", "test"]) -> Split:
    """Noisy digits and the foreground of the clean ones; the noise is the same in every call."""
    clean = load_classes(part).images
    return Split(add_noise(clean, torch.Generator().manual_seed(NOISE_SEED)), foreground(clean))
