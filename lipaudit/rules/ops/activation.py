"""Activations: the constant of a function applied to every element is the supremum of its |slope|.

||f(x) - f(y)||^2 = sum_i |f(x_i) - f(y_i)|^2 <= sup |f'|^2 ||x - y||^2 for every continuous, piecewise differentiable
f. A function that jumps has no finite constant.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from lipaudit.graph.node import Node
from lipaudit.graph.passes.activations import ACTIVATION
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.operands import constant, data, enclosed, is_finite, largest, number, stretch
from lipaudit.rules.ops import (
    activation_slopes,
)
from lipaudit.rules.rule import rule
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.interval import Interval

SLOPE = "sup of |f'| over the real line"


@rule(
    "aten.relu.default",
    "aten.relu6.default",
    "aten.tanh.default",
    "aten.log_sigmoid.default",
    "aten.sin.default",
    "aten.cos.default",
    "aten.atan.default",
    "aten.asinh.default",
    formula="1",
    source=SLOPE,
    exact=True,
    entrywise=True,
)
def unit_slope(node: Node, _settings: Settings) -> Effect:
    """|f'| <= 1, attained or approached."""
    return stretch(node, {"self": 1.0})


@rule(
    "aten.abs.default",
    "aten.neg.default",
    "aten.positive.default",
    formula="1",
    source="||z| - |w|| <= |z - w|",
    exact=True,
    entrywise=True,
    complex_numbers=True,
)
def modulus(node: Node, _settings: Settings) -> Effect:
    """The absolute value or the sign of real or complex numbers."""
    return stretch(node, {"self": 1.0})


@rule(
    "aten.nan_to_num.default",
    formula="1",
    source="the identity on finite numbers",
    exact=True,
    trivial=True,
    entrywise=True,
)
def nan_to_num(node: Node, _settings: Settings) -> Effect:
    """The identity on finite numbers."""
    return stretch(node, {"self": 1.0})


@rule("aten.sigmoid.default", formula="1/4", source=SLOPE, exact=True, entrywise=True)
def sigmoid(node: Node, _settings: Settings) -> Effect:
    """s' = s (1 - s) <= 1/4, attained at 0."""
    return stretch(node, {"self": 0.25})


@rule("aten.hardsigmoid.default", formula="1/6", source=SLOPE, exact=True, entrywise=True)
def hardsigmoid(node: Node, _settings: Settings) -> Effect:
    """relu6(x + 3) / 6."""
    return stretch(node, {"self": enclosed(Interval.of(Fraction(1, 6)))})


@rule("aten.hardswish.default", formula="3/2", source=SLOPE, exact=True, entrywise=True)
def hardswish(node: Node, _settings: Settings) -> Effect:
    """x relu6(x + 3) / 6 has the slope (2 x + 3) / 6 on (-3, 3): 3/2 at x = 3 from the left."""
    return stretch(node, {"self": 1.5})


@rule("aten.silu.default", formula="1.09984", source=SLOPE, exact=True, entrywise=True)
def silu(node: Node, _settings: Settings) -> Effect:
    """x sigmoid(x)."""
    return stretch(node, {"self": enclosed(activation_slopes.SILU)})


