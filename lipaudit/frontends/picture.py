"""One picture in a file (PNG, JPEG, ...), as pixels of the size that a network takes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lipaudit.errors.inputs import ReadFileError
from lipaudit.frontends.tensors import readable_file


def fits_pictures(shape: Sequence[int]) -> bool:
    """Whether a picture fits an input of this shape: (1, C, H, W) with one channel or three."""
    return len(shape) == 4 and shape[1] in (1, 3)


def read_picture(text: str, shape: Sequence[int], option: str) -> torch.Tensor:
    """An image file as pixels in [0, 1], (1, C, H, W) in float64, resized to ``shape`` (bicubic), in grey for one channel.

    ``option`` is the option with its value, for the message of :class:`~lipaudit.errors.inputs.ReadFileError`.
    """
    import numpy as np
    from PIL import Image

    path = readable_file(text, option)
    try:
        with Image.open(path) as opened:
            if opened.mode.startswith(("I", "F")):
                raise ReadFileError(option, "it has more than 8 bits per pixel; give a tensor file (.npy, .pt)")
            picture = opened.convert("RGB" if shape[1] == 3 else "L").resize(
                (shape[3], shape[2]), Image.Resampling.BICUBIC
            )
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        problem = f"it is not an image that can be read ({error}); give a PNG or JPEG file, or a tensor (.npy, .pt)"
        raise ReadFileError(option, problem) from error
    pixels = torch.from_numpy(np.asarray(picture).copy()).to(torch.float64) / 255
    return (pixels.permute(2, 0, 1) if pixels.dim() == 3 else pixels[None])[None]
