"""ONNX Resize and Upsample: one linear map per axis, by torch's interpolation where that is the same map.

Output pixel i of an axis of n entries and scale s reads the input at x(i):
half_pixel (i + 1/2)/s - 1/2; pytorch_half_pixel the same, 0 for a single output; align_corners i (n - 1)/(m - 1);
asymmetric i/s; half_pixel_symmetric adds the centring n/2 (1 - m/(s n)).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lipaudit.frontends.onnx.operators import Apply, NodeView, converter, first_operand

Array: TypeAlias = np.ndarray[Any, Any]
_TORCH_MODES = {
    ("linear", 1): "linear",
    ("linear", 2): "bilinear",
    ("linear", 3): "trilinear",
    ("cubic", 2): "bicubic",
}


@converter("Resize", "Upsample")
def resize(node: NodeView) -> nn.Module:
    """Resize by nearest, linear or cubic interpolation with every coordinate rule that is linear in the input."""
    shape = node.shape()
    sizes, scales = _sizes_and_scales(node, shape)
    changed = [a for a in range(len(shape)) if sizes[a] != shape[a] or scales[a] != 1.0]
    if not changed:
        return first_operand(node, lambda x: x.clone())
    mode = node.attr("mode", "nearest")
    if node.attr("antialias", 0):
        node.fail("antialiasing is not supported")
    old = node.op == "Upsample" or node.opset < 11
    rule = node.attr("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    rounding = node.attr("nearest_mode", "floor" if old else "round_prefer_floor")
    positions = {a: _coordinates(node, rule, shape[a], sizes[a], scales[a]) for a in changed}
    if mode == "nearest":
        indices = {a: _round(node, x, rounding, shape[a]) for a, x in positions.items()}
        return _nearest(node, indices, shape, sizes)
    if mode not in ("linear", "cubic"):
        node.fail(f"the mode {mode!r} is not supported")
    cubic = float(node.attr("cubic_coeff_a", -0.75))
    exclude = bool(node.attr("exclude_outside", 0))
    matrices = {a: _matrix(x, shape[a], mode, cubic, exclude) for a, x in positions.items()}
    return _linear(node, matrices, mode, shape, sizes)


def _sizes_and_scales(node: NodeView, shape: tuple[int, ...]) -> tuple[list[int], list[float]]:
    rank = len(shape)
    axes = [node.place(a) for a in node.attr("axes", list(range(rank)))]
    given: list[float] | None = None
    wanted: list[int] | None = None
    if node.op == "Upsample" or node.opset < 11:
        given = [float(s) for s in (node.constant(1).reshape(-1) if node.has(1) else node.attr("scales"))]
    elif node.has(3) and node.constant(3).size:
        wanted = [int(s) for s in node.constant(3)]
    elif node.has(2) and node.constant(2).size:
        given = [float(s) for s in node.constant(2)]
    else:
        node.fail("it has neither scales nor sizes")
    if wanted is not None:
        wanted, given = _keep_aspect_ratio(node, [shape[a] for a in axes], wanted)
    sizes, scales = list(shape), [1.0] * rank
    for i, axis in enumerate(axes):
        if wanted is not None:
            sizes[axis], scales[axis] = wanted[i], wanted[i] / shape[axis] if given is None else given[i]
        elif given is not None:
            sizes[axis], scales[axis] = int(np.floor(np.float32(shape[axis]) * np.float32(given[i]))), given[i]
    return sizes, scales


def _keep_aspect_ratio(node: NodeView, old: list[int], wanted: list[int]) -> tuple[list[int], list[float] | None]:
    """The sizes, and the common scale where a policy keeps the aspect ratio: the smallest or the largest of the scales."""
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return wanted, None
    if policy not in ("not_larger", "not_smaller"):
        node.fail(f"the aspect-ratio policy {policy!r} is not supported")
    scale = (min if policy == "not_larger" else max)(w / n for w, n in zip(wanted, old, strict=True))
    return [int(np.floor(scale * n + 0.5)) for n in old], [scale] * len(old)


def _coordinates(node: NodeView, rule: str, n: int, m: int, scale: float) -> Array:
    i = np.arange(m, dtype=np.float64)
    if rule == "half_pixel" or (rule == "pytorch_half_pixel" and m > 1):
        return (i + 0.5) / scale - 0.5
    if rule == "pytorch_half_pixel":
        return np.zeros(1)
    if rule == "align_corners":
        return i * (n - 1) / (m - 1) if m > 1 else np.zeros(1)
    if rule == "asymmetric":
        return i / scale
    if rule != "half_pixel_symmetric":
        node.fail(f"the coordinate rule {rule!r} is not supported")
    return n / 2 * (1 - m / (scale * n)) + (i + 0.5) / scale - 0.5


def _round(node: NodeView, x: Array, rounding: str, n: int) -> Array:
    functions: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda v: np.ceil(v - 0.5),
        "round_prefer_ceil": lambda v: np.floor(v + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    if rounding not in functions:
        node.fail(f"the nearest_mode {rounding!r} is not supported")
    return np.clip(functions[rounding](x), 0, n - 1).astype(np.int64)


def _nearest(node: NodeView, indices: dict[int, Array], shape: tuple[int, ...], sizes: list[int]) -> nn.Module:
    """By torch's nearest or nearest-exact where all indices agree, else by selecting entries axis by axis."""
    rank = len(shape) - 2
    if rank in (1, 2, 3) and min(indices) >= 2:
        for mode in ("nearest", "nearest-exact"):
            if all(
                np.array_equal(_torch_indices(shape[a], sizes[a], mode), expected) for a, expected in indices.items()
            ):
                return first_operand(node, partial(functional.interpolate, size=tuple(sizes[2:]), mode=mode))
    axes = list(indices)

    def select(x: torch.Tensor, *chosen: torch.Tensor) -> torch.Tensor:
        for axis, index in zip(axes, chosen, strict=True):
            x = x.index_select(axis, index)
        return x

    return first_operand(node, select, *map(torch.from_numpy, indices.values()))


