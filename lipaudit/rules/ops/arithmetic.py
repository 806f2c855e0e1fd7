"""Sums, products and quotients of tensors, with broadcasting.

Adding a constant does not change differences. Multiplying by a constant c, broadcast to the output's shape, is linear:
element i of the input reaches the entries j(i) and the columns of the matrix are orthogonal, so that the norm is max_i
sqrt(sum_j c_j^2), which is max|c| where nothing is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from lipaudit.graph.contraction import entrywise_product
from lipaudit.graph.node import Argument, Constant, Node, Ref, TensorInfo
from lipaudit.graph.ops import aten
from lipaudit.rules.contraction import product_effect, product_factors, product_radii
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.movement import Movement, Neighbourhood, product_movement, quotient_movement
from lipaudit.rules.norm import Norm
from lipaudit.rules.operands import (
    constant,
    count_refs,
    interval_of_factor,
    interval_of_operand,
    is_finite,
    largest,
    number,
    repeats,
    root,
    rounded,
    shape_of,
    stretch,
)
from lipaudit.rules.radii_facets import whole_tensor
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii, joined
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

_ONE = Bracket.exact(1.0)
LINEAR = "the largest column norm of a matrix with orthogonal columns"
DIVISION = "division by a data-dependent tensor: no finite constant holds over all inputs"
GATING = "product of two data-dependent tensors (gating): no finite constant holds over all inputs"


ADD, SUB, RSUB = (operations(*aten(f"{name}.Tensor")) for name in ("add", "sub", "rsub"))
SUMS = ADD | SUB | RSUB
LERP = operations(*aten("lerp.Scalar"))
MULTIPLY = operations(*aten("mul.Tensor"))
DIVIDE = operations(*aten("div.Tensor", "div.Tensor_mode"))
ADD_SCALED = operations(*aten("addcmul", "addcdiv"))


@SUMS.constant(
    formula="1 and |alpha|, times sqrt(copies by broadcasting); the terms add", source="triangle inequality", exact=True,
    complex_numbers=True,
)  # fmt: skip
def add(node: Node, _settings: Settings) -> Effect:
    """self + alpha other, self - alpha other, other - alpha self; constants do not count."""
    if isinstance(node["alpha"], complex):
        return Effect.unsupported("a sum weighted by a complex alpha; multiply by it first")
    if any(isinstance(node[key], float) and math.isinf(node[key]) for key in ("self", "other")):  # type: ignore[arg-type]
        return Effect.unsupported("a sum with infinity has no values")
    alpha = Bracket.exact(abs(number(node, "alpha")))
    one = Bracket.exact(1.0)
    weights = {"self": alpha, "other": one} if node.op.startswith("aten.rsub") else {"self": one, "other": alpha}
    return stretch(node, {name: weight * root(repeats(node[name], node.output)) for name, weight in weights.items()})


@SUMS.radii
def added_deviations(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Deviations add."""
    alpha = rounded(abs(number(node, "alpha")))
    weights = {"self": alpha, "other": _ONE} if node.op.startswith("aten.rsub") else {"self": _ONE, "other": alpha}
    factors = [weights[name] for name in ("self", "other") if node.arguments[name] in node.refs]
    return (joined(node.output.shape, zip(factors, (m.radii for m in operands), strict=True)),)


