"""Every movement rule on all sets of axes, against brute force.

An operation that moves, drops, repeats or joins entries is known entirely by where the element numbers 1 ... n go. From
them follow, exactly, its constant, sqrt(largest number of copies), and how far slices of its output may stray: if the
slices over S of the operand have norms of at most 1, the largest squared norm of a slice over T of the output is

    max over the slices over T of  sum over the slices over S of  max over the entries e of copies of e in the slice,

the value of a linear program whose constraints do not meet. Every set of axes is tried for S and for T, and every value
of the axis arguments.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.rules.effect import Effect, Settings, Status
from lipaudit.rules.region.magnitude import Interval, Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import all_rules, apply_rule, radii_of
from tests.nodes import Data, Operation, data, operation

# op, arguments, named arguments
Call = tuple[str, tuple[Any, ...], dict[str, Any]]
X = data(2, 3, 4)
SQUARE = data(2, 3, 3)
AXES = range(-3, 3)
F64 = torch.float64
# What these families hold is movement, but for the larger or smaller of several tensors, their order and functions on sectors of a plane,
# which depend on the data.
FAMILIES = {"views", "permutations", "selection", "repetition", "concatenation", "choices"}
NO_MOVEMENT = {"extremum", "ordered_pairs", "sector_pairs"}


def subsets(rank: int) -> list[tuple[int, ...]]:
    return [axes for n in range(rank + 1) for axes in itertools.combinations(range(rank), n)]


def long(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def calls() -> Iterator[Call]:
    for op, argument in itertools.chain(views(), permutations(), parts(), copies(), joins()):
        *positional, named = argument if argument and isinstance(argument[-1], dict) else (*argument, {})
        yield (op if "." in op or op == "getitem" else f"aten.{op}.default"), tuple(positional), named


def views() -> Iterator[tuple[str, tuple[Any, ...]]]:
    shapes = [[24], [2, 12], [6, 4], [2, 3, 2, 2], [4, 6], [1, 2, 1, 12], [3, 2, 4], [8, 3], [2, 2, 3, 2], [2, 3, 4, 1]]
    for before in (X, data(24), data(1, 4, 6), data(6, 1, 4), data(2, 2, 3, 2), data(4, 2, 1, 3)):
        yield from (("view", (before, shape)) for shape in shapes)
    for name in ("_unsafe_view", "view_copy", "reshape"):
        yield from ((name, (X, shape)) for shape in shapes)
    yield from (("_reshape_alias", (X, shape, list(torch.empty(shape).stride()))) for shape in shapes)
    for name in ("view_as", "reshape_as"):
        yield from ((name, (X, torch.zeros(shape))) for shape in shapes)
    for name in (
        "ravel",
        "contiguous",
        "clone",
        "alias",
        "detach",
        "detach_",
        "lift_fresh",
        "lift_fresh_copy",
        "atleast_1d",
    ):
        yield name, (X,)
    yield "atleast_1d", (data(),)
    for start, end in itertools.product(AXES, AXES):
        if start % 3 <= end % 3:
            yield "aten.flatten.using_ints", (X, start, end)
    for axis in AXES:
        for size in ([2, -1], [-1, 1], [1, -1]):
            if X.shape[axis] % abs(math.prod(size)) == 0:
                yield "aten.unflatten.int", (X, axis, size)
    for shape in ((1, 3, 1), (1, 1, 4), (2, 1, 3), (1, 1, 1)):
        yield "squeeze", (data(*shape),)
        yield from (("aten.squeeze.dim", (data(*shape), axis)) for axis in AXES)
        yield from (("aten.squeeze.dims", (data(*shape), list(axes))) for axes in subsets(3))
    yield from (("unsqueeze", (X, axis)) for axis in range(-4, 4))
    for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"):
        yield name, (X, 0.5, False)
    for name, arguments in (
        ("aten.to.dtype", (F64,)), ("aten.to.dtype_layout", ({"dtype": F64},)), ("aten.to.device", ("cpu", F64)),
        ("aten.to.other", (torch.zeros(1, dtype=F64),)), ("_to_copy", ()), ("type_as", (torch.zeros(1, dtype=F64),)),
        ("zeros_like", ()), ("ones_like", ()), ("full_like", (2.0,)), ("aten.fill.Scalar", (2.0,)),
        ("new_zeros", ([3],)), ("new_ones", ([3],)), ("new_full", ([3], 2.0)),
    ):  # fmt: skip
        yield name, (X, *arguments)


def permutations() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for order in itertools.permutations(range(3)):
        yield "permute", (X, list(order))
        yield "permute", (X, [axis - 3 for axis in order])
    for name in ("aten.transpose.int", "swapaxes", "swapdims"):
        yield from ((name, (X, *axes)) for axes in itertools.product(AXES, AXES))
    for name in ("t", "numpy_T", "mT"):
        yield name, (data(2, 3),)
    for name in ("numpy_T", "mT"):
        yield name, (X,)
    yield "t", (data(3),)
    for name in ("movedim", "moveaxis"):
        yield from ((f"aten.{name}.int", (X, *axes)) for axes in itertools.product(AXES, AXES))
        for count in (2, 3):
            pairs = itertools.product(itertools.permutations(range(3), count), repeat=2)
            yield from ((f"aten.{name}.intlist", (X, list(a), [b - 3 for b in target])) for a, target in pairs)
    yield from (("flip", (X, list(axes))) for axes in subsets(3))
    for name in ("fliplr", "flipud"):
        yield name, (X,)
    for plane, k in itertools.product(itertools.permutations(AXES, 2), range(-1, 4)):
        if plane[0] % 3 != plane[1] % 3:
            yield "rot90", (X, k, list(plane))
    yield from (("roll", (X, [shift])) for shift in (-7, -1, 0, 1, 4, 12, 24))
    for axes in subsets(3)[1:]:
        for shifts in itertools.product((-1, 1, 2), repeat=len(axes)):
            yield "roll", (X, list(shifts), list(axes))
            yield "roll", (X, list(shifts), [axis - 3 for axis in axes])
    for name in ("fft_fftshift", "fft_ifftshift"):
        yield name, (X,)
        yield from ((name, (X, list(axes))) for axes in subsets(3)[1:])
    for shape in ((1, 8, 1, 2), (2, 4, 2, 1)):
        yield "pixel_shuffle", (data(*shape), 2)
    yield "pixel_shuffle", (data(4, 2, 1), 2)
    for shape in ((1, 1, 2, 4), (2, 3, 2, 2), (2, 4, 2)):
        yield "pixel_unshuffle", (data(*shape), 2)
    for name, groups in itertools.product(("channel_shuffle", "native_channel_shuffle"), (1, 2, 3)):
        yield name, (data(1, 6, 2, 2), groups)


def parts() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for axis in AXES:
        size = X.shape[axis]
        sizes = [1, size - 1]
        yield "aten.unbind.int", (X, axis)
        for name in ("aten.split.sizes", "split_with_sizes", "unsafe_split_with_sizes"):
            yield name, (X, sizes, axis)
        for name in (
            "aten.split.Tensor", "aten.unsafe_split.Tensor", "chunk", "unsafe_chunk", "aten.tensor_split.sections",
        ):  # fmt: skip
            yield name, (X, 2, axis)
        yield "aten.tensor_split.indices", (X, [1], axis)
        yield from (("aten.slice.Tensor", (X, axis, *limits)) for limits in ((1, None), (0, -1), (0, 9, 2)))
        yield from (("aten.select.int", (X, axis, index)) for index in (0, -1))
        yield "narrow", (X, axis, 1, size - 1)
    for name, axes in itertools.product(("diagonal", "diag_embed"), itertools.permutations(AXES, 2)):
        if axes[0] % 3 != axes[1] % 3 and (name == "diagonal" or min(axes) % 3 != max(axes) % 3):
            yield from ((name, (X if name == "diagonal" else data(2, 3), k, *axes)) for k in (-1, 0, 1))
    for name, k in itertools.product(("tril", "triu"), (-2, -1, 0, 1, 2)):
        yield name, (X, k)
        yield name, (data(3, 4), k)
    for pads in ([1, 2], [0, 1, 2, 0], [-1, 1, 0, 1], [1, 0, 0, 1, 1, 1], [0, -1, 0, 0, -1, 0]):
        yield "constant_pad_nd", (X, pads)
        yield "pad", (X, pads)
    yield "getitem", ({"self": X, "index": 0},)


def copies() -> Iterator[tuple[str, tuple[Any, ...]]]:
    for axes in subsets(3):
        shape = [1 if a in axes else n for a, n in enumerate((2, 3, 4))]
        for target in ([2, 3, 4], [5, 2, 3, 4]):
            yield "expand", (data(*shape), target)
            yield "broadcast_to", (data(*shape), target)
            yield "expand_as", (data(*shape), torch.zeros(target))
        repeats = [2 if a in axes else 1 for a in range(3)]
        yield "repeat", (data(2, 1, 3), repeats)
        yield "repeat", (data(2, 3), repeats)
        yield "tile", (data(2, 1, 3), repeats[1:])
    yield "aten.repeat_interleave.self_int", (data(2, 3), 2)
    yield "aten.repeat_interleave.self_Tensor", (data(3), long(1, 0, 3))
    for axis in AXES:
        size = X.shape[axis]
        yield "aten.repeat_interleave.self_int", (X, 2, axis)
        yield "aten.repeat_interleave.self_Tensor", (X, torch.arange(size), axis)
        yield "unfold", (X, axis, 2, 1)
        yield "index_select", (X, axis, torch.zeros(3, dtype=torch.int64))
        yield "index_select", (X, axis, torch.arange(size).flip(0))
        for picks in (1, 3):
            index = torch.zeros([picks if a == axis % 3 else n for a, n in enumerate(X.shape)], dtype=torch.int64)
            yield "gather", (X, axis, index)
            yield "take_along_dim", (X, index, axis)
    yield "take_along_dim", (X, long(0, 0, 7))
    for kind, amounts in itertools.product(("reflection", "replication"), ((1, 1), (0, 1), (1, 0))):
        for d in (1, 2, 3):
            shape = (2, 3, 2, 2)[: d + 1] if d < 3 else (1, 2, 2, 2)
            yield f"{kind}_pad{d}d", (data(*shape), [*amounts] * d)
            yield "pad", (data(*shape), [*amounts] * d, "reflect" if kind == "reflection" else "replicate")
    yield "pad", (X, [1, 2], "circular")
    yield "pad", (data(1, 2, 2, 3), [1, 0, 0, 1], "circular")
    for d, size in itertools.product((1, 2, 3), (2, 3, 5)):
        yield f"upsample_nearest{d}d", (data(1, 2, *(2, 3, 1)[:d]), [size, 4, 2][:d])
    for stride, padding in itertools.product((1, 2), (0, 1)):
        yield "im2col", (data(1, 2, 3, 2), [2, 2], [1, 1], [padding, padding], [stride, 1])
    for mask in (torch.ones(2, 3).tril() > 0, long(1, 0) > 0):
        yield "aten.index.Tensor", (X, [mask])
    for places in subsets(3)[1:]:
        picks = [long(0, 1, 1) if a in places else None for a in range(3)]
        yield "aten.index.Tensor", (X, picks)
        yield "aten.index.Tensor", (X, [None if p is None else p[:, None].expand(3, 2) for p in picks])


def joins() -> Iterator[tuple[str, tuple[Any, ...]]]:
    constant = torch.zeros(2, 3, 4, dtype=F64)
    for axis in AXES:
        for name in ("cat", "concat", "concatenate"):
            yield name, ([X, X], axis)
        other = data(*(1 if a == axis % 3 else n for a, n in enumerate(X.shape)))
        yield "cat", ([other, X, constant], axis)
        yield "slice_scatter", (X, other, axis, 1, 2)
        yield "slice_scatter", (constant, X, axis)
        yield "select_scatter", (X, data(*(n for a, n in enumerate(X.shape) if a != axis % 3)), axis, -1)
        index = torch.ones([1 if a == axis % 3 else n for a, n in enumerate(X.shape)], dtype=torch.int64)
        yield "aten.scatter.src", (X, axis, index, other)
        yield "aten.scatter.value", (X, axis, index, 2.0)
    yield from (("stack", ([X, X, X], axis)) for axis in range(-4, 4))
    yield "stack", ([X, constant], 1)
    yield from ((name, ([X, X],)) for name in ("hstack", "vstack"))
    for axes in itertools.permutations(range(3), 2):
        diagonal = torch.zeros(2, 3, 4).diagonal(0, *axes)
        yield "diagonal_scatter", (X, data(*diagonal.shape), 0, *axes)
    for shape in ((4,), (3, 1), (2, 1, 1), (2, 3, 4)):
        yield "copy", (X, data(*shape))
    yield "index_put", (X, [None, long(0, 2)], data(2, 2, 4))
    yield "index_put", (X, [long(0, 1), long(0, 2)], data(1, 4))
    yield "masked_scatter", (data(2, 3), torch.ones(2, 3).tril() > 0, data(3))
    mask = torch.ones(2, 3, 4).tril() > 0
    for axes in subsets(3):
        thin = data(*(1 if a in axes else n for a, n in enumerate(X.shape)))
        yield "aten.where.self", (mask, thin, X)
        yield "aten.where.self", (mask, constant, thin)
        yield "aten.where.ScalarOther", (mask, thin, 2.0)
        yield "aten.where.ScalarSelf", (mask, 2.0, thin)
        yield "aten.masked_fill.Scalar", (thin, mask, 2.0)
    yield "aten.masked_fill.Tensor", (X, mask, data())


CALLS = list(calls())
# Operations without element numbers to follow: sums, statistics of a mask, memory that is not set.
ELSEWHERE = {"aten.col2im.default", "aten.native_dropout.default", "aten.empty_like.default", "aten.new_empty.default"}


def test_every_movement_rule_is_tried() -> None:
    rules = {op for op, rule in all_rules().items() if rule.family in FAMILIES and rule.name not in NO_MOVEMENT}
    assert {all_rules()[op].family for op in rules} == FAMILIES
    missing = sorted(rules - {op for op, _, _ in CALLS} - ELSEWHERE)
    assert not missing, f"movement rules that are not tried on all sets of axes (add them to `calls`): {missing}"
    assert len(CALLS) > 800


@pytest.mark.parametrize("op", sorted({op for op, _, _ in CALLS}))
def test_movement(op: str) -> None:
    for name, args, kwargs in CALLS:
        if name == op:
            built = operation(op, args, kwargs, (lambda x: x) if op == "getitem" else None)
            check(built, f"{op}{args}{kwargs}")


def check(built: Operation, label: str) -> None:
    effect = apply_rule(built.node, Settings())
    assert effect.status is Status.FINITE, (label, effect.reason)
    numbers = [n.to(torch.int64) for n in images(built)]
    check_constants(built, effect, numbers, label)
    for known in subsets(max((len(x.shape) for x in built.inputs), default=0)):
        operands = tuple(unit_slices(x, known) for x in built.inputs)
        for radii, image in zip(radii_of(built.node, effect, operands), numbers, strict=True):
            assert radii.shape == tuple(image.shape), label
            for axes in subsets(image.dim()):
                found = radii.over(axes)
                true = largest_slice(image, axes, built.inputs, known)
                assert true <= found.upper**2 * (1 + 1e-9), (label, known, axes, math.sqrt(true), found.upper)


def images(built: Operation) -> list[torch.Tensor]:
    """Where the element numbers of all operands go; what is filled in is none of them."""
    offset, tensors = 1, []
    for x in built.inputs:
        tensors.append(torch.arange(offset, offset + math.prod(x.shape), dtype=F64).reshape(x.shape))
        offset += math.prod(x.shape)
    moved, shifted = (built.function(*(t + k for t in tensors)) for k in (0, 1000))
    return [torch.where(a == b, 0.0, a) for a, b in zip(moved, shifted, strict=True)]


def check_constants(built: Operation, effect: Effect, images: list[torch.Tensor], label: str) -> None:
    """The factor of each operand is the root of the largest number of copies of one of its elements."""
    total = sum(math.prod(x.shape) for x in built.inputs)
    counts = torch.bincount(torch.cat([i.flatten() for i in images]), minlength=total + 1)[1:]
    for factor, part in zip(effect.factors, counts.split([math.prod(x.shape) for x in built.inputs]), strict=True):
        true = math.sqrt(int(part.max()))
        assert true * (1 - 1e-12) <= factor.upper, (label, true, factor)
        assert factor.upper <= true * (1 + 1e-9) + 1e-300 or not all_rules()[built.node.op].exact, (label, true, factor)
        assert factor.lower <= true * (1 + 1e-12)


def unit_slices(x: Data, known: tuple[int, ...]) -> Magnitude:
    radii = Radii.of(x.shape, {tuple(a for a in known if a < len(x.shape)): 1.0})
    return Magnitude(radii, Interval(), lambda: None)


def largest_slice(
    image: torch.Tensor, axes: tuple[int, ...], inputs: tuple[Data, ...], known: tuple[int, ...]
) -> float:
    """The largest squared norm of a slice over ``axes``, the operands' slices over ``known`` having norms of at most 1."""
    if image.numel() == 0:
        return 0.0
    others = [a for a in range(image.dim()) if a not in axes]
    slices = image.permute([*others, *axes]).reshape(math.prod(image.shape[a] for a in others), -1)
    total = sum(math.prod(x.shape) for x in inputs)
    copies = torch.zeros(len(slices), total + 1, dtype=torch.int64).scatter_add_(1, slices, torch.ones_like(slices))
    best = torch.zeros(len(slices), dtype=torch.int64)
    for part, x in zip(copies[:, 1:].split([math.prod(x.shape) for x in inputs], 1), inputs, strict=True):
        spanned = [a + 1 for a in known if a < len(x.shape)]
        counts = part.reshape(-1, *x.shape)
        best += (counts.amax(spanned) if spanned else counts).reshape(len(slices), -1).sum(1)
    return float(best.max())
