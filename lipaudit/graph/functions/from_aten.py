"""ATen operations of one tensor and of constants as terms of functions of one variable."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from lipaudit.graph.functions.expression import Tape
from lipaudit.graph.functions.real_arithmetic import COMPARISONS, has_real_arithmetic
from lipaudit.graph.functions.terms import HALF, ONE, NotElementaryError
from lipaudit.graph.node import Argument, Node
from lipaudit.graph.ops import CASTS
from lipaudit.spectral.interval import PI, Interval

# gives the term of an argument, a tensor or a number; raises NotElementaryError where there is none
Operand = Callable[[Argument], int]


class Translator:
    """Terms of the outputs of nodes, given those of their operands."""

    def __init__(self, tape: Tape, operand: Operand) -> None:
        self.tape, self._operand = tape, operand

    def term(self, node: Node) -> int:
        """The output of a node.

        Raises:
            NotElementaryError: if it is no element-wise operation that is known here.
        """
        rule = _RULES.get(node.op)
        if rule is None:
            raise NotElementaryError(f"{node.op} is no element-wise operation that is known here")
        if not has_real_arithmetic(node):
            raise NotElementaryError(f"{node.op} has the arithmetic of other types than real numbers")
        return rule(self, node)

    def of(self, node: Node, key: str) -> int:
        """The term of an argument."""
        return self._operand(node[key])

    def number(self, node: Node, key: str, default: float | None = None) -> Fraction:
        """The exact number that an argument is."""
        argument = node.get(key, default)
        exact = None if argument is None else self.tape.exact(self._operand(argument))
        if exact is None:
            raise NotElementaryError(f"{key} is not a number")
        return exact

    def relu(self, a: int) -> int:
        """max(a, 0)."""
        return self.tape.maximum(a, self.tape.constant(0))

    def clamp(self, a: int, low: int | None, high: int | None) -> int:
        """min(max(a, low), high)."""
        raised = a if low is None else self.tape.maximum(a, low)
        return raised if high is None else self.tape.minimum(raised, high)

    def chosen(self, condition: int, yes: int, no: int) -> int:
        """``yes`` where the condition is 1, ``no`` where it is 0."""
        t = self.tape
        return t.select(t.sum([(ONE, condition)], -HALF), yes, no)


Rule = Callable[[Translator, Node], int]
_RULES: dict[str, Rule] = {}


def _rule(*ops: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for op in ops:
            name = op if "." in op and op.split(".")[0] in ("aten", "lipaudit") else f"aten.{op}"
            _RULES[name if name.count(".") == 2 or name.startswith("lipaudit.") else f"{name}.default"] = function
        return function

    return register


def _unary(**functions: Callable[[Tape, int], int]) -> None:
    for name, function in functions.items():
        _RULES[f"aten.{name}.default"] = lambda s, node, f=function: f(s.tape, s.of(node, "self"))  # type: ignore[misc]


def _logarithm(base: float) -> Callable[[Tape, int], int]:
    divisor = Interval.point(base).log()
    return lambda t, a: t.divide(t.function("log", a), t.between(divisor))


def _hyperbolic(sign: int) -> Callable[[Tape, int], int]:
    def function(t: Tape, a: int) -> int:
        return t.sum([(HALF, t.function("exp", a)), (HALF * sign, t.function("exp", t.scale(-1, a)))])

    return function


def _hard_sigmoid(t: Tape, a: int) -> int:
    return t.scale(Fraction(1, 6), t.minimum(t.maximum(t.sum([(ONE, a)], 3), t.constant(0)), t.constant(6)))


def _one_plus(t: Tape, a: int) -> int:
    return t.sum([(ONE, a)], 1)


_unary(
    neg=lambda t, a: t.scale(-1, a),
    positive=lambda _, a: a,
    clone=lambda _, a: a,
    reciprocal=lambda t, a: t.power(a, -1),
    square=lambda t, a: t.power(a, 2),
    sqrt=lambda t, a: t.power(a, HALF),
    rsqrt=lambda t, a: t.power(t.power(a, HALF), -1),
    exp=lambda t, a: t.function("exp", a),
    exp2=lambda t, a: t.function("exp", t.multiply(t.between(Interval.point(2.0).log()), a)),
    expm1=lambda t, a: t.sum([(ONE, t.function("exp", a))], -1),
    log=lambda t, a: t.function("log", a),
    log1p=lambda t, a: t.function("log", _one_plus(t, a)),
    log2=_logarithm(2.0),
    log10=_logarithm(10.0),
    sigmoid=lambda t, a: t.function("sigmoid", a),
    log_sigmoid=lambda t, a: t.scale(-1, t.function("softplus", t.scale(-1, a))),
    tanh=lambda t, a: t.tanh(a),
    erf=lambda t, a: t.function("erf", a),
    erfc=lambda t, a: t.sum([(-ONE, t.function("erf", a))], 1),
    sin=lambda t, a: t.function("sin", a),
    cos=lambda t, a: t.function("cos", a),
    atan=lambda t, a: t.function("atan", a),
    asinh=lambda t, a: t.function("asinh", a),
    sinh=_hyperbolic(-1),
    cosh=_hyperbolic(1),
    abs=lambda t, a: t.absolute(a),
    relu=lambda t, a: t.maximum(a, t.constant(0)),
    relu6=lambda t, a: t.minimum(t.maximum(a, t.constant(0)), t.constant(6)),
    hardsigmoid=_hard_sigmoid,
    hardswish=lambda t, a: t.multiply(a, _hard_sigmoid(t, a)),
    silu=lambda t, a: t.multiply(a, t.function("sigmoid", a)),
    mish=lambda t, a: t.multiply(a, t.tanh(t.function("softplus", a))),
    sign=lambda t, a: t.sum([(Fraction(2), t.step(a, HALF))], -1),
    logical_not=lambda t, a: t.sum([(-ONE, a)], 1),
    bitwise_not=lambda t, a: t.sum([(-ONE, a)], 1),
)


@_rule(*(f"{name}.{kind}" for name in ("add", "sub", "rsub") for kind in ("Tensor", "Scalar")))
def _sum(s: Translator, node: Node) -> int:
    first, second, alpha = s.of(node, "self"), s.of(node, "other"), s.number(node, "alpha", 1)
    if node.op.startswith("aten.rsub"):
        first, second = second, first
    return s.tape.sum([(ONE, first), (alpha if node.op.startswith("aten.add") else -alpha, second)])


@_rule("mul.Tensor", "mul.Scalar")
def _product(s: Translator, node: Node) -> int:
    return s.tape.multiply(s.of(node, "self"), s.of(node, "other"))


@_rule("div.Tensor", "div.Scalar")
def _quotient(s: Translator, node: Node) -> int:
    return s.tape.divide(s.of(node, "self"), s.of(node, "other"))


@_rule("addcmul", "addcdiv")
def _added(s: Translator, node: Node) -> int:
    a, b = s.of(node, "tensor1"), s.of(node, "tensor2")
    part = s.tape.divide(a, b) if node.op.startswith("aten.addcdiv") else s.tape.multiply(a, b)
    return s.tape.sum([(ONE, s.of(node, "self")), (s.number(node, "value", 1), part)])


@_rule("pow.Tensor_Scalar")
def _power(s: Translator, node: Node) -> int:
    return s.tape.power(s.of(node, "self"), s.number(node, "exponent"))


@_rule("pow.Scalar", "pow.Tensor_Tensor")
def _exponential(s: Translator, node: Node) -> int:
    base, exponent = s.of(node, "self"), s.of(node, "exponent")
    fixed, t = s.tape.exact(exponent), s.tape
    if fixed is not None:
        return t.power(base, fixed)
    return t.function("exp", t.multiply(exponent, t.function("log", base)))  # of a positive base only


@_rule("softplus")
def _softplus(s: Translator, node: Node) -> int:
    """The switch to the identity above a threshold of 20 or more is a step below float32 rounding."""
    beta, threshold = s.number(node, "beta", 1), s.number(node, "threshold", 20)
    if beta <= 0 or threshold < 20:
        raise NotElementaryError("a softplus that jumps")
    return s.tape.scale(1 / beta, s.tape.function("softplus", s.tape.scale(beta, s.of(node, "self"))))


@_rule("gelu")
def _gelu(s: Translator, node: Node) -> int:
    t, a = s.tape, s.of(node, "self")
    two = Interval.point(2.0)
    if node["approximate"] == "tanh":
        scale = t.between((two / PI).sqrt())
        inner = t.sum([(ONE, a), (Fraction(0.044715), t.power(a, 3))])
        return t.scale(HALF, t.multiply(a, _one_plus(t, t.tanh(t.multiply(scale, inner)))))
    inner = t.multiply(t.between((1.0 / two).sqrt()), a)
    return t.scale(HALF, t.multiply(a, _one_plus(t, t.function("erf", inner))))


@_rule("elu", "celu", "selu")
def _elu(s: Translator, node: Node) -> int:
    """scale (max(x, 0) + min(alpha (e^(input_scale x) - 1), 0))."""
    t, a, name = s.tape, s.of(node, "self"), node.op.split(".")[1]
    if name == "selu":
        alpha, scale, steepness = (
            Fraction(1.6732632423543772848170429916717),
            Fraction(1.0507009873554804934193349852946),
            ONE,
        )
    else:
        alpha = s.number(node, "alpha", 1.0)
        scale, steepness = (
            (s.number(node, "scale", 1), s.number(node, "input_scale", 1)) if name == "elu" else (ONE, ONE)
        )
        if name == "celu":
            if alpha <= 0:
                raise NotElementaryError("a celu with a negative alpha")
            steepness = 1 / alpha
    below = t.scale(alpha, t.sum([(ONE, t.function("exp", t.scale(steepness, a)))], -1))
    return t.scale(scale, s.chosen(t.step(a, 0), a, below))


@_rule("leaky_relu")
def _leaky_relu(s: Translator, node: Node) -> int:
    a = s.of(node, "self")
    return s.chosen(s.tape.step(a, 0), a, s.tape.scale(s.number(node, "negative_slope", 0.01), a))


@_rule("clamp", "clamp_min", "clamp_max", "hardtanh", "clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def _clamp(s: Translator, node: Node) -> int:
    limits = []
    for names in (("min", "min_val"), ("max", "max_val")):
        key = next((name for name in names if node.get(name) is not None), None)
        unlimited = key is None or node[key] in (math.inf, -math.inf)
        limits.append(None if unlimited or key is None else s.of(node, key))
    return s.clamp(s.of(node, "self"), *limits)


@_rule("maximum", "max.other", "minimum", "min.other", "fmax", "fmin")
def _extremum(s: Translator, node: Node) -> int:
    pick = s.tape.maximum if "max" in node.op else s.tape.minimum
    return pick(s.of(node, "self"), s.of(node, "other"))


@_rule("softshrink")
def _softshrink(s: Translator, node: Node) -> int:
    """x - clamp(x, -lambda, lambda)."""
    t, a, limit = s.tape, s.of(node, "self"), s.number(node, "lambd", 0.5)
    if limit < 0:
        raise NotElementaryError("a softshrink with a negative lambda")
    return t.subtract(a, s.clamp(a, t.constant(-limit), t.constant(limit)))


@_rule("threshold")
def _threshold(s: Translator, node: Node) -> int:
    t, a = s.tape, s.of(node, "self")
    limit, value = s.number(node, "threshold"), s.number(node, "value")
    return s.chosen(t.step(t.sum([(ONE, a)], -limit), 0), a, t.constant(value))


@_rule(*COMPARISONS)
def _comparison(s: Translator, node: Node) -> int:
    name = node.op.split(".")[1]
    difference = s.tape.subtract(s.of(node, "self"), s.of(node, "other"))
    if name in ("lt", "le"):
        difference = s.tape.scale(-1, difference)
    return s.tape.step(difference, int(name in ("ge", "le")))


@_rule("logical_and", "bitwise_and.Tensor", "__and__.Tensor", "logical_or", "bitwise_or.Tensor", "__or__.Tensor")
def _logical(s: Translator, node: Node) -> int:
    """p q, and p + q - p q."""
    p, q = s.of(node, "self"), s.of(node, "other")
    both = s.tape.multiply(p, q)
    return both if "and" in node.op else s.tape.sum([(ONE, p), (ONE, q), (-ONE, both)])


@_rule("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(s: Translator, node: Node) -> int:
    return s.chosen(s.of(node, "condition"), s.of(node, "self"), s.of(node, "other"))


@_rule("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(s: Translator, node: Node) -> int:
    return s.chosen(s.of(node, "mask"), s.of(node, "value"), s.of(node, "self"))


@_rule(*CASTS)
def _cast(s: Translator, node: Node) -> int:
    """From booleans, or to real numbers; what rounding to fewer digits moves is left out, as everywhere."""
    return s.of(node, "self")


@_rule("lipaudit.activation")
def _activation(s: Translator, node: Node) -> int:
    """An activation that has been recognised: a polynomial in x and in one function h of a polynomial."""
    t, x, expression = s.tape, s.of(node, "self"), node.payload.expression
    inner = expression.inner
    argument = t.sum((c, t.power(x, i)) for i, c in enumerate(inner.argument))
    match inner.function:
        case "clamp":
            limits = [None if math.isinf(limit) else t.constant(Fraction(limit)) for limit in (inner.low, inner.high)]
            h = s.clamp(argument, *limits)
        case "tanh_softplus":
            h = t.tanh(t.function("softplus", argument))
        case "tanh":
            h = t.tanh(argument)
        case name:
            h = t.function(name, argument)
    return t.sum((c, t.multiply(t.power(x, i), t.power(h, j))) for (i, j), c in expression.terms.items())


OPERATIONS = frozenset(_RULES)
# what has no finite slope by itself, so that a function that ends in it may have one only as a whole
STEEP = frozenset(
    f"aten.{name}"
    for name in (
        "reciprocal.default", "square.default", "sqrt.default", "rsqrt.default", "exp.default", "exp2.default",
        "expm1.default", "log.default", "log1p.default", "log2.default", "log10.default", "sinh.default",
        "cosh.default", "pow.Tensor_Scalar", "pow.Scalar", "threshold.default", "sign.default", "div.Tensor",
        "div.Scalar", "where.ScalarSelf", "where.ScalarOther", "where.self", "masked_fill.Scalar", "masked_fill.Tensor",
        "mul.Tensor", "mul.Scalar",
    )
)  # fmt: skip