@SUMS.interval
def sums(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self + alpha other, self - alpha other, other - alpha self."""
    left, right = (interval_of_operand(node, key, intervals) for key in ("self", "other"))
    alpha = interval_of_factor(node, "alpha")
    if "rsub" in node.op:
        return right - alpha * left
    return left - alpha * right if "sub" in node.op else left + alpha * right


@LERP.constant(formula="|1 - weight| and |weight|; the terms add", source="triangle inequality", exact=True)
def lerp(node: Node, _settings: Settings) -> Effect:
    """(1 - weight) self + weight end."""
    weight = number(node, "weight")
    weights = {"self": rounded(abs(1 - weight)), "end": Bracket.exact(abs(weight))}
    return stretch(node, {name: factor * root(repeats(node[name], node.output)) for name, factor in weights.items()})


@LERP.radii
def interpolated_deviations(node: Node, _effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """Weighted deviations add."""
    weight = number(node, "weight")
    weights = {"self": rounded(abs(1 - weight)), "end": Bracket.exact(abs(weight))}
    factors = [weights[name] for name in ("self", "end") if count_refs(node[name])]
    return (joined(node.output.shape, zip(factors, (m.radii for m in operands), strict=True)),)


@LERP.interval
def interpolated(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """(1 - weight) self + weight end."""
    left, right = (interval_of_operand(node, key, intervals) for key in ("self", "end"))
    weight = Interval.point(number(node, "weight"))
    return (1.0 - weight) * left + weight * right


@MULTIPLY.constant(
    formula="max|c|, with broadcasting max_i sqrt(sum_j c_j^2)", source=LINEAR, exact=True, where_bounded=True,
    complex_numbers=True,
)  # fmt: skip
def multiply(node: Node, _settings: Settings) -> Effect:
    """A product with a constant; a product of two data-dependent tensors has no finite constant."""
    if count_refs(node["self"]) and count_refs(node["other"]):
        if node.output.dtype.is_complex:
            return Effect.unbounded(GATING)
        product = entrywise_product(shape_of(node["self"]), shape_of(node["other"]), node.output.shape)
        return Effect.where_bounded(GATING, lambda operands: product_effect(product, *operands))
    varying, fixed = ("self", "other") if count_refs(node["self"]) else ("other", "self")
    return _scaled(node, {varying: moduli(node, fixed)})


@MULTIPLY.interval
def products(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self other; of a tensor with itself, a square."""
    if len(node.refs) == 2 and node.refs[0].name == node.refs[1].name:
        return intervals[0] ** 2
    return interval_of_operand(node, "self", intervals) * interval_of_operand(node, "other", intervals)


@DIVIDE.constant(
    formula="max|1/c|, with broadcasting max_i sqrt(sum_j 1/c_j^2)", source=LINEAR, exact=True, where_bounded=True,
    complex_numbers=True,
)  # fmt: skip
def divide(node: Node, _settings: Settings) -> Effect:
    """A quotient by a constant; by a data-dependent tensor where that stays away from zero; a rounded one jumps."""
    if node.get("rounding_mode") is not None:
        return Effect.unbounded("a rounded quotient jumps")
    if count_refs(node["other"]) and node.output.dtype.is_complex:
        return Effect.unbounded(DIVISION)
    if count_refs(node["other"]):
        return Effect.where_bounded(DIVISION, lambda operands: _quotient(node, operands))
    divisor = moduli(node, "other")
    if divisor is None or bool((divisor == 0).any()):
        return Effect.unsupported("division by a constant that holds a zero")
    return _scaled(node, {"self": divisor.reciprocal()})


@DIVIDE.interval
def quotients(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self / other for a divisor that does not vanish."""
    if node.get("rounding_mode") is not None:
        return Interval()
    return interval_of_operand(node, "self", intervals) / interval_of_operand(node, "other", intervals)


@ADD_SCALED.constant(formula="1 and max|value c|; the terms add", source=LINEAR, exact=True, where_bounded=True)
def add_scaled(node: Node, _settings: Settings) -> Effect:
    """self + value tensor1 tensor2, or self + value tensor1 / tensor2, with at most one data-dependent factor."""
    first, second = count_refs(node["tensor1"]), count_refs(node["tensor2"])
    quotient = node.op.startswith("aten.addcdiv")
    if second and quotient:
        return Effect.unbounded(DIVISION)
    if first and second:
        return Effect.where_bounded(GATING, lambda operands: _added_product(node, operands))
    varying, fixed = ("tensor1", "tensor2") if not second else ("tensor2", "tensor1")
    scale = constant(node, fixed)
    if scale is not None and quotient:
        if bool((scale == 0).any()):
            return Effect.unsupported("division by a constant that holds a zero")
        scale = scale.reciprocal()
    own: dict[str, Bracket | float] = {"self": root(repeats(node["self"], node.output))}
    return _scaled(node, {varying: scale}, own, Bracket.exact(abs(number(node, "value"))))


def _added_product(node: Node, operands: tuple[Magnitude, ...]) -> Effect:
    left, right = shape_of(node["tensor1"]), shape_of(node["tensor2"])
    shape = tuple(torch.broadcast_shapes(left, right))  # type: ignore[no-untyped-call]
    # the product may be broadcast further, to the shape of what it is added to
    copies = root(math.prod(node.output.shape) // max(1, math.prod(shape)))
    scale = Bracket.exact(abs(number(node, "value"))) * copies
    factors = [scale * factor for factor in product_factors(entrywise_product(left, right, shape), *operands[-2:])]
    own = [root(repeats(node["self"], node.output))] if count_refs(node["self"]) else []
    return Effect.stretch(*own, *factors)


def _quotient(node: Node, operands: tuple[Magnitude, ...]) -> Effect:
    """x / y with |y| >= m: 1/m in x, sup |x| / m^2 in y; with broadcasting the slices that share an entry count.

    d(x / y) = dx / y - x dy / y^2.
    """
    inverse = operands[-1].least(lambda interval: Bracket.at_most((1.0 / interval).largest))
    if inverse.log_upper == math.inf:
        return Effect.unbounded("division by a data-dependent tensor that may vanish")
    copies = root(repeats(node["self"], node.output))
    if not count_refs(node["self"]):
        value = constant(node, "self")
        if value is None:
            return Effect.unsupported("division of what is neither data-dependent nor a constant")
        return Effect.stretch(rounded(largest(value)) * inverse * inverse * root(repeats(node["other"], node.output)))
    product = entrywise_product(shape_of(node["self"]), shape_of(node["other"]), node.output.shape)
    _, numerators = product_factors(product, operands[0], operands[1])
    return Effect.stretch(inverse * copies, numerators * inverse * inverse)


@ADD_SCALED.interval
def sums_of_products(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """self + value tensor1 tensor2, or self + value tensor1 / tensor2."""
    own, first, second = (interval_of_operand(node, key, intervals) for key in ("self", "tensor1", "tensor2"))
    product = first / second if node.op.startswith("aten.addcdiv") else first * second
    return own + interval_of_factor(node, "value") * product


@(MULTIPLY | operations(*aten("div.Tensor"))).radii
def products_and_quotients(node: Node, effect: Effect, operands: tuple[Magnitude, ...]) -> tuple[Radii, ...]:
    """A constant factor scales every entry; for two data-dependent factors see :mod:`lipaudit.rules.contraction`."""
    shape = node.output.shape
    if len(operands) == 1:
        divides = node.op.startswith("aten.div")
        value = moduli(node, "other" if isinstance(node["self"], Ref) else "self")
        if value is None or (divides and not isinstance(node["self"], Ref)):
            return whole_tensor(node, effect, operands)
        return (joined(shape, [(rounded(largest(value.reciprocal() if divides else value)), operands[0].radii)]),)
    if node.op.startswith("aten.div"):
        return whole_tensor(node, effect, operands)
    product = entrywise_product(operands[0].shape, operands[1].shape, shape)
    return (product_radii(product, node, *operands),)


def moduli(node: Node, key: str) -> torch.Tensor | None:
    """The constant ``key``, of a complex one |c| entry by entry (NaN where not finite); float64, None where there is none."""
    argument = node.get(key)
    if isinstance(argument, complex):
        argument = Constant(torch.tensor(argument, dtype=torch.complex128))
    if isinstance(argument, Constant) and argument.value.is_complex():
        value = argument.value.detach().to("cpu", torch.complex128)
        return torch.where(torch.isfinite(value), torch.hypot(value.real, value.imag), math.nan)
    return constant(node, key)


def _scaled(
    node: Node,
    scales: dict[str, torch.Tensor | None],
    others: dict[str, Bracket | float] | None = None,
    weight: Bracket = _ONE,
) -> Effect:
    """The effect of multiplying the named operands by constants and by ``weight``."""
    factors: dict[str, Bracket | float] = dict(others or {})
    for name, scale in scales.items():
        if not count_refs(node[name]):
            continue
        if scale is None:
            return Effect.unsupported(f"{node.op} with a factor that is neither a number nor a constant tensor")
        if not is_finite(scale):
            return Effect.unsupported(f"the constant factor of {node.op} holds NaN or infinity")
        factors[name] = weight * broadcast_norm(scale, node[name], node.output)
    return stretch(node, factors)


def broadcast_norm(scale: torch.Tensor, operand: Argument, output: TensorInfo) -> Bracket:
    """max_i sqrt(sum_j c_j^2): c a constant, i an element of the operand, j the entries of the output that it reaches.

    ``scale`` is float64 and may itself carry two roundings.
    """
    axes = len(output.shape)
    shape = shape_of(operand)
    top = largest(scale)
    if top == 0 or math.prod(output.shape) == 0:
        return Bracket.exact(0.0)
    padded_operand = (1,) * (axes - len(shape)) + shape
    squares = (scale / top).square().reshape((1,) * (axes - scale.dim()) + tuple(scale.shape))
    copies, terms = 1, 1
    for axis, length in enumerate(output.shape):
        if padded_operand[axis] == 1 and length > 1:
            if squares.shape[axis] == 1:
                copies *= length
            else:
                terms *= squares.shape[axis]
                squares = squares.sum(axis, keepdim=True)
    # the divisions and squares are rounded once each, the sum once per term
    column = rounded(math.sqrt(float(squares.max())), (terms + 8) * 2.0**-52)
    norm = rounded(top, 2.0**-48) * root(copies)
    return norm * column if terms > 1 else norm


@MULTIPLY.movement
def products_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """A product of two data-dependent tensors."""
    return product_movement(*operands, node.output.shape) if len(operands) == 2 else None


@DIVIDE.movement
def quotients_move(node: Node, operands: tuple[Neighbourhood, ...]) -> Movement | None:
    """A quotient of two data-dependent tensors."""
    if node.get("rounding_mode") is not None or len(operands) != 2:
        return None
    return quotient_movement(operands[0], operands[1], node.output.shape)


@SUMS.induced_norm
def sums_in_norm(node: Node, _effect: Effect, norm: Norm) -> Effect:
    """1 and |alpha|; in the l1 norm an entry counts as often as it is broadcast."""
    alpha = Bracket.exact(abs(number(node, "alpha")))
    weights = {"self": alpha, "other": _ONE} if node.op.startswith("aten.rsub") else {"self": _ONE, "other": alpha}
    return _added(node, weights, norm)


@LERP.induced_norm
def interpolation_in_norm(node: Node, _effect: Effect, norm: Norm) -> Effect:
    """|1 - weight| and |weight|, as for sums."""
    weight = number(node, "weight")
    return _added(node, {"self": rounded(abs(1 - weight)), "end": Bracket.exact(abs(weight))}, norm)


def _added(node: Node, weights: Mapping[str, Bracket], norm: Norm) -> Effect:
    copies = {name: 1 if norm is Norm.LINF else repeats(node[name], node.output) for name in weights}
    return stretch(node, {name: weight * Bracket.exact(float(copies[name])) for name, weight in weights.items()})


@(MULTIPLY | DIVIDE).induced_norm
def scaled_in_norm(node: Node, _effect: Effect, norm: Norm) -> Effect:
    """A constant factor: its largest modulus; in the l1 norm the largest sum of moduli over the entries that one entry reaches."""
    varying, fixed = ("self", "other") if count_refs(node["self"]) else ("other", "self")
    scale = constant(node, fixed)
    if scale is None:
        return Effect.unsupported(f"{node.op} with a factor that is neither a number nor a constant tensor")
    scale = scale.reciprocal().abs() if node.op.startswith("aten.div") else scale.abs()
    if norm is Norm.LINF:
        return stretch(node, {varying: rounded(largest(scale))})
    reach = torch.broadcast_to(scale, node.output.shape).reshape(node.output.shape)
    padded = (1,) * (len(node.output.shape) - len(shape_of(node[varying]))) + shape_of(node[varying])
    axes = [axis for axis, length in enumerate(padded) if length == 1]
    sums = reach.sum(axes, keepdim=True) if axes else reach
    return stretch(node, {varying: rounded(largest(sums), (math.prod(node.output.shape) + 4) * 2.0**-52)})
