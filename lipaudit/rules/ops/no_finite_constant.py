"""Operations without a finite constant: jumps and products of many entries of one data-dependent tensor.

Each is named with the reason, so that a report says why no finite bound exists and what could be done about it.
"""

from __future__ import annotations

from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.rule import operations

_JUMPS = ("sign", "sgn", "round", "floor", "ceil", "trunc", "fix", "frac")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGICAL = ("logical_not", "logical_and", "logical_or", "logical_xor", "isnan", "isinf", "isfinite")


@operations(
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
).constant(formula="unbounded", source="the function jumps")
def jump(node: Node, _settings: Settings) -> Effect:
    """A function that jumps: two inputs arbitrarily close to each other have outputs a fixed distance apart."""
    return Effect.unbounded(f"{_short(node)} jumps: arbitrarily close inputs give outputs a fixed distance apart")


@operations("aten.prod.default", "aten.prod.dim_int", "aten.cumprod.default").constant(
    formula="unbounded", source="a product of entries of the input"
)
def product_of_entries(node: Node, _settings: Settings) -> Effect:
    """Products of entries of one data-dependent tensor."""
    return Effect.unbounded(
        f"{_short(node)} multiplies entries of one data-dependent tensor: no finite constant holds over all inputs"
    )


def _short(node: Node) -> str:
    return node.op.split(".")[1]
