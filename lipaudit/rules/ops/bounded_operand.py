"""Functions whose slope has no bound over all inputs, but has one where their operand is bounded.

On an interval [low, high] that holds every entry the constant of an element-wise function is the supremum of |f'| on that
interval (mean value theorem): powers, exponentials, roots, logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from lipaudit.graph.node import Node
from lipaudit.graph.ops import aten
from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.interval_facets import NOT_NEGATIVE, of_entries
from lipaudit.rules.operands import number, stretch
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.rule import operations
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

BOUNDED_SLOPE = "mean value theorem on the interval that holds every entry"


_LOG2, _LOG10 = Interval.point(2.0).log(), Interval.point(10.0).log()


def _where_positive(slope: Callable[[Interval], Interval], pole: float = 0.0) -> Callable[[Interval], Interval]:
    """The slope of a function that is defined above a pole only."""
    return lambda x: slope(x) if x.low > pole else Interval()


@dataclass(frozen=True)
class _Function:
    """``slope`` encloses f' on an interval, the whole line where f is not defined or not smooth on it; ``image`` encloses f."""

    slope: Callable[[Interval], Interval]
    image: Callable[[Interval], Interval]


FUNCTIONS: dict[str, _Function] = {
    "square": _Function(lambda x: 2.0 * x, lambda x: x**2),
    "exp": _Function(Interval.exp, Interval.exp),
    "exp2": _Function(lambda x: _LOG2 * (x * _LOG2).exp(), lambda x: (x * _LOG2).exp()),
    "expm1": _Function(Interval.exp, Interval.expm1),
    "log": _Function(_where_positive(lambda x: 1.0 / x), Interval.log),
    "log2": _Function(_where_positive(lambda x: 1.0 / (x * _LOG2)), lambda x: x.log() / _LOG2),
    "log10": _Function(_where_positive(lambda x: 1.0 / (x * _LOG10)), lambda x: x.log() / _LOG10),
    "log1p": _Function(_where_positive(lambda x: 1.0 / (1.0 + x), -1.0), Interval.log1p),
    "sqrt": _Function(_where_positive(lambda x: 0.5 / x.sqrt()), Interval.sqrt),
    "rsqrt": _Function(_where_positive(lambda x: 0.5 * x**-1.5), lambda x: x**-0.5),
    "reciprocal": _Function(lambda x: x**-2, lambda x: 1.0 / x),
    "sinh": _Function(Interval.cosh, Interval.sinh),
    "cosh": _Function(Interval.sinh, Interval.cosh),
    "tan": _Function(lambda x: 1.0 + x.tan() ** 2, Interval.tan),
}
POWER = operations(*aten("pow.Tensor_Scalar"))


def _by_slope(reason: str, slope: Callable[[Interval], Interval]) -> Effect:
    """The largest slope on an interval that holds every entry: no lower bound, as none of its numbers need occur."""

    def given(operands: tuple[Magnitude, ...]) -> Effect:
        largest = operands[0].least(lambda interval: Bracket.at_most(slope(interval).largest))
        return Effect.unbounded(reason) if largest.log_upper == math.inf else Effect.stretch(largest)

    return Effect.where_bounded(reason, given)


@operations(*aten(*FUNCTIONS)).constant(
    formula="unbounded; sup |f'| on the interval that holds every entry", source=BOUNDED_SLOPE, entrywise=True,
    where_bounded=True,
)  # fmt: skip
def steep(node: Node, _settings: Settings) -> Effect:
    """An element-wise function whose slope grows beyond every bound."""
    name = node.op.split(".")[1]
    reason = f"the slope of {name} has no finite bound over all inputs"
    return _by_slope(reason, FUNCTIONS[name].slope)


for _name, _function in FUNCTIONS.items():
    operations(*aten(_name)).interval(of_entries(_function.image))


@POWER.constant(
    formula="1 for exponent 1, 0 for exponent 0, else unbounded; sup |p x^(p-1)| on the interval that holds every entry",
    source=BOUNDED_SLOPE, exact=True, entrywise=True, where_bounded=True,
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


@POWER.interval
def powers(node: Node, intervals: tuple[Interval, ...]) -> Interval:
    """x^p; even powers are not negative, nor are powers of what is not negative, also where nothing else is known."""
    exponent = number(node, "exponent")
    image = intervals[0] ** exponent
    return image.within(NOT_NEGATIVE) if intervals[0].low >= 0 or exponent % 2 == 0 else image


@operations(*aten("pow.Tensor_Tensor", "pow.Scalar")).constant(formula="unbounded", source="sup of |f'| is infinite")
def exponentiation(_node: Node, _settings: Settings) -> Effect:
    """Powers with a tensor of exponents."""
    return Effect.unbounded("a power with a tensor of exponents has no finite slope bound over all inputs")
