"""How far a network stretches near a user's images, in words."""

from __future__ import annotations

from lipaudit.records.report import ImagesRecord
from lipaudit.text.numbers import lower_text


def norms_text(images: ImagesRecord) -> str:
    """How many images were looked at, and the distribution of the norms, in short.

    >>> from lipaudit.records.report import ImagesRecord
    >>> norms_text(ImagesRecord("cats", 32, 1797, True, 1.0, 2.0, 3.0, "a.png"))
    '32 of 1,797: median 1, 90 % 2, largest 3 (a.png)'
    """
    largest = f"{lower_text(images.largest)} ({_named(images.largest_image)})"
    if images.count == 1:
        return largest
    figures = f"median {lower_text(images.median)}, 90 % {lower_text(images.percentile_90)}, largest {largest}"
    return f"{_counted(images)}: {figures}"


def jacobian_norms(images: ImagesRecord) -> str:
    """The same as a sentence."""
    source = f" of {images.source}" if images.source else ""
    kind = "" if images.from_pixels else ", taken as inputs of the network as they are"
    what = "image" if images.total == 1 else "images"
    start = f"Near {_counted(images)} {what}{source}{kind}, the network stretches by (norm of the Jacobian, measured)"
    if images.count == 1:
        return f"{start}: {lower_text(images.largest)}, at {_named(images.largest_image)}."
    return (
        f"{start}: median {lower_text(images.median)}; at most {lower_text(images.percentile_90)} for 90 % of them; "
        f"largest {lower_text(images.largest)}, at {_named(images.largest_image)}."
    )


def _counted(images: ImagesRecord) -> str:
    return f"{images.count:,}" if images.count == images.total else f"{images.count:,} of {images.total:,}"


def _named(image: str) -> str:
    return f"image {image}" if image.isdecimal() else image