@rule("aten.gelu.default", formula="1.12891 (erf), 1.12900 (tanh)", source=SLOPE, exact=True, entrywise=True)
def gelu(node: Node, _settings: Settings) -> Effect:
    """x Phi(x), or its approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    slope = activation_slopes.GELU_TANH if node["approximate"] == "tanh" else activation_slopes.GELU_ERF
    return stretch(node, {"self": enclosed(slope)})


@rule("aten.mish.default", formula="1.08850", source=SLOPE, exact=True, entrywise=True)
def mish(node: Node, _settings: Settings) -> Effect:
    """x tanh(softplus(x))."""
    return stretch(node, {"self": enclosed(activation_slopes.MISH)})


@rule("aten.selu.default", formula="1.75810", source=SLOPE, exact=True, entrywise=True)
def selu(node: Node, _settings: Settings) -> Effect:
    """Scaled ELU with the scale and alpha of self-normalising networks."""
    return stretch(node, {"self": enclosed(activation_slopes.SELU)})


@rule("aten.erf.default", formula="2/sqrt(pi)", source=SLOPE, exact=True, entrywise=True)
def erf(node: Node, _settings: Settings) -> Effect:
    """The error function, steepest at 0."""
    return stretch(node, {"self": enclosed(activation_slopes.ERF)})


@rule("aten.elu.default", formula="|scale| max(1, |alpha input_scale|)", source=SLOPE, exact=True, entrywise=True)
def elu(node: Node, _settings: Settings) -> Effect:
    """scale x for x > 0, scale alpha (exp(input_scale x) - 1) for x <= 0."""
    alpha, scale, input_scale = (number(node, key) for key in ("alpha", "scale", "input_scale"))
    if input_scale < 0 and alpha * scale != 0:
        return Effect.unbounded("elu with a negative input_scale grows exponentially for negative inputs")
    left = Bracket.exact(abs(alpha)) * Bracket.exact(abs(input_scale))
    return stretch(node, {"self": Bracket.exact(abs(scale)) * Bracket.maximum((Bracket.exact(1.0), left))})


@rule("aten.celu.default", formula="1", source=SLOPE, exact=True, entrywise=True)
def celu(node: Node, _settings: Settings) -> Effect:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)): slope at most 1 for alpha > 0."""
    alpha = number(node, "alpha")
    if alpha <= 0:
        return Effect.unbounded("celu with a negative alpha grows exponentially for negative inputs")
    if math.isinf(alpha):
        return Effect.unsupported("celu with an infinite alpha has no values for negative inputs")
    return stretch(node, {"self": 1.0})


@rule("aten.softplus.default", formula="1", source=SLOPE, exact=True, entrywise=True)
def softplus(node: Node, _settings: Settings) -> Effect:
    """log(1 + exp(beta x)) / beta has the slope sigmoid(beta x).

    Above beta x = threshold torch returns x instead, for numerical stability as its documentation says: a step of
    log(1 + exp(-threshold)) / beta, which no finite constant bounds. The function that is meant has no step, and the constant is
    that of this function. The step counts as what it is, a rounding error of the operation: where the operation's own precision
    hides it, the constant is certified, where only float32 would, it is numerical. A step that even float32 shows is a jump.
    """
    beta, threshold = number(node, "beta"), number(node, "threshold")
    if beta <= 0:
        return Effect.unsupported(f"softplus with beta = {beta:g}: the rule holds for a positive beta")
    if not _hidden(threshold, 2.0**-24):
        return Effect.unbounded(
            f"softplus switches to the identity at beta x = {threshold:g}, a jump; use a threshold of 20 or more"
        )
    step = f"{math.exp(-threshold) / beta:.2g}"
    note = f"the slope of log(1 + exp(beta x)) / beta; torch returns x above beta x = {threshold:g}, a step of {step}"
    dtype = data(node, "self").dtype
    if _hidden(threshold, torch.finfo(dtype).eps / 2):
        return stretch(node, {"self": 1.0}, note=f"{note}, which is below {str(dtype).removeprefix('torch.')} rounding")
    return stretch(node, {"self": Bracket.exact(1.0, Rigor.NUMERICAL)}, note=f"{note}, which the bound leaves out")


def _hidden(threshold: float, roundoff: float) -> bool:
    """Whether the step at the threshold is below half a unit in the last place of it."""
    return threshold > 0 and math.exp(-threshold) <= threshold * roundoff / 2


@rule("aten.leaky_relu.default", formula="max(1, |negative_slope|)", source=SLOPE, exact=True, entrywise=True)
def leaky_relu(node: Node, _settings: Settings) -> Effect:
    """x for x > 0, negative_slope x otherwise."""
    return stretch(node, {"self": max(1.0, abs(number(node, "negative_slope")))})


