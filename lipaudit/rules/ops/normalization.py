"""Normalisation layers: stored statistics make a scale per channel, the others divide by a data-dependent size.

For y = gamma (x - mean) / s with s = sqrt(var + eps) over D entries the Jacobian is diag(gamma) (P - z z^T / D) / s,
where P removes the mean and z is the normalised row. Its norm is at most max|gamma| / s <= max|gamma| / sqrt(eps),
approached where the row is constant. For RMS norm P is the identity and s = sqrt(mean(x^2) + eps): max|gamma| /
sqrt(eps), attained at 0.

l2 normalisation x / max(||x||, eps) is x / eps inside the ball and a radial projection with the factor 1 / ||x|| outside.
x / (||x|| + eps) has the Jacobian (I - x x^T / (||x|| (||x|| + eps))) / (||x|| + eps). Both have the constant 1 / eps,
approached at 0.

Where a row stays within r of a centre c, ||P x|| >= ||P c|| - r, and s >= sqrt((||P c|| - r)^2 / D + eps): rows that cannot become
constant are stretched by much less than 1 / sqrt(eps).
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from lipaudit.graph.node import Node
from lipaudit.graph.passes.normalization import NORMALIZATION, Normalization
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.movement import Move, Movement, Neighbourhood
from lipaudit.rules.operands import constant, data, inverse_root, is_finite, largest, number, root, rounded, stretch
from lipaudit.rules.region.axes import along
from lipaudit.rules.region.magnitude import Magnitude, Region
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.interval import Interval


@operations(
    "aten.batch_norm.default",
    "aten.native_batch_norm.default",
    "aten.cudnn_batch_norm.default",
    "aten._native_batch_norm_legit.default",
    "aten._native_batch_norm_legit_no_training.default",
    "aten._batch_norm_no_update.default",
).constant(
    formula="max |weight / sqrt(running_var + eps)|", source="a diagonal map; its norm is its largest entry", exact=True
)
def batch_norm(node: Node, _settings: Settings) -> Effect:
    """Batch norm with running statistics; the statistics that some spellings return beside the output are constants."""
    if node.get("training", False):
        return Effect.unsupported(
            "batch norm in training mode uses the batch's statistics; audit the network in eval mode"
        )
    return _stored_statistics(node)


def _stored_statistics(node: Node) -> Effect:
    weight, variance = constant(node, "weight"), constant(node, "running_var")
    if variance is None:
        return Effect.unsupported("batch norm without constant running statistics; audit the network in eval mode")
    epsilon = number(node, "eps" if "eps" in node.arguments else "epsilon")
    shifted = variance + epsilon
    if not is_finite(shifted) or bool((shifted <= 0).any()) or (weight is not None and not is_finite(weight)):
        return Effect.unsupported("the variance of batch norm is not positive or its weight is not finite")
    scale = (torch.ones_like(variance) if weight is None else weight) / shifted.sqrt()
    return stretch(node, {"input": rounded(largest(scale))})


@operations("aten.layer_norm.default", "aten.native_layer_norm.default").constant(
    formula="max|weight| / sqrt(eps)", source="J = diag(weight) (P - z z^T / D) / s with s >= sqrt(eps)"
)
def layer_norm(node: Node, _settings: Settings) -> Effect:
    """Layer norm over the last axes, D entries each."""
    axes = node["normalized_shape"]
    row = math.prod(axes) if isinstance(axes, tuple) else 1  # type: ignore[arg-type]
    return _centred(node, row, constant(node, "weight"))


@operations("aten.group_norm.default", "aten.native_group_norm.default").constant(
    formula="max|weight| / sqrt(eps)", source="J = diag(weight) (P - z z^T / D) / s with s >= sqrt(eps)"
)
def group_norm(node: Node, _settings: Settings) -> Effect:
    """Layer norm over each group of channels and all positions; the weight has one entry per channel."""
    groups = int(number(node, "num_groups" if "num_groups" in node.arguments else "group"))
    shape = data(node, "input").shape
    return _centred(node, math.prod(shape) // (shape[0] * groups), constant(node, "weight"))


@operations("aten.instance_norm.default").constant(
    formula="max|weight| / sqrt(eps)", source="J = diag(weight) (P - z z^T / D) / s with s >= sqrt(eps)"
)
def instance_norm(node: Node, _settings: Settings) -> Effect:
    """Layer norm over the positions of each channel, or batch norm where running statistics are in use."""
    if not node["use_input_stats"]:
        return _stored_statistics(node)
    return _centred(node, math.prod(data(node, "input").shape[2:]), constant(node, "weight"))


@operations("aten.rms_norm.default", "aten._fused_rms_norm.default").constant(
    formula="max|weight| / sqrt(eps)", source="J = diag(weight) (I - z z^T / D) / s with s >= sqrt(eps)"
)
def rms_norm(node: Node, _settings: Settings) -> Effect:
    """x / sqrt(mean(x^2) + eps) weight over the last axes; eps is the resolution of the dtype unless given."""
    axes = node["normalized_shape"]
    row = math.prod(axes) if isinstance(axes, tuple) else 1  # type: ignore[arg-type]
    if node["eps"] is None:
        dtype = data(node, "input").dtype
        epsilon = torch.finfo(torch.float64 if dtype is torch.float64 else torch.float32).eps
    else:
        epsilon = number(node, "eps")
    return _divided(node, constant(node, "weight"), epsilon, row, outputs=("rstd",))


ROWS = operations(NORMALIZATION)


@ROWS.constant(
    formula="1/sqrt(eps) for z / sqrt(mean(z^2) + eps), 1/eps for z / max(|z|, eps) and z / (|z| + eps)",
    source="J = (P - z z^T / D) / s with s >= sqrt(eps), and |z| is at least that of the centre less the radius around it",
    exact=True,
    where_bounded=True,
)
def normalization(node: Node, _settings: Settings) -> Effect:
    """A normalisation of rows without weights, as the graph's recognition leaves it; 0 for centred rows of one entry."""
    payload: Normalization = node.payload
    shape = data(node, "input").shape
    if not payload.epsilon > 0:
        return Effect.unbounded("a normalisation without a positive eps has no finite constant: set eps > 0")
    if payload.centred and math.prod(shape[axis] for axis in payload.axes) == 1:
        return stretch(node, {"input": 0.0})
    everywhere = inverse_root(payload.epsilon) if payload.form == "root" else rounded(1 / payload.epsilon)

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        away = _away_from_zero(payload, operands[0])
        return Effect.stretch(away if away.log_upper < everywhere.log_upper else everywhere)

    return replace(stretch(node, {"input": everywhere}), given=given)


