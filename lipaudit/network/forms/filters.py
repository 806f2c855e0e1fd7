"""Linear steps between tensors with pixels as filters: y[n] = sum_a K[a] x[s n + offset_a], or the adjoint of that."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from lipaudit.graph.constant_errors import margin_of
from lipaudit.graph.linear import CONVOLUTION, SCALE
from lipaudit.graph.node import Constant, Node, Ref
from lipaudit.network.entrywise import returns_its_operand
from lipaudit.network.forms.spaces import is_spatial, sliding_axes, window_geometry
from lipaudit.network.forms.steps import Linear, Step
from lipaudit.spectral.convolution.geometry import Convolution


class NotRepresentableError(Exception):
    """A step has no matrices per frequency; the message says which and why."""


_SUMS = {"aten.add.Tensor": 1.0, "aten.sub.Tensor": -1.0}


@dataclass(frozen=True, eq=False)
class Filter:
    """y[n] = sum_a K[a] x[stride n + offsets[a]] per axis: a kernel (c_out, c_in, taps), and whether it is the adjoint that is meant.

    A kernel (c, taps) acts on every channel by itself. A ``circular`` filter reads the pixels of the other side beyond the border: it
    needs a lattice that is the domain itself.
    """

    kernel: torch.Tensor
    offsets: torch.Tensor
    stride: tuple[int, ...]
    transposed: bool = False
    error: float = 0.0
    moved: float = 0.0
    circular: bool = False

    def points(self, source: tuple[int, ...], output: tuple[int, ...]) -> tuple[int, ...]:
        """How many points per axis of the tensor that is read (of a transposed filter the output) keep readings from going around.

        What is read from the domain of the other tensor lies in [-low, size - 1 + high]: size + max(low, high) points keep both
        ends apart from the domain.
        """
        if self.circular:
            return source
        read, other = (output, source) if self.transposed else (source, output)
        first, last = self.offsets.amin(0).tolist(), self.offsets.amax(0).tolist()
        axes = zip(read, other, self.stride, first, last, strict=True)
        return tuple(n + max(0, -low, (m - 1) * s + high - (n - 1)) for n, m, s, low, high in axes)


def as_filters(step: Linear) -> list[Filter]:
    """The filters of a linear step between spatial tensors, one per source.

    Raises:
        NotRepresentableError: if the step is none.
    """
    node, spatial = step.node, len(step.output.shape) - 2
    check_has_batch(node, spatial)
    if node.op == CONVOLUTION:
        return [_convolution(node.payload)]
    if step.part is not None:
        return [_part_of(step, spatial)]
    if not {source.name for source in step.sources} <= {ref.name for ref in node.refs}:
        raise NotRepresentableError(f"{node.name} reads a tensor that is cut back to its domain")
    shapes = [source.shape for source in step.sources]
    if (node.op == SCALE and node.payload.axis % len(step.output.shape) == 1) or (
        node.op == SCALE and node.payload.factor.numel() == 1
    ):
        factor = node.payload.factor.to(torch.float64).expand(step.output.shape[1])
        return [_pointwise(factor, spatial, margin_of(node.payload.error))]
    if returns_its_operand(node):
        return [_pointwise(torch.ones(step.output.shape[1], dtype=torch.float64), spatial)]
    if node.op in _SUMS:
        return _sum(step, spatial)
    if node.op == "aten.cat.default" and node["dim"] in (1, 1 - len(step.output.shape)):
        return _joined(step, spatial)
    if node.op == "aten.slice.Tensor":
        return [_slice(node, shapes[0], spatial)]
    if node.op == "aten.index_select.default" and node["dim"] in (1, 1 - len(step.output.shape)):
        return [_picked(node, shapes[0], spatial)]
    if node.op in ("aten.constant_pad_nd.default", "aten.pad.default"):
        return [_padded(node, shapes[0], step.output.shape, spatial)]
    if node.op in ("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default"):
        return [_average(node, shapes[0], spatial)]
    raise NotRepresentableError(f"{node.op} has no matrix per frequency")


def check_has_batch(node: Node, spatial: int) -> None:
    """Raise :class:`NotRepresentableError` where a node slides along other axes than the last ones behind batch and channels."""
    axes = sliding_axes(node)
    if axes is not None and axes != spatial:
        raise NotRepresentableError(f"{node.name} reads a tensor without a batch axis")


def _convolution(payload: Convolution) -> Filter:
    circular = payload.padding_mode == "circular"
    if (payload.padding_mode != "zeros" and not circular) or any(p < 0 for pair in payload.padding for p in pair):
        raise NotRepresentableError(f"a convolution with padding {payload.padding_mode}")
    periods = zip(payload.output_size, payload.stride, payload.input_size, strict=True)
    if circular and any(m * s != n for m, s, n in periods):
        raise NotRepresentableError("a convolution with circular padding that does not cover whole periods")
    kernel = payload.kernel.to(torch.float64)
    groups = payload.groups
    rows, columns = kernel.shape[0], kernel.shape[1]
    places = torch.cartesian_prod(*[torch.arange(k) for k in kernel.shape[2:]]).reshape(-1, kernel.dim() - 2)
    left = torch.tensor([pair[0] for pair in payload.padding])
    offsets = places * torch.tensor(payload.dilation) - left
    if groups == rows and columns == 1:
        kernel = kernel[:, 0].flatten(1)
        error, moved = margin_of(payload.error), payload.moved
        return Filter(kernel, offsets, payload.stride, payload.transposed, error, moved, circular)
    if groups > 1:
        whole = kernel.new_zeros(rows, columns * groups, *kernel.shape[2:])
        for g in range(groups):
            part = slice(g * rows // groups, (g + 1) * rows // groups)
            whole[part, g * columns : (g + 1) * columns] = kernel[part]
        kernel = whole
    error, moved = margin_of(payload.error), payload.moved
    return Filter(kernel.flatten(2), offsets, payload.stride, payload.transposed, error, moved, circular)


def _pointwise(matrix: torch.Tensor, spatial: int, error: float = 0.0) -> Filter:
    """A matrix (c_out, c_in), or one number per channel (c,)."""
    zero = torch.zeros(1, spatial, dtype=torch.long)
    return Filter(matrix[..., None], zero, (1,) * spatial, error=error)


def _sum(step: Linear, spatial: int) -> list[Filter]:
    node, filters = step.node, []
    if any(source.shape != step.output.shape for source in step.sources):
        raise NotRepresentableError("a sum with broadcasting")
    first, second = node["self"], node["other"]
    alpha = float(node.get("alpha", 1)) * _SUMS[node.op]  # type: ignore[arg-type]
    for source in step.sources:
        factor = (first.name == source.name if isinstance(first, Ref) else 0.0) + (
            alpha if isinstance(second, Ref) and second.name == source.name else 0.0
        )
        filters.append(_pointwise(factor * torch.ones(source.shape[1], dtype=torch.float64), spatial))
    return filters


def _joined(step: Linear, spatial: int) -> list[Filter]:
    start = 0
    matrices = {s.name: torch.zeros(step.output.shape[1], s.shape[1], dtype=torch.float64) for s in step.sources}
    tensors = step.node["tensors"]
    assert isinstance(tensors, tuple)
    for part in tensors:
        size = part.info.shape[1] if isinstance(part, Ref) else part.value.shape[1]  # type: ignore[union-attr]
        if isinstance(part, Ref) and part.name in matrices:
            matrices[part.name][start : start + size] += torch.eye(size, dtype=torch.float64)
        start += size
    return [_pointwise(matrices[source.name], spatial) for source in step.sources]


def _part_of(step: Linear, spatial: int) -> Filter:
    before, after = step.sources[0].shape, step.output.shape
    axis, start, size = step.part or (1, 0, before[1])
    if (axis != 1 and size != before[axis]) or len(before) != len(after):
        raise NotRepresentableError("a part of the pixels")
    rows = torch.arange(size if axis == 1 else before[1])
    matrix = torch.zeros(len(rows), before[1], dtype=torch.float64)
    matrix[rows, rows + (start if axis == 1 else 0)] = 1.0
    return _pointwise(matrix, spatial)


def _slice(node: Node, before: tuple[int, ...], spatial: int) -> Filter:
    axis, start, end, step = (node.get(key) for key in ("dim", "start", "end", "step"))
    assert isinstance(axis, int)
    assert isinstance(start, int | None)
    assert isinstance(end, int | None)
    assert isinstance(step, int | None)
    axis %= len(before)
    places = list(range(before[axis]))[start:end:step]
    if not places:
        raise NotRepresentableError("a slice of nothing")
    if axis == 1:
        matrix = torch.zeros(len(places), before[1], dtype=torch.float64)
        matrix[torch.arange(len(places)), torch.tensor(places)] = 1.0
        return _pointwise(matrix, spatial)
    if axis < 2 or places != list(range(places[0], before[axis], step or 1)):
        raise NotRepresentableError("a slice that ends inside the domain")
    stride = [1] * spatial
    stride[axis - 2] = step or 1
    offsets = torch.zeros(1, spatial, dtype=torch.long)
    offsets[0, axis - 2] = places[0]
    return Filter(torch.ones(before[1], 1, dtype=torch.float64), offsets, tuple(stride))


def _picked(node: Node, before: tuple[int, ...], spatial: int) -> Filter:
    """Some channels, in any order, as often as they are named."""
    index = node["index"]
    if not isinstance(index, Constant) or index.value.is_meta:
        raise NotRepresentableError("channels that depend on the data")
    return _pointwise(torch.eye(before[1], dtype=torch.float64)[index.value.cpu().long().reshape(-1)], spatial)


def _padded(node: Node, before: tuple[int, ...], after: tuple[int, ...], spatial: int) -> Filter:
    pad = node["pad"]
    assert isinstance(pad, tuple)
    widths = [w for w in pad if isinstance(w, int)]
    if str(node.get("mode", "constant")) != "constant" or any(widths[: 2 * spatial]) or any(widths[2 * spatial + 2 :]):
        raise NotRepresentableError("padding of pixels")
    if len(widths) < 2 * spatial + 2 or min(widths) < 0:
        raise NotRepresentableError("negative padding")
    left = widths[2 * spatial]
    matrix = torch.zeros(after[1], before[1], dtype=torch.float64)
    matrix[left + torch.arange(before[1]), torch.arange(before[1])] = 1.0
    return _pointwise(matrix, spatial)


def _average(node: Node, before: tuple[int, ...], spatial: int) -> Filter:
    kernel, stride, padding, _ = window_geometry(node, spatial)
    if any(padding) and not node.get("count_include_pad", True):
        raise NotRepresentableError("an average that does not count the padding")
    if node.get("ceil_mode"):
        raise NotRepresentableError("an average over windows that end outside")
    divisor = node.get("divisor_override") or math.prod(kernel)
    places = torch.cartesian_prod(*[torch.arange(k) for k in kernel]).reshape(-1, spatial)
    offsets = places - torch.tensor(padding)
    taps = torch.full((before[1], len(places)), 1 / float(divisor), dtype=torch.float64)  # type: ignore[arg-type]
    return Filter(taps, offsets, tuple(stride))


def is_pool(step: Step) -> bool:
    """Whether a step takes the mean over all pixels."""
    if (
        not isinstance(step, Linear)
        or len(step.sources) != 1
        or not is_spatial(step.sources[0])
        or is_spatial(step.output)
    ):
        return False
    node, before = step.node, step.sources[0].shape
    if step.output.size != before[1]:
        return False
    if node.op.startswith("aten.adaptive_avg_pool"):
        return True
    if node.op == "aten.mean.dim":
        axes = node["dim"]
        return isinstance(axes, tuple) and {int(a) % len(before) for a in axes} == set(range(2, len(before)))  # type: ignore[arg-type]
    if node.op.startswith("aten.avg_pool"):
        kernel, _, padding, _ = window_geometry(node, len(before) - 2)
        return tuple(kernel) == before[2:] and not any(padding) and node.get("divisor_override") is None
    return False
