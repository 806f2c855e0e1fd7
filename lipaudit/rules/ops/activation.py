"""Activations: the constant of a function applied to every element is the supremum of its |slope|.

||f(x) - f(y)||^2 = sum_i |f(x_i) - f(y_i)|^2 <= sup |f'|^2 ||x - y||^2 for every continuous, piecewise differentiable
f. A function that jumps has no finite constant. The values on an interval follow from where f rises and falls.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.graph.passes.activations import ACTIVATION
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.interval_facets import entries_of_input, of_entries, range_of_program
from lipaudit.rules.operands import data, enclosed, number, stretch
from lipaudit.rules.ops import activation_slopes
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.interval import Interval

SLOPE = "sup of |f'| over the real line"
# |f'| <= 1, attained or approached; with the values on an interval
_UNIT_SLOPE = {
    "relu": lambda x: x.maximum(0.0),
    "tanh": Interval.tanh,
    "log_sigmoid": lambda x: -(-x).softplus(),
    "sin": Interval.sin,
    "cos": Interval.cos,
    "atan": Interval.atan,
    "asinh": Interval.asinh,
}
_MODULI = {"abs": abs, "neg": lambda x: -x, "positive": lambda x: x}
# Numbers below the least values of x s(x) for the gates s of these functions.
LEAST_SILU = -0.278464543  # -0.27846454276107...
LEAST_GELU = -0.170041  # -0.16997120748 (erf), -0.17004075057 (tanh)
LEAST_MISH = -0.308843415  # -0.30884341...
NAN_TO_NUM = operations(*aten("nan_to_num"))
SIGMOID = operations(*aten("sigmoid"))
HARDSIGMOID = operations(*aten("hardsigmoid"))
HARDSWISH = operations(*aten("hardswish"))
SILU = operations(*aten("silu"))
GELU = operations(*aten("gelu"))
MISH = operations(*aten("mish"))
SELU = operations(*aten("selu"))
ERF, ERFC = operations(*aten("erf")), operations(*aten("erfc"))
ELU = operations(*aten("elu"))
CELU = operations(*aten("celu"))
SOFTPLUS = operations(*aten("softplus"))
WRITTEN_OUT = operations(ACTIVATION)


@operations(*aten(*_UNIT_SLOPE)).constant(formula="1", source=SLOPE, exact=True, entrywise=True)
def unit_slope(node: Node, _settings: Settings) -> Effect:
    """|f'| <= 1, attained or approached."""
    return stretch(node, {"self": 1.0})


@operations(*aten(*_MODULI)).constant(
    formula="1", source="||z| - |w|| <= |z - w|", exact=True, entrywise=True, complex_numbers=True
)
def modulus(node: Node, _settings: Settings) -> Effect:
    """The absolute value or the sign of real or complex numbers."""
    return stretch(node, {"self": 1.0})


for _name, _image in {**_UNIT_SLOPE, **_MODULI}.items():
    operations(*aten(_name)).interval(of_entries(_image))


@NAN_TO_NUM.constant(formula="1", source="the identity on finite numbers", exact=True, trivial=True, entrywise=True)
def nan_to_num(node: Node, _settings: Settings) -> Effect:
    """The identity on finite numbers."""
    return stretch(node, {"self": 1.0})


NAN_TO_NUM.interval(entries_of_input)


@SIGMOID.constant(formula="1/4", source=SLOPE, exact=True, entrywise=True)
def sigmoid(node: Node, _settings: Settings) -> Effect:
    """s' = s (1 - s) <= 1/4, attained at 0."""
    return stretch(node, {"self": 0.25})


SIGMOID.interval(of_entries(Interval.sigmoid))


@HARDSIGMOID.constant(formula="1/6", source=SLOPE, exact=True, entrywise=True)
def hardsigmoid(node: Node, _settings: Settings) -> Effect:
    """relu6(x + 3) / 6."""
    return stretch(node, {"self": enclosed(Interval.of(Fraction(1, 6)))})


def _hard_gate(x: Interval) -> Interval:
    return ((x + 3.0).maximum(0.0).minimum(6.0) / 6.0).within(Interval(0.0, 1.0))


HARDSIGMOID.interval(of_entries(_hard_gate))


def _gated(x: Interval, gate: Interval, least: float) -> Interval:
    """x s(x) for a gate s in [0, 1], given its values on the interval and a lower bound of all x s(x)."""
    return (x * gate).within(Interval(least, max(0.0, x.high)))


@HARDSWISH.constant(formula="3/2", source=SLOPE, exact=True, entrywise=True)
def hardswish(node: Node, _settings: Settings) -> Effect:
    """x relu6(x + 3) / 6 has the slope (2 x + 3) / 6 on (-3, 3): 3/2 at x = 3 from the left."""
    return stretch(node, {"self": 1.5})


# least at x = -3/2
HARDSWISH.interval(of_entries(lambda x: _gated(x, _hard_gate(x), -0.375)))


@SILU.constant(formula="1.09984", source=SLOPE, exact=True, entrywise=True)
def silu(node: Node, _settings: Settings) -> Effect:
    """x sigmoid(x)."""
    return stretch(node, {"self": enclosed(activation_slopes.SILU)})


