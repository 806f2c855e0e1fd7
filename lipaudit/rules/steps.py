"""Operations without a finite constant: jumps, unbounded slopes, and products of data-dependent tensors.

Each is named with the reason, so that a report says why no finite bound exists and what could be done about it.
"""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.rules.operands import number, stretch
from lipaudit.rules.registry import Effect, Settings, rule

_JUMPS = ("sign", "sgn", "round", "floor", "ceil", "trunc", "fix", "frac")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGICAL = ("logical_not", "logical_and", "logical_or", "logical_xor", "isnan", "isinf", "isfinite")
_STEEP = (
    "square",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sinh",
    "cosh",
    "tan",
)


@rule(
    *(f"aten.{name}.default" for name in (*_JUMPS, *_LOGICAL)),
    *(f"aten.{name}.{kind}" for name in _COMPARISONS for kind in ("Scalar", "Tensor")),
    "aten.remainder.Scalar",
    "aten.remainder.Tensor",
    "aten.fmod.Scalar",
    "aten.fmod.Tensor",
    "aten.floor_divide.default",
    "aten.floor_divide.Scalar",
    "aten.round.decimals",
    "aten.argmax.default",
    "aten.argmin.default",
    "aten.argsort.default",
    "aten.argsort.stable",
    formula="unbounded",
    source="the function jumps",
)
def jump(node: Node, _settings: Settings) -> Effect:
    """A function that jumps: two inputs arbitrarily close to each other have outputs a fixed distance apart."""
    return Effect.unbounded(f"{_short(node)} jumps: arbitrarily close inputs give outputs a fixed distance apart")


@rule(*(f"aten.{name}.default" for name in _STEEP), formula="unbounded", source="sup of |f'| is infinite")
def steep(node: Node, _settings: Settings) -> Effect:
    """An element-wise function whose slope grows beyond every bound."""
    return Effect.unbounded(f"the slope of {_short(node)} has no finite bound over all inputs")


@rule(
    "aten.pow.Tensor_Scalar",
    formula="1 for exponent 1, 0 for exponent 0, else unbounded",
    source="sup of |f'|",
    exact=True,
)
def power(node: Node, _settings: Settings) -> Effect:
    """x^p: the slope p x^(p - 1) is bounded for p = 0 and p = 1 only."""
    exponent = number(node, "exponent")
    if exponent in (0.0, 1.0):
        return stretch(node, {"self": exponent})
    return Effect.unbounded(f"the slope of x**{exponent:g} has no finite bound over all inputs")


@rule("aten.pow.Tensor_Tensor", "aten.pow.Scalar", formula="unbounded", source="sup of |f'| is infinite")
def exponentiation(_node: Node, _settings: Settings) -> Effect:
    """Powers with a tensor of exponents."""
    return Effect.unbounded("a power with a tensor of exponents has no finite slope bound over all inputs")


@rule(
    "aten.var.default", "aten.var.dim", "aten.var.correction",
    "aten.var_mean.default", "aten.var_mean.dim", "aten.var_mean.correction",
    formula="unbounded", source="a quadratic form",
)  # fmt: skip
def variance(_node: Node, _settings: Settings) -> Effect:
    """The variance is quadratic: its gradient grows with the input."""
    return Effect.unbounded("a variance is quadratic in its input; the standard deviation would have a finite constant")


@rule(
    "aten.prod.default", "aten.prod.dim_int", "aten.cumprod.default", "aten.glu.default",
    formula="unbounded", source="a product of entries of the input",
)  # fmt: skip
def product_of_entries(node: Node, _settings: Settings) -> Effect:
    """Products of entries of one data-dependent tensor (glu multiplies one half by the sigmoid of the other)."""
    return Effect.unbounded(
        f"{_short(node)} multiplies entries of one data-dependent tensor: no finite constant holds over all inputs"
    )


@rule(
    "aten.cdist.default", "aten._cdist_forward.default", "aten.lstm.input", "aten.gru.input",
    formula="unsupported", source="no constant is derived",
)  # fmt: skip
def not_derived(node: Node, _settings: Settings) -> Effect:
    """Operations for which lipaudit derives no constant."""
    return Effect.unsupported(
        f"lipaudit has no bound for {_short(node)}; audit the parts of the network before and after it"
    )


def _short(node: Node) -> str:
    return node.op.split(".")[1]
