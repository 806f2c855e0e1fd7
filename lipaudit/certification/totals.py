"""From images to accuracies at radii."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.records.certification import ImageRecord, RadiusRecord

_POINTS = 64  # of the curve


def accuracy(images: Sequence[ImageRecord]) -> float | None:
    """The share of right decisions; None where a label is missing."""
    if any(image.label is None for image in images):
        return None
    return sum(bool(image.is_right) for image in images) / len(images)


def at_radius(images: Sequence[ImageRecord], radius: float, attacked: bool) -> RadiusRecord:
    """What holds at a radius: a decision is certified at it where its own radius is at least as large, and no tie."""
    certified = [image for image in images if image.radius >= radius and image.radius > 0]
    labelled = all(image.label is not None for image in images)
    right = sum(bool(image.is_right) for image in certified) / len(images) if labelled else None
    standing = None
    if labelled and attacked:
        holds = [i for i in images if i.is_right and (i.attack_radius is None or i.attack_radius > radius)]
        standing = len(holds) / len(images)
    return RadiusRecord(radius, len(certified) / len(images), right, standing)


def curve(images: Sequence[ImageRecord], radii: Sequence[float], attacked: bool) -> tuple[RadiusRecord, ...]:
    """The same at evenly spaced radii from 0 to where nothing is left."""
    ends = [i.attack_radius for i in images if i.attack_radius is not None]
    finite = [i.radius for i in images if i.radius < 1e100]
    last = max([*ends, *finite, *radii])
    return tuple(at_radius(images, last * k / _POINTS, attacked) for k in range(_POINTS + 1))
