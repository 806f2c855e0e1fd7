"""The series of the exponential of a skew-symmetric map: y = x + L x + L^2 x / 2! + ... + L^n x / n!.

exp(L) is orthogonal for L^T = -L, so that y, which lacks the tail of the series, has a constant of at most

    1 + sum_{k <= n} |c_k - 1 / k!| t^k + sum_{k > n} t^k / k!,    t = ||L||,

for the coefficients c_k that the weights really have. This is the skew orthogonal convolution of Singla and Feizi (*Skew Orthogonal
Convolutions*, ICML 2021), whose products the product rule would bound by exp(t). The adjoint of a convolution with zero or circular "same"
padding has the flipped and transposed kernel. For what L is off by, its symmetric part S counts: ||exp(L)|| <= exp(||S||) (the logarithmic
norm of Dahlquist).
"""

from __future__ import annotations

import math

import torch

from lipaudit.graph.linear import CONVOLUTION, DENSE
from lipaudit.graph.node import Argument, Node
from lipaudit.graph.passes.folding_errors import margin, unknown
from lipaudit.network.part import Part, Shortcut
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, is_finite

_UP = 1 + 2.0**-30
# A step that differs from a multiple of the first by more, relative to it, is another map.
_SAME = 1e-6
# Longer maps have a tail that is worth nothing.
_LARGEST = 16.0
_FEWEST, _MOST = 2, 64


def skew_exponential(node: Node, part: Part) -> Shortcut | None:
    """The constant of a sum of the terms of an exponential series, at its last addition."""
    terms = _terms(node, part)
    steps = None if terms is None else _chain(terms, part)
    if steps is None:
        return None
    source, *maps = steps
    effect = part.effects[maps[0].name]
    if effect.status is not Status.FINITE or len(effect.factors) != 1 or effect.factors[0].upper > _LARGEST:
        return None
    symmetric = _symmetric_part(maps[0])
    ratios = [_ratio(step, maps[0]) for step in maps]
    if symmetric is None or any(ratio is None for ratio in ratios):
        return None
    constant = _constant(effect.factors[0].upper, symmetric, [r for r in ratios if r is not None])
    unsure = any(unknown(step.payload) for step in maps)
    rigor = Rigor.weakest((effect.rigor, Rigor.NUMERICAL if unsure else Rigor.CERTIFIED))
    return Shortcut(source.name, Bracket.at_most(constant * _UP, rigor), "skew exponential", whole=True)


def _terms(node: Node, part: Part) -> list[Node] | None:
    """The summands of nested additions; None where there are fewer than a series has."""
    if node.op != "aten.add.Tensor":
        return None
    terms, waiting = list[Node](), list[Argument](node[key] for key in ("self", "other"))
    if node["alpha"] != 1:
        return None
    while waiting and len(terms) <= _MOST:
        term = part.node(waiting.pop())
        if term is None:
            return None
        if term.op == "aten.add.Tensor" and term["alpha"] == 1:
            waiting += [term["self"], term["other"]]
        else:
            terms.append(term)
    return terms if _FEWEST < len(terms) <= _MOST else None


def _chain(terms: list[Node], part: Part) -> list[Node] | None:
    """The terms in their order: the source, then a linear map of each one before."""
    following: dict[str, Node] = {}
    first: list[Node] = []
    names = {term.name for term in terms}
    for term in terms:
        before = part.before(term) if term.op in (CONVOLUTION, DENSE) else None
        if before is None or before.name not in names:
            first.append(term)
        elif before.name in following:
            return None
        else:
            following[before.name] = term
    if len(names) != len(terms) or len(first) != 1:
        return None
    chain = first
    while chain[-1].name in following:
        chain.append(following[chain[-1].name])
    return chain if len(chain) == len(terms) else None


def _kernel(node: Node) -> torch.Tensor:
    kernel: torch.Tensor = node.payload.kernel if node.op == CONVOLUTION else node.payload.weight
    return kernel.to(torch.float64)


def _taps(node: Node) -> int:
    return math.prod(node.payload.kernel_size) if node.op == CONVOLUTION else 1


def _size(node: Node, kernel: torch.Tensor) -> float:
    """A bound of the norm of the map with another kernel: every tap is a matrix that is applied to shifted pixels."""
    return math.sqrt(_taps(node)) * float(torch.linalg.vector_norm(kernel)) * _UP


def _symmetric_part(node: Node) -> float | None:
    """A bound of ||(L + L^T) / 2||; None where the adjoint is not known."""
    kernel = _kernel(node)
    if kernel.shape[0] != kernel.shape[1] or not is_finite(kernel):
        return None
    if node.op == CONVOLUTION:
        c = node.payload
        centred = all(left == right and 2 * left == e - 1 for e, (left, right) in zip(c.extent, c.padding, strict=True))
        if (
            not centred
            or c.transposed
            or c.groups != 1
            or set(c.stride) != {1}
            or c.padding_mode not in ("zeros", "circular")
        ):
            return None
    adjoint = kernel.transpose(0, 1).flip(tuple(range(2, kernel.dim())))
    return _size(node, kernel + adjoint) / 2 + 2 * margin(node.payload)


def _ratio(node: Node, first: Node) -> tuple[float, float] | None:
    """r and a bound of ||M - r L|| for the map M of a step; None where it is no multiple of L, the first one."""
    if node.op != first.op or (node.op == CONVOLUTION and node.payload.geometry != first.payload.geometry):
        return None
    kernel, base = _kernel(node), _kernel(first)
    square = float(base.square().sum())
    if kernel.shape != base.shape or not square > 0 or not is_finite(kernel):
        return None
    ratio = float((kernel * base).sum()) / square
    rest = _size(node, kernel - ratio * base) + 8 * UNIT_ROUNDOFF * _size(node, kernel)
    if rest > _SAME * _size(node, kernel):
        return None
    return ratio, rest + margin(node.payload) + abs(ratio) * margin(first.payload)


def _constant(t: float, symmetric: float, ratios: list[tuple[float, float]]) -> float:
    """exp(||S||) + sum |c_k - 1 / k!| t^k + tail + what the steps are off by."""
    total = math.exp(symmetric)
    coefficient, wide, exact = 1.0, 1.0, 1.0
    for k, (ratio, rest) in enumerate(ratios, 1):
        coefficient *= ratio
        wide *= abs(ratio) * t + rest
        exact /= k
        rounded = 4 * k * UNIT_ROUNDOFF * (abs(coefficient) + exact)
        total += (abs(coefficient - exact) + rounded) * t**k + max(wide - abs(coefficient) * t**k, 0.0) * _UP
    term = exact * t ** len(ratios)
    for k in range(len(ratios) + 1, len(ratios) + 200):
        term *= t / k
        total += term
    return total * _UP + term