@rule("aten.rrelu.default", formula="max(1, |lower + upper| / 2)", source=SLOPE, exact=True, entrywise=True)
def rrelu(node: Node, _settings: Settings) -> Effect:
    """In eval mode a leaky ReLU with the mean of the two activation_slopes."""
    if node["training"]:
        return Effect.unsupported("rrelu in training mode is random; audit the network in eval mode")
    slope = abs(Interval.point(number(node, "lower")) + number(node, "upper")) / 2.0
    return stretch(node, {"self": enclosed(slope.maximum(1.0))})


@rule(
    "aten.prelu.default",
    "aten._prelu_kernel.default",
    formula="max(1, max|weight|)",
    source=SLOPE,
    exact=True,
    entrywise=True,
)
def prelu(node: Node, _settings: Settings) -> Effect:
    """A leaky ReLU whose slopes are weights, one per channel or one for all."""
    weight = constant(node, "weight")
    if weight is None:
        return Effect.unbounded(
            "prelu multiplies its input by a data-dependent weight: no finite constant holds over all inputs"
        )
    if not is_finite(weight):
        return Effect.unsupported("the weight of prelu holds NaN or infinity")
    return stretch(node, {"self": max(1.0, largest(weight))})


@rule(
    "aten.clamp.default",
    "aten.clamp_min.default",
    "aten.clamp_max.default",
    "aten.hardtanh.default",
    formula="1 (0 where the limits meet)",
    source=SLOPE,
    exact=True,
    entrywise=True,
)
def clamp(node: Node, _settings: Settings) -> Effect:
    """min(max(x, low), high); torch returns high everywhere where low > high."""
    low, high = (node.get(a, node.get(b)) for a, b in (("min", "min_val"), ("max", "max_val")))
    constant_output = isinstance(low, int | float) and isinstance(high, int | float) and low >= high
    return stretch(node, {"self": 0.0 if constant_output else 1.0})


@rule("aten.softshrink.default", formula="1", source=SLOPE, exact=True, entrywise=True)
def softshrink(node: Node, _settings: Settings) -> Effect:
    """sign(x) max(|x| - lambda, 0)."""
    if number(node, "lambd") < 0:
        return Effect.unbounded("softshrink with a negative lambda jumps")
    return stretch(node, {"self": 1.0})


@rule("aten.hardshrink.default", formula="1 for lambda <= 0, else unbounded", source=SLOPE, exact=True, entrywise=True)
def hardshrink(node: Node, _settings: Settings) -> Effect:
    """x outside [-lambda, lambda], 0 inside: a jump of lambda at both ends."""
    if number(node, "lambd") > 0:
        return Effect.unbounded("hardshrink jumps at its threshold; softshrink does not")
    return stretch(node, {"self": 1.0})


@rule(
    "aten.threshold.default",
    formula="1 for value = threshold, else unbounded",
    source=SLOPE,
    exact=True,
    entrywise=True,
)
def threshold(node: Node, _settings: Settings) -> Effect:
    """x above the threshold, a fixed value below: continuous only where that value is the threshold."""
    if number(node, "threshold") != number(node, "value"):
        return Effect.unbounded("threshold jumps unless its value equals its threshold")
    return stretch(node, {"self": 1.0})


@rule(
    ACTIVATION,
    formula="max|c1 + c2 (t h(t))'| for c1 x + c2 x h(k x)",
    source=SLOPE,
    two_sided=True,
    entrywise=True,
)
def written_out(node: Node, _settings: Settings) -> Effect:
    """An activation that arrived as a product of element-wise operations on one tensor."""
    activation = node.payload
    named = f"{activation.name}, written out: " if activation.name else "written out: "
    return stretch(node, {"self": activation.constant}, note=named + activation.formula)