def _away_from_zero(payload: Normalization, operand: Magnitude) -> Bracket:
    """1 / s for the least size s that a row can have; no upper end where nothing is known of it."""
    radius = operand.spread_from_computed(payload.axes)
    unknown = Bracket(-math.inf, math.inf, Rigor.NUMERICAL)
    if radius.log_upper == math.inf or operand.centre is None or not is_finite(operand.centre):
        return unknown
    least = (row_sizes(payload, operand.centre).min() - radius.upper).clamp_min(0.0)
    return Bracket.at_most(float(1 / divisor(payload, operand.shape, least)) * (1 + 2.0**-40), Rigor.NUMERICAL)


def row_sizes(payload: Normalization, rows: torch.Tensor) -> torch.Tensor:
    """The norms ||z|| of the rows, less what float64 may have lost in computing them."""
    z = rows - rows.mean(payload.axes, keepdim=True) if payload.centred else rows
    lost = 2.0**-40 * torch.linalg.vector_norm(rows, dim=payload.axes, keepdim=True)
    sizes: torch.Tensor = torch.linalg.vector_norm(z, dim=payload.axes, keepdim=True) - lost
    return sizes


def divisor(payload: Normalization, shape: tuple[int, ...], size: torch.Tensor) -> torch.Tensor:
    """What a row of norm ``size`` is divided by."""
    if payload.form == "root":
        return (size.square() / math.prod(shape[a] for a in payload.axes) + payload.epsilon).sqrt()
    return size.clamp_min(payload.epsilon) if payload.form == "clamped" else size + payload.epsilon


def _centred(node: Node, row: int, weight: torch.Tensor | None) -> Effect:
    """The effect of a norm that removes the mean of rows of ``row`` entries."""
    return _divided(node, weight, number(node, "eps"), row, outputs=("mean", "rstd"), constant_output=row == 1)


