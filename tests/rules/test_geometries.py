"""Random geometries of pooling, resizing, padding, indexing and broadcasting against the explicit operator."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.rules.effect import Settings, Status
from lipaudit.rules.rule import apply_rule
from tests.nodes import Operation, data, operation, unit_vectors
from tests.strategies import Pooling, Resizing, broadcastable, paddings, poolings, resizings

QUICK = settings(max_examples=40, deadline=None, derandomize=True)
LONG = settings(max_examples=2000, deadline=None)
LINEAR_KERNELS = (
    "upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d", "upsample_bicubic2d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
)  # fmt: skip


def matrix_of(run: Operation, index: int = 0) -> torch.Tensor:
    """The explicit matrix of an operation that is linear (or affine) in its ``index``-th input, column by column."""
    zeros = [torch.zeros(x.shape, dtype=torch.float64) for x in run.inputs]
    base = torch.cat([y.flatten() for y in run.function(*zeros)])
    columns = []
    for e in unit_vectors(run.inputs[index].shape, limit=10**6):
        outputs = run.function(*zeros[:index], e, *zeros[index + 1 :])
        columns.append(torch.cat([y.flatten() for y in outputs]) - base)
    return torch.stack(columns, 1)


def assert_norm(run: Operation, index: int = 0) -> None:
    """The factor lies within a thousandth above sigma_1 of the explicit matrix."""
    effect = apply_rule(run.node, Settings())
    assert effect.status is Status.FINITE
    expected = float(torch.linalg.svdvals(matrix_of(run, index)).max())
    factor = effect.factors[index]
    assert expected * (1 - 1e-10) <= factor.upper <= expected * 1.001 + 1e-300
    assert factor.lower <= expected * (1 + 1e-10)


def check_max_pool(axes: tuple[Pooling, Pooling]) -> None:
    args: list[Any] = [[getattr(a, f) for a in axes] for f in ("kernel", "stride", "padding", "dilation")]
    run = operation("aten.max_pool2d.default", (data(1, 1, *(a.size for a in axes)), *args, axes[0].ceil_mode), {})
    effect = apply_rule(run.node, Settings())
    if not bool(torch.isfinite(run.function(torch.zeros(run.inputs[0].shape))[0]).all()):
        assert effect.status is Status.UNSUPPORTED
        return
    # above a floor of zeros a single one wins exactly the windows that contain it
    count = max(int(run.function(e)[0].sum()) for e in unit_vectors(run.inputs[0].shape, limit=10**6))
    (factor,) = effect.factors
    assert factor.lower <= math.sqrt(count) <= factor.upper <= math.sqrt(count) * (1 + 1e-12)


def check_avg_pool(axes: tuple[Pooling, Pooling], include_pad: bool, divisor: int | None) -> None:
    args: list[Any] = [[getattr(a, f) for a in axes] for f in ("kernel", "stride", "padding")]
    x = data(1, 1, *(a.size for a in axes))
    assert_norm(operation("aten.avg_pool2d.default", (x, *args, axes[0].ceil_mode, include_pad, divisor), {}))


def check_resize(kernel: str, axes: tuple[Resizing, Resizing], corners: bool) -> None:
    x = data(1, 1, *(a.size for a in axes))
    if kernel.endswith("_aa"):
        assume(axes[1].outputs > 1 or axes[0].size == axes[0].outputs)  # torch reads the first row only
    choice = [] if "nearest" in kernel else [corners]
    args = [x, [a.outputs for a in axes], *choice, *(a.scale for a in axes)]
    run = operation(f"aten.{kernel}.default", args, {})
    if "nearest" not in kernel:
        return assert_norm(run)
    # in another precision of the ratio an entry may be copied once more along an axis
    (factor,) = apply_rule(run.node, Settings()).factors
    expected = float(torch.linalg.svdvals(matrix_of(run)).max())
    assert expected * (1 - 1e-10) <= factor.upper <= expected * 2 * (1 + 1e-10)
    assert factor.lower <= expected * (1 + 1e-10)
    return None


MAX_POOLS = st.tuples(poolings(), poolings())
AVG_POOLS = st.tuples(poolings(dilated=False), poolings(dilated=False))
DIVISORS = st.sampled_from([None, 1, 3, -5])
RESIZES = st.tuples(resizings(), resizings())


@given(MAX_POOLS)
@QUICK
def test_max_pool(axes: tuple[Pooling, Pooling]) -> None:
    check_max_pool(axes)


@given(AVG_POOLS, st.booleans(), DIVISORS)
@QUICK
def test_avg_pool(axes: tuple[Pooling, Pooling], include_pad: bool, divisor: int | None) -> None:
    check_avg_pool(axes, include_pad, divisor)


@pytest.mark.parametrize("kernel", LINEAR_KERNELS)
@given(RESIZES, st.booleans())
@QUICK
def test_resize(kernel: str, axes: tuple[Resizing, Resizing], corners: bool) -> None:
    check_resize(kernel, axes, corners)


@given(st.integers(1, 12), st.integers(1, 12))
@QUICK
def test_adaptive_pooling(size: int, outputs: int) -> None:
    assert_norm(operation("aten.adaptive_avg_pool2d.default", (data(1, 1, size, 2), [outputs, 1]), {}))
    run = operation("aten.adaptive_max_pool1d.default", (data(1, 1, size), [outputs]), {})
    count = max(int(run.function(e)[0].sum()) for e in unit_vectors((1, 1, size)))
    (factor,) = apply_rule(run.node, Settings()).factors
    assert factor.lower <= math.sqrt(count) <= factor.upper <= math.sqrt(count) * (1 + 1e-12)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@given(st.data())
@QUICK
def test_pad(mode: str, draw: st.DataObject) -> None:
    (height, vertical), (width, horizontal) = draw.draw(paddings(mode)), draw.draw(paddings(mode))
    x = data(1, 1, height, width)
    assert_norm(operation("aten.pad.default", (x, [*horizontal, *vertical], mode), {}))


@given(st.integers(1, 8), st.lists(st.integers(0, 7), min_size=1, max_size=9))
@QUICK
def test_constant_indices(size: int, picks: list[int]) -> None:
    index = torch.tensor([p % size for p in picks])
    x = data(1, size, 3)
    assert_norm(operation("aten.index_select.default", (x, 1, index), {}))
    assert_norm(operation("aten.index.Tensor", (x, [None, index]), {}))
    assert_norm(operation("aten.gather.default", (x, 1, index.reshape(1, -1, 1)), {}))


@pytest.mark.parametrize("name", ["add", "mul", "div"])
@given(broadcastable(), st.integers(0, 2**20))
@QUICK
def test_broadcasting_with_a_constant(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    constant = torch.rand(shapes[1], generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1
    assert_norm(operation(f"aten.{name}.Tensor", (data(*shapes[0]), constant), {}))


@given(broadcastable(), st.integers(0, 2**20))
@QUICK
def test_where_with_broadcasting(shapes: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    output = torch.broadcast_shapes(*shapes)
    condition = torch.rand(output, generator=torch.Generator().manual_seed(seed)) > 0.5
    run = operation("aten.where.self", (condition, data(*shapes[0]), data(*shapes[1])), {})
    for index in (0, 1):
        expected = float(torch.linalg.svdvals(matrix_of(run, index)).max())
        factor = apply_rule(run.node, Settings()).factors[index]
        assert expected * (1 - 1e-12) <= factor.upper <= expected * (1 + 1e-12) + 1e-300


@pytest.mark.long
@given(MAX_POOLS, AVG_POOLS, st.booleans(), DIVISORS)
@LONG
def test_many_poolings(
    maxima: tuple[Pooling, Pooling], means: tuple[Pooling, Pooling], include_pad: bool, divisor: int | None
) -> None:
    check_max_pool(maxima)
    check_avg_pool(means, include_pad, divisor)


@pytest.mark.long
@given(st.sampled_from(LINEAR_KERNELS), RESIZES, st.booleans())
@LONG
def test_many_resizes(kernel: str, axes: tuple[Resizing, Resizing], corners: bool) -> None:
    check_resize(kernel, axes, corners)