def _torch_indices(n: int, m: int, mode: str) -> Array:
    numbers = torch.arange(n, dtype=torch.float64).reshape(1, 1, n)
    return functional.interpolate(numbers, size=m, mode=mode).reshape(-1).numpy().astype(np.int64)


def _matrix(x: Array, n: int, mode: str, a: float, exclude: bool) -> Array:
    """Rows of interpolation weights (m, n): two taps, or four of the cubic convolution kernel with coefficient a."""
    base = np.floor(x).astype(np.int64)
    matrix = np.zeros((x.size, n))
    for tap in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
        distance = np.abs(x - (base + tap))
        weight = 1 - distance if mode == "linear" else _cubic(distance, a)
        if exclude:
            weight = np.where((base + tap < 0) | (base + tap >= n), 0.0, weight)
        np.add.at(matrix, (np.arange(x.size), np.clip(base + tap, 0, n - 1)), weight)
    return matrix / matrix.sum(axis=1, keepdims=True) if exclude else matrix


def _cubic(t: Array, a: float) -> Array:
    near = (a + 2) * t**3 - (a + 3) * t**2 + 1
    far = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def _linear(
    node: NodeView, matrices: dict[int, Array], mode: str, shape: tuple[int, ...], sizes: list[int]
) -> nn.Module:
    rank = len(shape) - 2
    if (mode, rank) in _TORCH_MODES and min(matrices) >= 2:
        for align in (False, True):
            ours = {a: _torch_matrix(shape[a], sizes[a], mode, align) for a in matrices}
            if all(np.allclose(ours[a], matrices[a], rtol=0, atol=1e-9) for a in matrices):
                target, torch_mode = tuple(sizes[2:]), _TORCH_MODES[mode, rank]
                interpolate = partial(functional.interpolate, size=target, mode=torch_mode, align_corners=align)
                return first_operand(node, interpolate)
    example = node.value(0).example
    dtype = example.dtype if example is not None else torch.float32
    axes = list(matrices)

    def multiply(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        for axis, weight in zip(axes, weights, strict=True):
            x = functional.linear(x.movedim(axis, -1), weight).movedim(-1, axis)
        return x

    return Apply(multiply, [None, *(torch.from_numpy(m).to(dtype) for m in matrices.values())])


def _torch_matrix(n: int, m: int, mode: str, align: bool) -> Array:
    """What torch's interpolation does along one axis, as a matrix (m, n)."""
    identity = torch.eye(n, dtype=torch.float64).reshape(1, n, n, 1)
    torch_mode = "bilinear" if mode == "linear" else "bicubic"
    result = functional.interpolate(identity, size=(m, 1), mode=torch_mode, align_corners=align)
    return result.reshape(n, m).t().numpy()
