"""Norms and means of powers written out: sqrt(sum x^2), sqrt(re^2 + im^2 + eps), l2 and Lp pooling, GeM.

All are (A |u|^p + e)^(1/p), taken entry by entry, with p >= 2, numbers e >= 0 and a matrix A of non-negative numbers: sums, means,
average pooling, convolutions with non-negative weights, filter banks. Row j is a weighted p-norm of (u, e^(1/p)), so that by the
reverse triangle inequality (Minkowski)

    |y_j(u) - y_j(v)|^2 <= (sum_i A_ji |u_i - v_i|^p)^(2/p) <= sum_i A_ji^(2/p) |u_i - v_i|^2,

the second step because 2/p <= 1. The constant is the root of max_i sum_j A_ji^(2/p), attained for e = 0 along the axis of that i. For
p = 2 these are the column sums of A. Larger p are taken where all non-zero entries of A are one number a: then A_ji^(2/p) =
A_ji a^(2/p - 1). A maximum with a number between the steps, as of a clamp, changes nothing of the first inequality.

Where u is a selection of entries of one tensor (real and imaginary parts, channels), the matrix is taken with respect to that tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import torch

from lipaudit.graph.evaluate import evaluate_together
from lipaudit.graph.functions.normal_form import number
from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.graph.ops import CASTS
from lipaudit.graph.passes.power_sum_matrix import column_sums, uniform_entry
from lipaudit.graph.passes.power_sums import POWERS, PowerSum, is_selection
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NewNodes, NoMatch
from lipaudit.spectral.bracket import Bracket, Rigor, log_up

POWER_MEAN = "lipaudit.power_mean"
# Column sums are computed with at most about 2^20 terms each, in float64.
_ROUNDING = 2.0**-30
# |log| of the smallest and of the largest number of float32 and float64: where exponents are reciprocal up to rounding, p q = 1 + d, the
# mean is one of these powers of itself steeper
_LOG_RANGE, _LOG_RANGE_FLOAT64 = 104.0, 745.2
_ENTRYWISE = {f"aten.{name}.{kind}" for name in ("add", "mul", "div") for kind in ("Tensor", "Scalar")} | CASTS
_NOT_POWERS = NoMatch("the root is not taken of a sum of powers with weights that are not negative")
_SEVERAL_POWERS = NoMatch("the powers have different exponents")
_ONE_ENTRY = NoMatch("a function of one entry, which is more than a norm")
_NO_SUMS = NoMatch("the weights are not known, not finite, or too many")
_OTHER_WEIGHTS = NoMatch("the weights of powers other than squares are not all the same number")
_NOT_HYPOT = NoMatch("the operands of hypot are not selections of one tensor")


@dataclass(frozen=True, eq=False)
class PowerMean:
    """``factors`` bound the slope in each operand, jointly the root of the sum of squares; ``nodes`` compute the mean from ``sources``."""

    order: float
    factors: tuple[Bracket, ...]
    sources: tuple[str, ...]
    nodes: tuple[Node, ...]

    def evaluate(self, *tensors: torch.Tensor) -> torch.Tensor:
        """The mean, in the dtype of its operands."""
        return evaluate_together(self.nodes, dict(zip(self.sources, tensors, strict=True)))


def matcher(index: GraphIndex) -> Matcher:
    """Matches roots of sums of powers."""

    def match(node: Node) -> Match | NoMatch:
        order = _root(node)
        if order is None or not node.output.dtype.is_floating_point:
            return OTHER_OPERATION
        total = PowerSum(index.producers, order[0])
        if not total.reads(node["self"]) or not total.leaves:
            return _NOT_POWERS
        mean = _power_mean(node, total, index, order)
        if isinstance(mean, NoMatch):
            return mean
        sources = [Ref(name, index.producers[name].output) for name in mean.sources]
        arguments: dict[str, Argument] = {"tensors": tuple(sources)}
        new = replace(node, op=POWER_MEAN, arguments=arguments, payload=mean)
        return Match((new,), merged=tuple(n.name for n in mean.nodes[:-1]))

    return match


def hypot_matcher(index: GraphIndex) -> Matcher:
    """Matches hypot of selections of one tensor, and writes it out: together they may hold an entry once, not twice."""

    def match(node: Node) -> Match | NoMatch:
        if node.op != "aten.hypot.default":
            return OTHER_OPERATION
        if len(node.refs) < 2 or len({_origin(ref.name, index.producers) for ref in node.refs}) != 1:
            return _NOT_HYPOT
        new = NewNodes(index, node)
        squares = [
            new.add(f"square_{key}", "aten.square.default", {"self": node[key]}, ref.info.shape)
            for key, ref in zip(("self", "other"), node.refs, strict=True)
        ]
        total = new.add(
            "sum", "aten.add.Tensor", {"self": squares[0], "other": squares[1], "alpha": 1}, node.output.shape
        )
        new.add("root", "aten.sqrt.default", {"self": total}, node.output.shape)
        return new.match("aten.sqrt.default")

    return match


def _origin(name: str, producers: Mapping[str, Node]) -> str:
    """The tensor that a node holds a selection of entries of."""
    while is_selection(producers[name], producers):
        name = producers[name].refs[0].name
    return name


def _root(node: Node) -> tuple[Fraction, Fraction] | None:
    """p >= 2 of a p-th root, and the exponent; None for any other operation."""
    if node.op == "aten.sqrt.default":
        return Fraction(2), Fraction(1, 2)
    exponent = number(node["exponent"]) if node.op in POWERS else None
    return (
        (1 / exponent, exponent)
        if exponent is not None and 0 < exponent <= Fraction(1, 2) + Fraction(1, 10**6)
        else None
    )


def _power_mean(
    node: Node, total: PowerSum, index: GraphIndex, order: tuple[Fraction, Fraction]
) -> PowerMean | NoMatch:
    if len(total.powers) != 1:
        return _SEVERAL_POWERS
    (power,) = total.powers
    sources, selections = total.sources()
    mixing = {*selections, *(n.name for n in total.nodes.values() if n.op not in _ENTRYWISE)} - {
        *total.leaves,
        *total.passed,
    }
    if len(sources) == 1 and not mixing:
        return _ONE_ENTRY
    chain = sorted({**total.nodes, **selections}.values(), key=lambda n: index.position[n.name])
    largest = column_sums(chain, total, sources)
    if largest is None:
        return _NO_SUMS
    entry = uniform_entry(chain, total)
    if entry is None and power != 2:
        return _OTHER_WEIGHTS
    error = abs(power * order[1] - 1)
    reach = _LOG_RANGE_FLOAT64 if node.output.dtype == torch.float64 else _LOG_RANGE
    slack = math.exp(float(error) * reach) * (1 + float(error))
    rigor = Rigor.NUMERICAL if error else Rigor.CERTIFIED
    factors = tuple(_factor(top, entry, power, slack, rigor) for top in largest)
    return PowerMean(float(power), factors, tuple(sources), (*chain, node))


def _factor(top: float, entry: Fraction | None, power: Fraction, slack: float, rigor: Rigor) -> Bracket:
    """The root of a largest column sum of A_ji^(2/p)."""
    if entry is None:
        return Bracket(-math.inf, log_up(math.sqrt(top) * (1 + _ROUNDING) * slack), rigor)
    count = round(top / float(entry))  # how many entries of a column are not 0
    if power == 2:
        root = math.sqrt(float(count * entry))
        if slack == 1 and Fraction(root) ** 2 == count * entry:
            return Bracket.exact(root, rigor)
    else:
        root = math.sqrt(count) * float(entry) ** (1 / float(power))
    return Bracket(-math.inf, log_up(root * (1 + 2.0**-45) * slack), rigor)
