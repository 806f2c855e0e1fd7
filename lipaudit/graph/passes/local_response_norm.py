"""Local response normalisation, x_i / (k + a s_i)^b with s_i = sum of x_j^2 over the channels j in a window around i.

The Jacobian is diag(D^-b) - M with D_i = k + a s_i and M_ij = 2 a b x_i x_j D_i^(-b-1) for j in the window of i. The channel i is in its
own window, so that |x_i| <= sqrt(s_i), and

    |(M v)_i| <= 2 b a s_i D_i^(-b-1) ||v_window|| = 2 b (D_i - k) D_i^(-b-1) ||v_window||,

which is largest at D_i = k (b + 1) / b: 2 k^-b (b / (b + 1))^(b+1). Every channel is in at most m windows, m the smaller of their size
and the number of channels, so that the constant is at most k^-b (1 + 2 sqrt(m) (b / (b + 1))^(b+1)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import torch

from lipaudit.graph.evaluate import evaluate_together
from lipaudit.graph.functions.normal_form import number
from lipaudit.graph.node import Argument, Node, Ref
from lipaudit.graph.ops import VIEWS
from lipaudit.graph.pattern import OTHER_OPERATION, GraphIndex, Match, Matcher, NoMatch
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval

RESPONSE_NORM = "lipaudit.response_norm"
_NOT_CHANNELS = NoMatch("what is divided has no channels, or is broadcast")
_NOT_A_POWER = NoMatch("the divisor is no power of k + a s")
_NOT_POSITIVE = NoMatch("k, a or the exponent is not a positive number")
_NO_WINDOWS = NoMatch("s is no mean of the squares over windows of channels around each one")


@dataclass(frozen=True, eq=False)
class ResponseNorm:
    """``windows`` bounds in how many windows a channel is; ``shift`` and ``exponent`` are k and b; ``nodes`` compute it."""

    windows: int
    shift: Fraction
    exponent: Fraction
    source: str
    nodes: tuple[Node, ...]

    @property
    def constant(self) -> Bracket:
        """k^-b (1 + 2 sqrt(m) (b / (b + 1))^(b+1)), rounded up."""
        shift, b = Interval.of(self.shift), Interval.of(self.exponent)
        falling = ((b / (b + 1.0)).log() * (b + 1.0)).exp()
        largest = (-b * shift.log()).exp() * (1.0 + 2.0 * Interval.point(float(self.windows)).sqrt() * falling)
        return Bracket.at_most(largest.high)

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        """The normalised tensor, in the dtype of ``x``."""
        return evaluate_together(self.nodes, {self.source: x})


def matcher(index: GraphIndex) -> Matcher:
    """Matches quotients of a tensor by a power of the mean of its squares over windows of channels."""
    producers = index.producers

    def match(node: Node) -> Match | NoMatch:
        if node.op != "aten.div.Tensor":
            return OTHER_OPERATION
        norm = _response_norm(node, producers)
        if isinstance(norm, NoMatch):
            return norm
        new = replace(node, op=RESPONSE_NORM, arguments={"self": node["self"]}, payload=norm)
        return Match((new,), merged=tuple(n.name for n in norm.nodes[:-1]))

    return match


def _response_norm(node: Node, producers: Mapping[str, Node]) -> ResponseNorm | NoMatch:
    x = node["self"]
    if not isinstance(x, Ref) or x.info != node.output or len(x.info.shape) < 3:
        return _NOT_CHANNELS
    chain = [node]

    def inner(argument: Argument, *ops: str) -> Node | None:
        producer = producers[argument.name] if isinstance(argument, Ref) else None
        if producer is None or producer.op not in ops:
            return None
        chain.append(producer)
        return producer

    power = inner(node["other"], "aten.pow.Tensor_Scalar")
    shifted = power and inner(power["self"], "aten.add.Tensor", "aten.add.Scalar")
    scaled = shifted and inner(shifted["self"], "aten.mul.Tensor", "aten.mul.Scalar")
    if power is None or shifted is None or scaled is None or number(shifted["alpha"]) != 1:
        return _NOT_A_POWER
    exponent, shift, factor = number(power["exponent"]), number(shifted["other"]), number(scaled["other"])
    if exponent is None or shift is None or factor is None or not min(exponent, shift, factor) > 0:
        return _NOT_POSITIVE
    below = scaled["self"]
    while (view := inner(below, *VIEWS)) is not None:
        below = view["self"]
    windows = _windows(below, x, inner)
    return _NO_WINDOWS if windows is None else ResponseNorm(windows, shift, exponent, x.name, tuple(reversed(chain)))


def _windows(pooled: Argument, x: Ref, inner: Callable[..., Node | None]) -> int | None:
    """How many windows of channels around one hold it at most, from the mean over them back to the squares; None for anything else."""
    pool = inner(pooled, "aten.avg_pool2d.default", "aten.avg_pool3d.default")
    pad = pool and inner(pool["self"], "aten.pad.default", "aten.constant_pad_nd.default")
    view = pad and inner(pad["self"], *VIEWS)
    square = view and inner(view["self"], "aten.mul.Tensor", "aten.square.default")
    if pool is None or pad is None or view is None or square is None or any(ref != x for ref in square.refs):
        return None
    if square.op == "aten.mul.Tensor" and len(square.refs) != 2:
        return None
    batch, channels = x.info.shape[:2]
    size = pool["kernel_size"][0] if isinstance(pool["kernel_size"], tuple) else None
    if not isinstance(size, int):
        return None
    rank = int(pool.op[len("aten.avg_pool")])
    ones, zeros = (1,) * (rank - 1), (0,) * (2 * rank - 2)
    plain = pool["kernel_size"] == (size, *ones) and pool["stride"] == (1, *ones) and pool["padding"] == (0,) * rank
    around = pad["pad"] == (*zeros, size // 2, (size - 1) // 2) and pad.get("mode", "constant") == "constant"
    filled = pad.get("value") in (None, 0, 0.0)
    flat = view.output.shape[:3] == (batch, 1, channels) and pool.get("divisor_override") is None
    kept = math.prod(pool.output.shape) == math.prod(x.info.shape)
    return min(size, channels) if plain and around and filled and flat and kept else None