SILU.interval(of_entries(lambda x: _gated(x, x.sigmoid(), LEAST_SILU)))


@GELU.constant(formula="1.12891 (erf), 1.12900 (tanh)", source=SLOPE, exact=True, entrywise=True)
def gelu(node: Node, _settings: Settings) -> Effect:
    """x Phi(x), or its approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    slope = activation_slopes.GELU_TANH if node["approximate"] == "tanh" else activation_slopes.GELU_ERF
    return stretch(node, {"self": enclosed(slope)})


# the gate of both forms is at least 1/2 for x >= 0 and at most 1/2 for x <= 0
GELU.interval(
    of_entries(lambda x: _gated(x, Interval(0.5 if x.low >= 0 else 0.0, 0.5 if x.high <= 0 else 1.0), LEAST_GELU))
)


@MISH.constant(formula="1.08850", source=SLOPE, exact=True, entrywise=True)
def mish(node: Node, _settings: Settings) -> Effect:
    """x tanh(softplus(x))."""
    return stretch(node, {"self": enclosed(activation_slopes.MISH)})


MISH.interval(of_entries(lambda x: _gated(x, x.softplus().tanh(), LEAST_MISH)))


@SELU.constant(formula="1.75810", source=SLOPE, exact=True, entrywise=True)
def selu(node: Node, _settings: Settings) -> Effect:
    """Scaled ELU with the scale and alpha of self-normalising networks."""
    return stretch(node, {"self": enclosed(activation_slopes.SELU)})


def _exponential_unit(x: Interval, alpha: Interval, steepness: Interval) -> Interval:
    """x for x > 0, alpha (exp(steepness x) - 1) for x <= 0."""
    return x.maximum(0.0) + alpha * (steepness * x.minimum(0.0)).expm1()


@SELU.interval
def selu_entries(_node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Rising."""
    scale, alpha = (Interval.of(Fraction(n)) for n in ("1.0507009873554804934", "1.6732632423543772848"))
    return scale * _exponential_unit(intervals[0], alpha, Interval.point(1.0))


@(ERF | ERFC).constant(formula="2/sqrt(pi)", source=SLOPE, exact=True, entrywise=True)
def erf(node: Node, _settings: Settings) -> Effect:
    """The error function and 1 less it, steepest at 0."""
    return stretch(node, {"self": enclosed(activation_slopes.ERF)})


ERF.interval(of_entries(Interval.erf))
ERFC.interval(of_entries(Interval.erfc))


@ELU.constant(formula="|scale| max(1, |alpha input_scale|)", source=SLOPE, exact=True, entrywise=True)
def elu(node: Node, _settings: Settings) -> Effect:
    """scale x for x > 0, scale alpha (exp(input_scale x) - 1) for x <= 0."""
    alpha, scale, input_scale = (number(node, key) for key in ("alpha", "scale", "input_scale"))
    if input_scale < 0 and alpha * scale != 0:
        return Effect.unbounded("elu with a negative input_scale grows exponentially for negative inputs")
    left = Bracket.exact(abs(alpha)) * Bracket.exact(abs(input_scale))
    return stretch(node, {"self": Bracket.exact(abs(scale)) * Bracket.maximum((Bracket.exact(1.0), left))})


@ELU.interval
def elu_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Rising for positive parameters."""
    alpha, scale, input_scale = (Interval.point(number(node, key)) for key in ("alpha", "scale", "input_scale"))
    return scale * _exponential_unit(intervals[0], alpha, input_scale)


@CELU.constant(formula="1", source=SLOPE, exact=True, entrywise=True)
def celu(node: Node, _settings: Settings) -> Effect:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)): slope at most 1 for alpha > 0."""
    alpha = number(node, "alpha")
    if alpha <= 0:
        return Effect.unbounded("celu with a negative alpha grows exponentially for negative inputs")
    if math.isinf(alpha):
        return Effect.unsupported("celu with an infinite alpha has no values for negative inputs")
    return stretch(node, {"self": 1.0})


@CELU.interval
def celu_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """Rising for a positive alpha."""
    alpha = number(node, "alpha")
    if not 0 < alpha < math.inf:
        return Interval()
    return _exponential_unit(intervals[0], Interval.point(alpha), 1.0 / Interval.point(alpha))


@SOFTPLUS.constant(formula="1", source=SLOPE, exact=True, entrywise=True)
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


@SOFTPLUS.interval
def softplus_entries(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """log(1 + exp(beta x)) / beta for a positive beta; x above the threshold is less than that, and not negative."""
    beta = number(node, "beta")
    if beta <= 0:
        return Interval()
    smooth = (intervals[0] * beta).softplus() / beta
    return Interval(max(0.0, intervals[0].low), smooth.high)


@WRITTEN_OUT.constant(
    formula="max|c1 + c2 (t h(t))'| for c1 x + c2 x h(k x)", source=SLOPE, two_sided=True, entrywise=True
)
def written_out(node: Node, _settings: Settings) -> Effect:
    """An activation that arrived as a product of element-wise operations on one tensor."""
    activation = node.payload
    named = f"{activation.name}, written out: " if activation.name else "written out: "
    return stretch(node, {"self": activation.constant}, note=named + activation.formula)


WRITTEN_OUT.interval(range_of_program)
