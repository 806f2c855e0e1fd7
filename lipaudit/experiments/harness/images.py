"""Images to train on: the digits that come with scikit-learn, or CIFAR-10 from a folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from lipaudit.errors import UsageError

_MEAN, _STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of the training images of CIFAR-10
_TESTED = 4  # every so many digits is one to test on


@dataclass(frozen=True)
class Images:
    """Training and test images (n, channels, h, w) with their classes (n,); ``shifted`` is by how many pixels training may shift them.

    Images that may be shifted may be mirrored, too.
    """

    name: str
    train: torch.Tensor
    train_classes: torch.Tensor
    test: torch.Tensor
    test_classes: torch.Tensor
    shifted: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one image."""
        return tuple(self.train.shape[1:])

    def to(self, device: torch.device) -> Images:
        """The same images on a device."""
        names = ("train", "train_classes", "test", "test_classes")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def batch(self, index: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Training images by their numbers, shifted and mirrored at random where that is allowed, and their classes."""
        images = self.train[index]
        if self.shifted:
            images = _shifted_and_mirrored(images, self.shifted, generator)
        return images, self.train_classes[index]


def digits() -> Images:
    """1797 digits, enlarged from 8 x 8 to 16 x 16 pixels in [0, 1]; every fourth one is to test on.

    Raises:
        UsageError: where scikit-learn is missing.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UsageError(
            'the digits come with scikit-learn, which is not installed: pip install scikit-learn (the extra "reproduce")'
        ) from None
    data: Any = load_digits()
    small = torch.as_tensor(data.images, dtype=torch.float32)[:, None] / 16
    images = functional.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
    classes = torch.as_tensor(data.target, dtype=torch.long)
    tested = torch.arange(len(images)) % _TESTED == 0
    return Images("scikit-learn digits", images[~tested], classes[~tested], images[tested], classes[tested])


def cifar10(folder: Path) -> Images:
    """CIFAR-10 as torchvision keeps it in ``folder`` (``cifar-10-batches-py`` or the archive unpacked there), normalised.

    Raises:
        UsageError: where the folder does not hold it, or not unchanged.
    """
    from torchvision.datasets import CIFAR10

    try:
        parts = [CIFAR10(str(folder), train=train, download=False) for train in (True, False)]
    except RuntimeError as error:
        raise UsageError(
            f"{folder} does not hold CIFAR-10 ({error}): unpack cifar-10-python.tar.gz there, so that it has a folder "
            "cifar-10-batches-py"
        ) from None
    mean, std = (torch.tensor(values)[:, None, None] for values in (_MEAN, _STD))
    images = [(torch.as_tensor(part.data).permute(0, 3, 1, 2) / 255 - mean) / std for part in parts]
    classes = [torch.as_tensor(part.targets) for part in parts]
    return Images("CIFAR-10", images[0], classes[0], images[1], classes[1], shifted=4)


def _shifted_and_mirrored(images: torch.Tensor, pixels: int, generator: torch.Generator) -> torch.Tensor:
    """Each image mirrored with probability 1/2, then shifted by up to so many pixels along both axes, with zeros from outside."""
    count, _, height, width = images.shape
    mirror = torch.rand(count, generator=generator).to(images.device) < 0.5
    images = torch.where(mirror[:, None, None, None], images.flip(3), images)
    padded = functional.pad(images, (pixels,) * 4)
    top, left = torch.randint(2 * pixels + 1, (2, count), generator=generator).to(images.device)
    rows = top[:, None] + torch.arange(height, device=images.device)
    columns = left[:, None] + torch.arange(width, device=images.device)
    each = torch.arange(count, device=images.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