def _divided(
    node: Node,
    weight: torch.Tensor | None,
    epsilon: float,
    row: int,
    outputs: tuple[str, ...],
    constant_output: bool = False,
) -> Effect:
    """max|weight| / sqrt(eps); native spellings return statistics as well, and the constant must hold for each output.

    The mean has the constant 1 / sqrt(D). The reciprocal size 1 / s has the gradient -(x - mean) / (D s^3), whose norm
    sqrt(var / D) / s^3 is largest at var = eps / 2: 2 / (3 sqrt(3) eps sqrt(D)).
    """
    if weight is not None and not is_finite(weight):
        return Effect.unsupported("the weight of the normalisation holds NaN or infinity")
    if epsilon <= 0:
        return Effect.unbounded("a normalisation without a positive eps has no finite constant: set eps > 0")
    factor = Bracket.exact(largest(weight)) * inverse_root(epsilon)
    if constant_output:
        factor = Bracket.exact(0.0)
    if len(node.outputs) > 1:
        statistics = {"mean": inverse_root(row), "rstd": rounded(2 / (3 * math.sqrt(3 * row) * epsilon))}
        factor = Bracket.maximum([factor, *(statistics[name] for name in outputs)])
    return stretch(node, {"input": factor})


@ROWS.region
def normalized(node: Node, _operands: tuple[Magnitude, ...]) -> Region:
    """z / sqrt(mean(z^2) + eps) has a norm of at most sqrt(D), z / max(||z||, eps) and z / (||z|| + eps) of at most 1."""
    shape, axes = node.output.shape, node.payload.axes
    entries = math.prod(shape[a] for a in axes)
    bound = root(entries) if node.payload.form == "root" else Bracket.exact(1.0)
    return Region((Radii.of(shape, {tuple(axes): bound}),), 0.0)


@ROWS.radii
def normalized_slices(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Every slice over the normalised axes is mapped by itself."""
    return (along(operands[0], effect.factors[0], node.payload.axes, node.output.shape),)


@ROWS.interval
def normalized_entries(node: Node, _intervals: tuple[Interval, ...]) -> Interval:
    """An entry is at most the norm of its slice."""
    payload = node.payload
    entries = float(math.prod(node.refs[0].info.shape[a] for a in payload.axes))
    bound = Interval.point(entries).sqrt().high if payload.form == "root" else 1.0
    return Interval(-bound, bound)


@ROWS.movement
def normalized_rows_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement:
    """h(z) = z / s(z) of the rows z = P x, which stray by at most r: z stays at least m = max(0, ||z_c|| - r) long.

    With s^2 = ||z||^2 / D + eps, t^2 = 1 - eps / s^2 and a unit vector u = cos e + sin e', e along z, the derivative of the Jacobian
    along u is

        t / (sqrt(D) s^2) (-cos I - (u e^T + e u^T) + 3 t^2 cos e e^T),

    in the plane of e and e' the matrix [[-3 (1 - t^2) cos, -sin], [-sin, -cos]], whose norm is at most 3 (1 - t^2) + 2 / sqrt(3). So it
    is at most max over t of t (3 (1 - t^2) + 2 / sqrt(3)), which is below 1.9 and falls from t = 0.7 on, over sqrt(D) s(m)^2. For z /
    ||z||, where m > eps, it is 2 / (sqrt(3) m^2), for z / (||z|| + eps) at most (2 / sqrt(3) + 2 eps / (m + eps)) / (m + eps)^2. The
    Jacobians are symmetric and lie between 0 and 1 / s(m), so that their difference never exceeds that.
    """
    payload: Normalization = node.payload
    (rows,) = operands
    radius = rows.over(payload.axes)
    least = (row_sizes(payload, rows.centre) - radius).clamp_min(0.0)
    shape = tuple(rows.centre.shape)
    divided = divisor(payload, shape, least)
    most = 1 / divided
    if payload.form == "root":
        t = (1 - payload.epsilon / divided.square()).clamp_min(0.5).sqrt()
        steep = torch.where(t > 0.7072, t * (3 * (1 - t.square()) + 2 / math.sqrt(3.0)), 1.9)
        steepness = steep / (math.sqrt(math.prod(shape[a] for a in payload.axes)) * divided.square())
        moved = (steepness * radius).minimum(most)
    elif payload.form == "clamped":
        outside = least > payload.epsilon
        moved = torch.where(outside, (2 / math.sqrt(3.0)) * radius / divided.square(), most).minimum(most)
    else:
        steep = 2 / math.sqrt(3.0) + 2 * payload.epsilon / divided
        moved = (steep * radius / divided.square()).minimum(most)
    return Movement((Move((moved * (1 + 2.0**-30)).expand(shape), tuple(payload.axes)),))
