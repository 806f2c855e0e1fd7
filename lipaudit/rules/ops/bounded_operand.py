"""Functions whose slope has no bound over all inputs, but has one where their operand is bounded.

On an interval [low, high] that holds every entry the constant of an element-wise function is the supremum of |f'| on that
interval (mean value theorem): powers, exponentials, roots, logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lipaudit.graph.node import Node
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.operands import number, stretch
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.rule import rule
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

BOUNDED_SLOPE = "mean value theorem on the interval that holds every entry"


_LOG2, _LOG10 = Interval.point(2.0).log(), Interval.point(10.0).log()


def _where_positive(slope: Callable[[Interval], Interval], pole: float = 0.0) -> Callable[[Interval], Interval]:
    """The slope of a function that is defined above a pole only."""
    return lambda x: slope(x) if x.low > pole else Interval()


# |f'| of every entry of an interval, the whole line where the function is not defined or not smooth on it
_SLOPES: dict[str, Callable[[Interval], Interval]] = {
    "square": lambda x: 2.0 * x,
    "exp": Interval.exp,
    "exp2": lambda x: _LOG2 * (x * _LOG2).exp(),
    "expm1": Interval.exp,
    "log": _where_positive(lambda x: 1.0 / x),
    "log2": _where_positive(lambda x: 1.0 / (x * _LOG2)),
    "log10": _where_positive(lambda x: 1.0 / (x * _LOG10)),
    "log1p": _where_positive(lambda x: 1.0 / (1.0 + x), -1.0),
    "sqrt": _where_positive(lambda x: 0.5 / x.sqrt()),
    "rsqrt": _where_positive(lambda x: 0.5 * x**-1.5),
    "reciprocal": lambda x: x**-2,
    "sinh": Interval.cosh,
    "cosh": Interval.sinh,
    "tan": lambda x: 1.0 + x.tan() ** 2,
}


def _by_slope(reason: str, slope: Callable[[Interval], Interval]) -> Effect:
    """The largest slope on an interval that holds every entry: no lower bound, as none of its numbers need occur."""

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        found = operands[0].least(lambda interval: Bracket.at_most(slope(interval).largest))
        return Effect.unbounded(reason) if found.log_upper == math.inf else Effect.stretch(found)

    return Effect.where_bounded(reason, given)


@rule(
    *(f"aten.{name}.default" for name in _SLOPES),
    formula="unbounded; sup |f'| on the interval that holds every entry", source=BOUNDED_SLOPE, entrywise=True,
    where_bounded=True,
)  # fmt: skip
def steep(node: Node, _settings: Settings) -> Effect:
    """An element-wise function whose slope grows beyond every bound."""
    name = node.op.split(".")[1]
    reason = f"the slope of {name} has no finite bound over all inputs"
    return _by_slope(reason, _SLOPES[name])


@rule(
    "aten.pow.Tensor_Scalar",
    formula="1 for exponent 1, 0 for exponent 0, else unbounded; sup |p x^(p-1)| on the interval that holds every entry",
    source=BOUNDED_SLOPE, exact=True, entrywise=True,
    where_bounded=True,
)  # fmt: skip
def power(node: Node, _settings: Settings) -> Effect:
    """x^p: the slope p x^(p - 1) is bounded over all inputs for p = 0 and p = 1 only."""
    exponent = number(node, "exponent")
    if exponent in (0.0, 1.0):
        return stretch(node, {"self": exponent})
    if not math.isfinite(exponent):
        return Effect.unsupported(f"a power with the exponent {exponent:g}")

    def slope(x: Interval) -> Interval:
        if exponent != int(exponent):
            return exponent * x ** (exponent - 1) if x.low >= 0 else Interval()  # not a number for negative entries
        return exponent * x ** (exponent - 1)

    return _by_slope(f"the slope of x**{exponent:g} has no finite bound over all inputs", slope)


@rule("aten.pow.Tensor_Tensor", "aten.pow.Scalar", formula="unbounded", source="sup of |f'| is infinite")
def exponentiation(_node: Node, _settings: Settings) -> Effect:
    """Powers with a tensor of exponents."""
    return Effect.unbounded("a power with a tensor of exponents has no finite slope bound over all inputs")
