"""ONNX operators that move, cut, join or repeat entries. All shapes are static here."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.geometry import torch_pads
from lipaudit.frontends.onnx.operators import NodeView, all_operands, converter, first_operand


def _reshape(node: NodeView, shape: tuple[int, ...]) -> nn.Module:
    return first_operand(node, lambda x: x.reshape(shape))


@converter("Reshape")
def reshape(node: NodeView) -> nn.Module:
    """0 keeps a size (unless ``allowzero``), -1 takes what is left."""
    wanted, shape = node.ints(1, "shape"), node.shape()
    if wanted is None:
        node.fail("it has no shape")
    if not node.attr("allowzero", 0):
        wanted = [shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    if -1 in wanted:
        rest = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = math.prod(shape) // rest if rest else 0
    if math.prod(wanted) != math.prod(shape):
        node.fail(f"the shape {list(shape)} cannot become {wanted}; the file fixes sizes for another input")
    return _reshape(node, tuple(wanted))


@converter("Flatten")
def flatten(node: NodeView) -> nn.Module:
    """To two axes, split before ``axis``."""
    shape = node.shape()
    axis = node.axis("axis", 1)
    return _reshape(node, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@converter("Squeeze")
def squeeze(node: NodeView) -> nn.Module:
    """Drop axes of size 1."""
    shape, axes = node.shape(), node.ints(1, "axes")
    dropped = {node.place(a) for a in axes} if axes is not None else {i for i, s in enumerate(shape) if s == 1}
    if any(shape[a] != 1 for a in dropped):
        node.fail(f"the axes {sorted(dropped)} of {list(shape)} are not all of size 1")
    return _reshape(node, tuple(s for i, s in enumerate(shape) if i not in dropped))


@converter("Unsqueeze")
def unsqueeze(node: NodeView) -> nn.Module:
    """Insert axes of size 1."""
    shape, axes = list(node.shape()), node.ints(1, "axes") or []
    rank = len(shape) + len(axes)
    for axis in sorted(node.place(a, rank) for a in axes):
        shape.insert(axis, 1)
    return _reshape(node, tuple(shape))


@converter("Transpose")
def transpose(node: NodeView) -> nn.Module:
    """Permute the axes (reversed by default)."""
    order = tuple(node.attr("perm", list(reversed(range(len(node.shape()))))))
    return first_operand(node, lambda x: x.permute(order))


@converter("Concat")
def concat(node: NodeView) -> nn.Module:
    """Join along an axis."""
    axis = node.axis("axis", 0)
    return all_operands(node, lambda *parts: torch.cat(parts, dim=axis))


@converter("Split")
def split(node: NodeView) -> nn.Module:
    """Into stated sizes, or into as many equal parts as there are outputs (the last one smaller)."""
    axis, count = node.axis("axis", 0), int(node.attr("num_outputs", len(node.proto.output)))
    size = node.shape()[axis]
    sizes = node.ints(1, "split")
    if sizes is None:
        part = -(-size // count)
        sizes = [min(part, size - i * part) for i in range(count)]
    return first_operand(node, lambda x: torch.split(x, sizes, dim=axis))


def _entries(start: int, end: int, step: int, size: int) -> range:
    """The entries of an axis that Slice keeps: negative limits count from the end, then both are clamped to the axis.

    Unlike Python, a start in front of the axis is its first entry for a negative step, too.

    >>> list(_entries(-100, -(2**62), -1, 5)), list(_entries(100, -100, -2, 5)), list(_entries(-100, 3, 1, 5))
    ([0], [4, 2, 0], [0, 1, 2])
    """
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (limit + size if limit < 0 else limit for limit in (start, end))
    return range(min(max(start, 0), high), min(max(end, low), high), step)


@converter("Slice")
def slice_(node: NodeView) -> nn.Module:
    """Ranges along axes; a negative step picks entries by index."""
    shape = node.shape()
    starts, ends = node.ints(1, "starts"), node.ints(2, "ends")
    if starts is None or ends is None:
        node.fail("it has no limits")
    axes = node.ints(3, "axes") or list(range(len(starts)))
    steps = node.ints(4) or [1] * len(starts)
    cuts = [slice(None)] * len(shape)
    reversals: list[tuple[int, torch.Tensor]] = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        position = node.place(axis)
        entries = _entries(start, end, step, shape[position])
        if step > 0:
            cuts[position] = slice(entries.start, max(entries.start, entries.stop), step)
        else:
            reversals.append((position, torch.tensor(list(entries), dtype=torch.int64)))

    axes_reversed = [axis for axis, _ in reversals]

    def cut(x: torch.Tensor, *indices: torch.Tensor) -> torch.Tensor:
        x = x[tuple(cuts)] if any(c != slice(None) for c in cuts) else x
        for axis, index in zip(axes_reversed, indices, strict=True):
            x = x.index_select(axis, index)
        return x

    return first_operand(node, cut, *(index for _, index in reversals))


@converter("Expand")
def expand(node: NodeView) -> nn.Module:
    """Broadcast in both directions."""
    target = tuple(np.broadcast_shapes(node.shape(), tuple(node.ints(1) or ())))
    return first_operand(node, lambda x: x.expand(target))


@converter("Tile")
def tile(node: NodeView) -> nn.Module:
    """Repeat along each axis."""
    repeats = node.ints(1) or []
    return first_operand(node, lambda x: x.repeat(repeats))


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@converter("Pad")
def pad(node: NodeView) -> nn.Module:
    """Constant padding by torch; the other modes as a selection of entries, axis by axis."""
    shape = node.shape()
    rank = len(shape)
    pads = node.ints(1, "pads")
    mode = node.attr("mode", "constant")
    if pads is None or mode not in _PAD_MODES:
        node.fail(f"the mode {mode!r} is not supported")
    axes = node.ints(3) if node.opset >= 18 else None
    begin, end = [0] * rank, [0] * rank
    for i, axis in enumerate(axes if axes is not None else range(rank)):
        begin[node.place(axis)], end[node.place(axis)] = pads[i], pads[i + len(pads) // 2]
    if mode == "constant":
        fill = node.constant(2).item() if node.has(2) else node.attr("value", 0.0)
        return first_operand(node, lambda x: functional.pad(x, torch_pads(begin, end), value=fill))
    torch_mode = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}[mode]
    spatial = rank - 2
    if spatial in (1, 2, 3) and not any((*begin[:2], *end[:2])) and min(*begin, *end) >= 0:
        return first_operand(node, lambda x: functional.pad(x, torch_pads(begin[2:], end[2:]), mode=torch_mode))
    if min(*begin, *end) < 0:
        node.fail(f"negative pads in mode {mode!r} are not supported")
    selections = [
        (axis, torch.from_numpy(np.pad(np.arange(shape[axis]), (begin[axis], end[axis]), mode=mode)))
        for axis in range(rank)
        if begin[axis] or end[axis]
    ]

    padded = [axis for axis, _ in selections]

    def select(x: torch.Tensor, *indices: torch.Tensor) -> torch.Tensor:
        for axis, index in zip(padded, indices, strict=True):
            x = x.index_select(axis, index)
        return x

    return first_operand(node, select, *(index for _, index in selections))


@converter("DepthToSpace")
def depth_to_space(node: NodeView) -> nn.Module:
    """Blocks of channels to pixels: column-row-depth order is torch's pixel shuffle."""
    block = int(node.attr("blocksize"))
    n, c, h, w = node.shape()
    if node.attr("mode", "DCR") == "CRD":
        return nn.PixelShuffle(block)
    inner, out = (n, block, block, c // block**2, h, w), (n, c // block**2, h * block, w * block)
    return first_operand(node, lambda x: x.reshape(inner).permute(0, 3, 4, 1, 5, 2).reshape(out))


@converter("SpaceToDepth")
def space_to_depth(node: NodeView) -> nn.Module:
    """Blocks of pixels to channels, block position first."""
    block = int(node.attr("blocksize"))
    n, c, h, w = node.shape()
    inner, out = (n, c, h // block, block, w // block, block), (n, c * block**2, h // block, w // block)
    return first_operand(node, lambda x: x.reshape(inner).permute(0, 3, 5, 1, 2, 4).reshape(out))


@converter("Trilu")
def triangle(node: NodeView) -> nn.Module:
    """Upper or lower triangle of the last two axes."""
    offset = int(node.constant(1).item()) if node.has(1) else 0
    return first_operand(node, partial(torch.triu if node.attr("upper", 1) else torch.tril, diagonal=offset))


@converter("Col2Im")
def columns_to_image(node: NodeView) -> nn.Module:
    """Sums of overlapping blocks (torch's fold); images with two axes."""
    image, block = tuple(node.ints(1) or ()), tuple(node.ints(2) or ())
    rank = len(image)
    pads, strides = (tuple(node.attr(name, [d] * n)) for name, d, n in (("pads", 0, 2 * rank), ("strides", 1, rank)))
    if rank != 2 or pads[:rank] != pads[rank:]:
        node.fail("images with other than two axes and uneven pads are not supported")
    dilations = tuple(node.attr("dilations", [1] * rank))
    return nn.Fold(image, block, dilations, pads[:rank], strides)


@converter("CenterCropPad")
def center_crop_pad(node: NodeView) -> nn.Module:
    """Cut or fill with zeros around the middle, the odd entry at the end."""
    shape, wanted = node.shape(), node.ints(1) or []
    axes = [node.place(a) for a in node.attr("axes", list(range(len(shape))))]
    begin, end = [0] * len(shape), [0] * len(shape)
    for axis, size in zip(axes, wanted, strict=True):
        missing = size - shape[axis]
        begin[axis] = missing // 2 if missing > 0 else -(-missing // 2)
        end[axis] = missing - begin[axis]
    return first_operand(node, lambda x: functional.pad(x, torch_pads(begin, end)))
