"""Resizing (up and down) by nearest neighbour, linear and cubic interpolation, with and without antialiasing.

Each kernel acts on every spatial axis by itself, so that the norm is the product of the norms of the 1-D maps: the
root of the largest number of copies for nearest neighbour, sigma_1 of the 1-D matrix otherwise. Area interpolation is
adaptive average pooling.
"""

from __future__ import annotations

from itertools import product

from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.induced_facets import picked
from lipaudit.rules.interval_facets import entries_of_input
from lipaudit.rules.norm import Norm
from lipaudit.rules.operands import data, root, stretch
from lipaudit.rules.ops.pooling import MATRIX_LIMIT, axis_tolerance
from lipaudit.rules.radii_facets import entries_and_whole
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interpolation import nearest_copies, resize_axis_norm, resize_axis_sums, resize_matrix
from lipaudit.spectral.separable import axis_norm, separable_norm

_KERNELS = (
    *(f"{family}{axes}d" for family in ("upsample_nearest", "_upsample_nearest_exact") for axes in (1, 2, 3)),
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)


def _scales(node: Node, axes: int) -> tuple[float | None, ...]:
    """The scale factor of each axis as the kernel receives it, None where it follows from the sizes."""
    if "scale_factors" in node.arguments:
        factors = node["scale_factors"]
        return tuple(float(str(f)) for f in factors) if isinstance(factors, tuple) else (None,) * axes
    names = ("scales",) if axes == 1 else tuple(f"scales_{a}" for a in "dhw"[-axes:])
    return tuple(None if node[name] is None else float(str(node[name])) for name in names)


_NAMES = [f"aten.{kernel}.{kind}" for kernel, kind in product(_KERNELS, ("default", "vec"))]
NEAREST = operations(*(name for name in _NAMES if "nearest" in name))
CUBIC = operations(*(name for name in _NAMES if "cubic" in name))
LINEAR = operations(*(name for name in _NAMES if "nearest" not in name and "cubic" not in name))


@NEAREST.constant(
    formula="root of the largest number of copies of an entry, in any precision of the ratio",
    source="copying: the norm is the root of the largest count",
    two_sided=True,
)
def nearest(node: Node, settings: Settings) -> Effect:
    """Nearest-neighbour resizing."""
    return _resize(node, settings)


@(LINEAR | CUBIC).constant(
    formula="product over the axes of sigma_1 of the 1-D resizing matrix",
    source="sigma_1 of a Kronecker product is the product of sigma_1",
    exact=True,
)
def resize(node: Node, settings: Settings) -> Effect:
    """Linear and cubic interpolation: every spatial axis by its own matrix."""
    return _resize(node, settings)


def _resize(node: Node, settings: Settings) -> Effect:
    kernel = node.op.split(".")[1]
    sizes = data(node, "self" if "self" in node.arguments else "input").shape[2:]
    outputs = node.output.shape[2:]
    if kernel.endswith("_aa") and outputs[1] == 1 and outputs[0] != sizes[0]:
        return Effect.unsupported(
            "torch resizes wrongly to a width of one with antialiasing: it reads the first row only"
        )
    corners = None if "nearest" in kernel else bool(node["align_corners"])
    norms: dict[tuple[int, int, float | None], Bracket] = {}  # the axes of an image mostly share one matrix
    brackets = []
    for axis in zip(sizes, outputs, _scales(node, len(sizes)), strict=True):
        if axis[0] * max(axis[:2]) > MATRIX_LIMIT:
            return Effect.unsupported(
                f"resizing {axis[0]} entries to {axis[1]} takes a matrix of more than {MATRIX_LIMIT} entries; "
                "audit a smaller input"
            )
        if axis not in norms:
            matrix = resize_matrix(kernel, *axis, corners, same_sizes=sizes == outputs)
            if "nearest" in kernel:
                norm = axis_norm(matrix, 0.0, axis_tolerance(settings))
                # other dtypes and layouts than the one tried here may copy an entry once more
                copies = root(nearest_copies(kernel, *axis))
                norms[axis] = Bracket(norm.log_lower, copies.log_upper) if copies.log_upper > norm.log_upper else norm
            else:
                norms[axis] = resize_axis_norm(matrix, axis_tolerance(settings))
        brackets.append(norms[axis])
    return stretch(node, dict.fromkeys(("self", "input"), separable_norm(brackets)))


NEAREST.induced_norm(picked)


@(LINEAR | CUBIC).induced_norm
def resized_in_norm(node: Node, _effect: Effect, norm: Norm) -> Effect:
    """The largest sums of moduli of a row, or of a column, of one matrix per axis multiply."""
    kernel = node.op.split(".")[1]
    sizes = data(node, "self" if "self" in node.arguments else "input").shape[2:]
    outputs, corners = node.output.shape[2:], bool(node["align_corners"])
    factor = Bracket.exact(1.0)
    for axis in zip(sizes, outputs, _scales(node, len(sizes)), strict=True):
        factor = factor * resize_axis_sums(resize_matrix(kernel, *axis, corners, sizes == outputs))[norm is Norm.L1]
    return stretch(node, dict.fromkeys(("self", "input"), factor))


# the weights of linear interpolation are not negative and add up to 1, those of cubic have signs
(NEAREST | LINEAR).radii(entries_and_whole)
(NEAREST | LINEAR).interval(entries_of_input)
