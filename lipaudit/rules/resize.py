"""Resizing (up and down) by nearest neighbour, linear and cubic interpolation, with and without antialiasing.

Each kernel acts on every spatial axis by itself, so that the norm is the product of the norms of the 1-D maps: the
root of the largest number of copies for nearest neighbour, sigma_1 of the 1-D matrix otherwise. Area interpolation is
adaptive average pooling.
"""

from __future__ import annotations

from itertools import product

import torch

from lipaudit.graph.node import Node
from lipaudit.rules.operands import data, stretch
from lipaudit.rules.pooling import MATRIX_LIMIT
from lipaudit.rules.registry import Effect, Settings, rule
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interpolation import Resize, resize_axis_norm
from lipaudit.spectral.separable import separable_norm

_MODES = {
    "upsample_nearest1d": Resize.NEAREST,
    "upsample_nearest2d": Resize.NEAREST,
    "upsample_nearest3d": Resize.NEAREST,
    "_upsample_nearest_exact1d": Resize.NEAREST_EXACT,
    "_upsample_nearest_exact2d": Resize.NEAREST_EXACT,
    "_upsample_nearest_exact3d": Resize.NEAREST_EXACT,
    "upsample_linear1d": Resize.LINEAR,
    "upsample_bilinear2d": Resize.LINEAR,
    "upsample_trilinear3d": Resize.LINEAR,
    "upsample_bicubic2d": Resize.CUBIC,
    "_upsample_bilinear2d_aa": Resize.LINEAR_ANTIALIAS,
    "_upsample_bicubic2d_aa": Resize.CUBIC_ANTIALIAS,
}


def _scales(node: Node, axes: int) -> tuple[float | None, ...]:
    """The scale factor of each axis as the kernel receives it, None where it follows from the sizes."""
    if "scale_factors" in node.arguments:
        factors = node["scale_factors"]
        return tuple(float(str(f)) for f in factors) if isinstance(factors, tuple) else (None,) * axes
    names = ("scales",) if axes == 1 else tuple(f"scales_{a}" for a in "dhw"[-axes:])
    return tuple(None if node[name] is None else float(str(node[name])) for name in names)


@rule(
    *(f"aten.{name}.{kind}" for name, kind in product(_MODES, ("default", "vec"))),
    formula="product over the axes of sigma_1 of the 1-D resizing matrix",
    source="sigma_1 of a Kronecker product is the product of sigma_1",
    exact=True,
)
def resize(node: Node, settings: Settings) -> Effect:
    """Resize every spatial axis by its own matrix."""
    mode = _MODES[node.op.split(".")[1]]
    info = data(node, "self" if "self" in node.arguments else "input")
    axes = len(info.shape) - 2
    sizes, outputs = info.shape[2:], node.output.shape[2:]
    nearest = mode in (Resize.NEAREST, Resize.NEAREST_EXACT)
    dtype = torch.float64 if info.dtype is torch.float64 else torch.float32
    norms: dict[tuple[int, int, float | None], Bracket] = {}
    brackets = []
    for axis in zip(sizes, outputs, _scales(node, axes), strict=True):
        if not nearest and axis[0] * max(axis[:2]) > MATRIX_LIMIT:
            return Effect.unsupported(
                f"resizing {axis[0]} entries to {axis[1]} takes a matrix of more than {MATRIX_LIMIT} entries; "
                "audit a smaller input"
            )
        if axis not in norms:
            size, output, scale = axis
            corners = bool(node.get("align_corners", False))
            norms[axis] = resize_axis_norm(size, output, mode, corners, scale, dtype, settings.tolerance / 4)
        brackets.append(norms[axis])
    return stretch(node, {"self": separable_norm(brackets), "input": separable_norm(brackets)})
