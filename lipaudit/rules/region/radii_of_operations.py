"""How operations pass radii on: entry by entry, or along some of the axes.

Each function bounds the deviation of the outputs from the image of the operands' centres by that of the operands:

- entry by entry: |f(x)_i - f(c)_i| <= k |x_i - c_i|, so that every radius is multiplied by the slope k;
- along the axes M (the rows of a dense layer, the entries under a softmax): every slice over M is mapped by itself with
  the constant k, so that radius(T) is multiplied by k for every T that contains M.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from lipaudit.graph.constant_errors import LARGEST
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect
from lipaudit.rules.operands import number, root, rounded
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Axes, Radii, axes_of, joined
from lipaudit.rules.rule import all_rules, passes, whole
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.convolution.geometry import Convolution

ONE = Bracket.exact(1.0)


def entrywise(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Functions of each entry by itself; the factor of the effect is the supremum of the slope."""
    parts = [(factor, operand.radii) for factor, operand in zip(effect.factors, operands, strict=True)]
    return (joined(node.output.shape, parts),)


passes(SCALE, *(op for op, rule in all_rules().items() if rule.entrywise))(entrywise)


@passes(
    "aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor", "aten.add.Scalar", "aten.sub.Scalar", "aten.rsub.Scalar",
)  # fmt: skip
def sums(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Deviations add."""
    alpha = rounded(abs(number(node, "alpha")))
    names = ("self", "other")
    weights = {"self": alpha, "other": ONE} if node.op.startswith("aten.rsub") else {"self": ONE, "other": alpha}
    factors = [weights[name] for name in names if node.arguments[name] in node.refs]
    return (joined(node.output.shape, zip(factors, (m.radii for m in operands), strict=True)),)


@passes(
    "aten.maximum.default", "aten.minimum.default", "aten.max.other", "aten.min.other", "aten.fmax.default",
    "aten.fmin.default", "aten.clamp.Tensor", "aten.clamp_min.Tensor", "aten.clamp_max.Tensor", "aten.where.self",
    "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.masked_fill.Scalar", "aten.masked_fill.Tensor",
)  # fmt: skip
def picks(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every entry is one of the operands': its deviation is at most the largest of theirs."""
    read = [m.radii for m, factor in zip(operands, effect.factors, strict=True) if factor.log_upper != -math.inf]
    return (joined(node.output.shape, [(ONE, radii) for radii in read], power=2),)


def along(operand: Magnitude, factor: Bracket, mixed: Iterable[int], output: tuple[int, ...]) -> Radii:
    """Radii of an output with the axes of the operand, slices over ``mixed`` being mapped with the constant ``factor``."""
    axes = axes_of(mixed, len(operand.shape))
    wanted = {known | axes for known in operand.radii.logs} | {axes, frozenset(range(len(output)))}
    return Radii.of(output, {tuple(t): factor * operand.spread(t) for t in wanted}).sharpest()


@passes(DENSE, "aten.linear.default")
def dense(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A matrix applied to every row."""
    if len(operands) > 1:
        return whole(node, effect, operands)
    return (along(operands[0], effect.factors[0], (-1,), node.output.shape),)


@passes(CONVOLUTION)
def convolution(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A kernel of a single tap maps the channels of every position, a depthwise one the positions of every channel.

    Position by position out_p = sum_t K_t in_(p + t), so that the channels of one position stray by at most sum_t ||K_t||
    times the largest deviation of one position, and a single entry by at most the largest sum of |weights| of an output
    channel times the largest deviation of an entry.
    """
    payload, (operand,) = node.payload, operands
    d = len(payload.kernel_size)
    if len(operand.shape) != d + 2:
        return whole(node, effect, operands)
    still = operand.shape[2:] == node.output.shape[2:]
    if still and payload.groups == 1 and math.prod(payload.kernel_size) == 1 and set(payload.stride) == {1}:
        mixed: tuple[int, ...] = (1,)
    elif payload.groups == payload.channels[0] == payload.channels[1]:
        mixed = tuple(range(2, 2 + d))
    else:
        mixed = tuple(range(1, 2 + d))
    whole_slices = along(operand, effect.factors[0], mixed, node.output.shape)
    if payload.transposed or payload.weight.is_meta:
        return (whole_slices,)
    entry, position = tap_sums(payload)
    local: dict[Axes, float] = {
        frozenset(): (entry * operand.spread(())).log_upper,
        frozenset({1}): (position * operand.spread((1,))).log_upper,
    }
    return (_merge(whole_slices, local),)


def tap_sums(convolution: Convolution) -> tuple[Bracket, Bracket]:
    """The largest sum of |weights| of an output channel, and sum_t ||K_t|| over the taps t.

    ||K_t||^2 <= min(||K_t||_F^2, ||K_t||_1 ||K_t||_inf); groups are blocks on the diagonal.
    """
    kernel = convolution.kernel.to(torch.float64).abs()
    taps = kernel.reshape(convolution.groups, -1, kernel.shape[1], math.prod(kernel.shape[2:]))  # (g, out, in, taps)
    entry = float(taps.sum((2, 3)).max())
    frobenius = taps.square().sum((1, 2))
    product = taps.sum(1).amax(1) * taps.sum(2).amax(1)
    position = float(torch.minimum(frobenius, product).amax(0).sqrt().sum())
    error = (taps.numel() / convolution.groups + 16) * 2.0**-52 + min(convolution.error, LARGEST)
    # an operator that is off by e in the spectral norm has rows off by e, whose sums are off by sqrt(length) e, and so has every K_t
    off, count = Bracket.at_most(convolution.moved), math.prod(kernel.shape[2:])
    return (
        Bracket.sum([rounded(entry, error), off * root(count * kernel.shape[1])]),
        Bracket.sum([rounded(position, error), off * root(count * count)]),
    )


@passes("aten.softmax.int", "aten._softmax.default", "aten.log_softmax.int", "aten._log_softmax.default")
def along_dim(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every slice along one axis is mapped by itself."""
    return (along(operands[0], effect.factors[0], (int(number(node, "dim")),), node.output.shape),)


@passes("lipaudit.normalization")
def normalization(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every slice over the normalised axes is mapped by itself."""
    return (along(operands[0], effect.factors[0], node.payload.axes, node.output.shape),)


@passes(
    *(f"aten.max_pool{d}d.default" for d in (1, 2, 3)), *(f"aten.adaptive_max_pool{d}d.default" for d in (1, 2, 3)),
    *(f"aten.avg_pool{d}d.default" for d in (1, 2, 3)), *(f"aten.adaptive_avg_pool{d}d.default" for d in (1, 2, 3)),
    *(f"aten._adaptive_avg_pool{d}d.default" for d in (2, 3)),
)  # fmt: skip
def pooling(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Windows of each channel by itself; an average and a maximum stray no further than the entries of the window."""
    (operand,) = operands
    d = int(node.op[node.op.index("pool") + 4])
    rank = len(operand.shape)
    pooled = []
    for output in node.outputs:
        mapped = along(operand, effect.factors[0], range(rank - d, rank), output.shape)
        if node.get("divisor_override") is not None:
            pooled.append(mapped)
            continue
        inner: dict[Axes, float] = {
            t: operand.spread(t).log_upper for t in {Axes(), *operand.radii.logs} if not any(a >= rank - d for a in t)
        }
        # windows that cover an entry twice repeat it: across positions the largest deviation counts, so no position axis
        pooled.append(_merge(mapped, {t: x for t, x in inner.items() if "max" not in node.op or not t}))
    return tuple(pooled)


def _merge(radii: Radii, more: dict[Axes, float]) -> Radii:
    logs = dict(radii.logs)
    for axes, log in more.items():
        if log < logs.get(axes, math.inf):
            logs[axes] = log
    return Radii(radii.shape, logs).sharpest()


def reduced_axes(node: Node, rank: int) -> frozenset[int]:
    """The axes that a reduction sums over, all where it names none."""
    dims = node.get("dim")
    if dims is None or dims == () or rank == 0:
        return frozenset(range(rank))
    return frozenset(int(a) % rank for a in (dims if isinstance(dims, tuple) else (dims,)))  # type: ignore[arg-type]


def reduction(node: Node, operand: Magnitude, whole_slice: Bracket, entry: Bracket | None, spread: bool) -> Radii:
    """Radii after a reduction over axes M.

    A slice over T of the result is at most ``whole_slice`` times the deviation over T and M, and, for a weighted sum
    (``spread``) whose weights add up to ``entry``, at most ``entry`` times the largest deviation over T alone.
    """
    rank = len(operand.shape)
    gone = reduced_axes(node, rank)
    output = node.outputs[0].shape
    kept = [a for a in range(rank) if a not in gone or len(output) == rank]
    place = {a: i for i, a in enumerate(kept)}
    bounds: dict[tuple[int, ...], float | Bracket] = {}
    wanted = {known - gone for known in operand.radii.logs} | {frozenset(), frozenset(range(rank)) - gone}
    for axes in wanted:
        options = [whole_slice * operand.spread(axes | gone)]
        if entry is not None and (spread or not axes):
            options.append(entry * operand.spread(axes))
        bounds[tuple(place[a] for a in axes)] = min(options, key=lambda b: b.log_upper)
    return Radii.of(output, bounds).sharpest()


@passes("aten.mean.default", "aten.mean.dim", "aten.sum.default", "aten.sum.dim_IntList")
def sums_over_axes(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The mean of m slices strays by at most the largest deviation of one, their sum by m times as much."""
    (operand,) = operands
    count = math.prod(operand.shape) // max(1, math.prod(node.outputs[0].shape))
    entry = ONE if ".mean" in node.op else Bracket.exact(float(count))
    return (reduction(node, operand, effect.factors[0], entry, spread=True),)


@passes("aten.amax.default", "aten.amin.default", "aten.linalg_vector_norm.default", "aten.norm.ScalarOpt_dim")
def extremes_and_norms(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """The largest entry of a slice strays by at most its entries do, a norm by at most the slice does."""
    entry = ONE if "norm" not in node.op else None
    return (reduction(node, operands[0], effect.factors[0], entry, spread=False),)
