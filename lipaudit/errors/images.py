"""What is wrong with the images that a user gives: their files, sizes, numbers and labels."""

from __future__ import annotations

from collections.abc import Sequence

from lipaudit.errors import UsageError


class ImagesError(UsageError):
    """Images that a network cannot read; ``option`` is the option with its value.

    >>> print(ImagesError("--images cats", "the folder holds no image"))
    --images cats: the folder holds no image
    """

    def __init__(self, option: str, problem: str, advice: str = "") -> None:
        super().__init__(f"{option[:300]}: {problem}{advice and f'; {advice}'}")


class NoImagesError(ImagesError):
    """A folder without images."""

    def __init__(self, option: str, suffixes: Sequence[str]) -> None:
        super().__init__(option, "the folder holds no image", f"images are files that end in {', '.join(suffixes)}")


class ImageSizesError(ImagesError):
    """Images of other sizes than the network's input."""

    def __init__(self, option: str, shape: Sequence[int], needed: Sequence[int], advice: str = "") -> None:
        sizes = ", ".join(["N", *map(str, needed[1:])])
        super().__init__(option, f"the images have the shape {tuple(shape)}, and the network takes ({sizes})", advice)


class NoPictureError(ImagesError):
    """Image files for an input that no picture fits."""

    def __init__(self, option: str, shape: Sequence[int]) -> None:
        problem = f"image files do not fit the network's input of shape {tuple(shape)}"
        super().__init__(option, problem, "give a tensor file (.npy, .npz, .pt)")


class LabelsError(ImagesError):
    """Labels that do not belong to the images."""
