"""How far constants that are computed in float64 are from what the stored numbers define.

A constant carries a bound e of its relative error, entry by entry: |true - computed| <= e |true|. Products, quotients, roots and
norms pass it on with a few roundings; a sum multiplies it by its condition number sum |terms| / |sum|, which is computed for the
numbers at hand, so that e says what this sum of these weights costs. Source: Higham, *Accuracy and Stability of Numerical
Algorithms*, chapters 2 to 4; u = 2^-53, gamma_n = n u / (1 - n u). Elementary functions of torch are taken to be within
eight roundings (SLEEF and the C library claim at most four). Of an operation that is not listed nothing is known: e is
infinite, and a figure that rests on it is ``numerical``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from lipaudit.graph.arguments import call, overload
from lipaudit.graph.node import Constant
from lipaudit.graph.ops import MOVEMENT, aten
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, gamma

# Larger relative errors are not worth a margin, and the bounds of first order below stay bounds up to here.
LARGEST = 2.0**-20
_FUNCTION = 8 * UNIT_ROUNDOFF
# Of a sum of which nothing is left. What is computed from numbers with a relative error above LARGEST has an error above it, too.
_LOST = 2.0**100
_SMALLEST = 2.0**-960  # results that may have lost digits to underflow

# Every entry of the result is an entry of an operand, or a literal, to the last bit.
MOVES = MOVEMENT | {
    *aten(
        "select.int", "unbind.int", "index_select", "index.Tensor", "gather", "repeat_interleave.self_int", "stack", "roll", "pad",
        "constant_pad_nd", "tril", "triu", "adjoint", "diagonal", "diag", "diag_embed", "block_diag", "zeros", "ones", "full", "eye",
        "eye.m",
        "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "fill.Scalar", "fill.Tensor", "zero", "copy",
        "scalar_tensor", "masked_fill.Scalar", "masked_fill.Tensor", "where.self", "neg", "abs", "dropout", "slice_scatter",
        "select_scatter",
    )
}  # fmt: skip
_SUMS = {"aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim"}
_PRODUCTS = {
    "aten.mm.default": ("self", "mat2"),
    "aten.bmm.default": ("self", "mat2"),
    "aten.matmul.default": ("self", "other"),
    "aten.mv.default": ("self", "vec"),
    "aten.dot.default": ("self", "tensor"),
    "aten.vdot.default": ("self", "other"),
    "aten.linear.default": ("input", "weight"),
}
# Functions f with |x f'(x) / f(x)| <= max(a, b |x|) for the pair (a, b).
_FUNCTIONS = {
    "aten.exp.default": (0.0, 1.0),
    "aten.sigmoid.default": (1.0, 1.0),
    "aten.softplus.default": (1.0, 1.0),
    "aten.tanh.default": (1.0, 0.0),
    "aten.sqrt.default": (0.5, 0.0),
    "aten.rsqrt.default": (0.5, 0.0),
    "aten.reciprocal.default": (1.0, 0.0),
    "aten.square.default": (2.0, 0.0),
}


def margin_of(error: float) -> float:
    """The error as a margin: 0 where nothing is known, so that what rests on it is ``numerical`` and not certified.

    >>> margin_of(2.0**-50) == 2.0**-50, margin_of(math.inf)
    (True, 0.0)
    """
    return error if error <= LARGEST else 0.0


def relative_error(op: str, bound: Mapping[str, Any], values: Mapping[str, Any], result: torch.Tensor) -> float:
    """The bound e of a result in float64, of an operation whose arguments are ``bound`` and evaluated are ``values``.

    Infinite where the operation is not known; finite and above LARGEST where a sum cancels so far that hardly anything is left of it.
    """
    before = max((c.error for c in _constants(bound)), default=0.0)
    if not result.is_floating_point() and not result.is_complex():
        return 0.0 if before == 0 else math.inf  # a choice, or a cast to integers: it jumps
    if op in MOVES:
        return before
    if op in ("aten.arange.default", "aten.arange.start", "aten.arange.start_step"):
        return 0.0 if all(isinstance(bound.get(key, 0), int) for key in ("start", "end", "step")) else math.inf
    if result.is_complex():
        return math.inf
    if before > LARGEST:
        return before
    error = _error(op, bound, values, result, before)
    # terms of second order, and the rounding of these bounds themselves
    error *= 1 + 2.0**-10
    small = (result != 0) & (result.abs() < _SMALLEST)
    return math.inf if bool(small.any()) else error


def _error(op: str, bound: Mapping[str, Any], values: Mapping[str, Any], result: torch.Tensor, before: float) -> float:
    u = UNIT_ROUNDOFF
    if op in ("aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar"):
        a, b = (torch.as_tensor(values[key], dtype=torch.float64) for key in ("self", "other"))
        lost = (result == 0) & (a != 0) & ((b != 0) if "mul" in op else True)
        if bound.get("rounding_mode") is not None or bool(lost.any()):
            return math.inf
        return _of(bound["self"]) + _of(bound["other"]) + u
    if op in ("aten.add.Tensor", "aten.sub.Tensor", "aten.add.Scalar", "aten.sub.Scalar", "aten.rsub.Scalar"):
        a, b = (torch.as_tensor(values[key], dtype=torch.float64).abs() for key in ("self", "other"))
        alpha = abs(float(bound.get("alpha", 1)))
        if "rsub" in op:
            a, b = alpha * a, b
        else:
            b = alpha * b
        error = a * (_of(bound["self"]) + u) + b * (_of(bound["other"]) + u)  # the scaled operand rounds once
        return _ratio(error, result) + u
    if op in _SUMS:
        terms = values["self"].numel() // max(1, result.numel())
        kept = {k: v for k, v in values.items() if k != "self"}
        sizes = _call(op, {**kept, "self": values["self"].abs()})
        return _ratio(sizes * (before + gamma(terms + 2)), result)
    if op in _PRODUCTS and bound.get("bias") is None:
        left, right = _PRODUCTS[op]
        inner = values[left].shape[-1]
        sizes = _call(op, {**values, left: values[left].abs(), right: values[right].abs()})
        return _ratio(sizes * (_of(bound[left]) + _of(bound[right]) + gamma(inner + 2)), result)
    if op in ("aten.sin.default", "aten.cos.default"):
        return _ratio(values["self"].abs() * before, result) + _FUNCTION
    if op in (
        "aten.var.correction",
        "aten.std.correction",
        "aten.var.dim",
        "aten.std.dim",
        "aten.var.default",
        "aten.std.default",
    ):
        variance = _variance_error(values["self"], bound.get("dim"), before)
        return variance if "var" in op else variance / 2 + u
    if op in ("aten._weight_norm.default", "aten._weight_norm_interface.default"):
        return 2 * _of(bound["v"]) + _of(bound["g"]) + gamma(values["v"].numel() + 8)
    if op == "aten.batch_norm.default":
        return _standardisation_error(bound, values)
    if op in ("aten.linalg_vector_norm.default", "aten.norm.ScalarOpt_dim", "aten.norm.Scalar"):
        order = bound.get("ord", bound.get("p"))
        return before + gamma(values["self"].numel() // max(1, result.numel()) + 4) if order in (None, 2) else math.inf
    if op == "aten.pow.Tensor_Scalar":
        power = abs(float(bound["exponent"]))
        return power * before + _FUNCTION if power <= 64 else math.inf
    if op in (
        "aten.clamp.default",
        "aten.clamp_min.default",
        "aten.clamp_max.default",
        "aten.maximum.default",
        "aten.relu.default",
    ):
        return 2 * before
    if op in ("aten.amax.default", "aten.amin.default"):
        return before
    if op in _FUNCTIONS:
        x = values["self"]
        if bool(((result == 0) & (x != 0)).any()):
            return math.inf
        if op == "aten.softplus.default" and (bound.get("beta", 1), bound.get("threshold", 20)) != (1, 20):
            return math.inf
        # where softplus turns linear it jumps by less than 3e-9: on which side a number lies must be certain
        if op == "aten.softplus.default" and bool(((x - 20).abs() <= 40 * (before + UNIT_ROUNDOFF)).any()):
            return math.inf
        least, slope = _FUNCTIONS[op]
        return max(least, slope * _largest(x)) * before + _FUNCTION
    return math.inf


def _variance_error(x: torch.Tensor, axes: Any, before: float) -> float:
    """Of a sample variance: n u k^2 covers every way to compute it, k^2 = sum x^2 / sum (x - mean)^2 (Chan, Golub, LeVeque)."""
    axes = tuple(range(x.dim())) if axes is None else tuple(axes)
    terms = math.prod(x.shape[axis] for axis in axes)
    spread = (x - x.mean(axes, keepdim=True)).square().sum(axes)
    return _ratio(x.square().sum(axes) * (4 * before + gamma(4 * terms + 16)), spread)


def _standardisation_error(bound: Mapping[str, Any], values: Mapping[str, Any]) -> float:
    """Of (x - mean) / sqrt(variance + eps) * weight over all axes but the second one, which is how weights are standardised."""
    x, weight = values["input"], bound["weight"]
    if bound["training"] is not True or bound["bias"] is not None:
        return math.inf
    axes = tuple(axis for axis in range(x.dim()) if axis != 1)
    terms = x.numel() // x.shape[1]
    before = _of(bound["input"])
    mean = x.mean(axes, keepdim=True)
    error = (x.abs() + x.abs().mean(axes, keepdim=True)) * (before + gamma(terms + 4))
    return _ratio(error, x - mean) + _variance_error(x, axes, before) / 2 + _of(weight) + 8 * UNIT_ROUNDOFF


def _of(argument: Any) -> float:
    return argument.error if isinstance(argument, Constant) else 0.0


def _constants(value: Any) -> list[Constant]:
    if isinstance(value, Constant):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    return [c for part in value for c in _constants(part)] if isinstance(value, list | tuple) else []


def _call(op: str, arguments: Mapping[str, Any]) -> torch.Tensor:
    return call(overload(op), arguments)  # type: ignore[no-any-return]


def _largest(x: torch.Tensor) -> float:
    return float(x.abs().max()) if x.numel() else 0.0


def _ratio(error: torch.Tensor, result: torch.Tensor) -> float:
    """The largest error / |result|; 0 / 0 is 0: what is exactly 0 was computed from zeros alone."""
    ratio = torch.where(error == 0, 0.0, error / result.abs())
    return min(_largest(ratio), _LOST)
