"""Steps of gradient descent: y = x - A^T D s(A x), D a diagonal of numbers d_i >= 0, s an activation of every entry.

For two inputs s(u) - s(u') = S (u - u') with a diagonal S of slopes in [a, b], so that

    y - y' = (I - A^T D S A) (x - x'),

a symmetric matrix whose eigenvalues lie in [1 - max(b, 0) N, 1 + max(-a, 0) N], N = ||D^1/2 A||^2. The constant is the larger of
max(b, 0) N - 1 and 1 + max(-a, 0) N: 1 for a ReLU wherever N <= 2. Convex-potential layers (Meunier et al., *A Dynamical System Perspective
for Lipschitz Neural Networks*, ICML 2022) and SDP-based layers (Araujo et al., *A Unified Algebraic Perspective on Lipschitz Neural
Networks*, ICLR 2023) are of this kind. The product rule says 1 + ||A|| ||D A|| instead.

Weights of a network are A and B with y = x + B s(A x). D is fitted to B unit by unit. What is left, R = B + A^T D, adds at most
||R|| ||A|| max(|a|, |b|), and so does what folding may have moved the weights by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from lipaudit.graph.linear import CONVOLUTION, DENSE, Dense
from lipaudit.graph.node import Node
from lipaudit.graph.passes.folding_errors import exact_norm, margin, unknown
from lipaudit.network.entrywise import slopes
from lipaudit.network.part import Part, Shortcut
from lipaudit.rules.effect import Status
from lipaudit.spectral.bracket import Bracket, Rigor
from lipaudit.spectral.convolution.banded import banded_work, is_norm_at_most
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.inertia import is_covered, norm_near
from lipaudit.spectral.convolution.power_iteration import lower_bound
from lipaudit.spectral.oracle import certified_norm
from lipaudit.spectral.rounding import UNIT_ROUNDOFF, composed, is_finite, scale_to_unit
from lipaudit.spectral.work import Work

# Norms are found this closely where N may be 2, and less closely before that is known.
_TOLERANCES = (1e-3, 1e-6)
# By how much N may be above 2 without being looked at again; what is tried then.
_CLOSE = 1e-6
_EXCESSES = (1e-7, 1e-6, 4e-6, 2e-5, 1e-4, 1e-3)
_FIRST_FACTORISATION, _LANCZOS_STEPS = 1e9, 60
# What every step may spend on its border for each weight of its kernel: two or three times what the norm over all frequencies costs.
_PER_WEIGHT = 5e5
# What B may be off the form A^T D by, relative to it: far more than rounding, far less than another weight.
_LARGEST_REST = 1e-4
_UP = 1 + 2.0**-30
_UNSETTLED = "step, any size"
# How far a norm may be above what the operator itself stretches, and still be called that of its own image size.
_ATTAINED = 1e-5
_SUMS = {"aten.add.Tensor": 1.0, "aten.sub.Tensor": -1.0}


def gradient_step(node: Node, part: Part) -> Shortcut | None:
    """The constant of a block that ends in a sum x + B s(A x) with B = -A^T D."""
    if node.op not in _SUMS or node.get("alpha", 1) != 1 or len(node.refs) != 2:
        return None
    first, second = part.node(node["self"]), part.node(node["other"])
    if first is None or second is None:
        return None
    for skip, last in ((first, second), (second, first)):  # |B s(A x) - x| = |x - B s(A x)|
        found = _step(skip, last, _SUMS[node.op], part)
        if found is not None and skip.output.shape == node.output.shape:
            constant, settled = found
            return Shortcut(skip.name, constant, "gradient step" if settled else _UNSETTLED, whole=True)
    return None


def _step(source: Node, last: Node, sign: float, part: Part) -> tuple[Bracket, bool] | None:
    """The constant of x + sign B s(A x), ``last`` being the product with B, and whether its border is accounted for."""
    activation = part.before(last)
    inner = None if activation is None else part.before(activation)
    if activation is None or inner is None or part.before(inner) is not source:
        return None
    stretch, size = (part.effects[n.name] for n in (activation, inner))
    if any(e.status is not Status.FINITE or len(e.factors) != 1 for e in (stretch, size)):
        return None
    interval = slopes(activation, stretch.factors[0].upper)
    if interval is None or activation.refs[0].info.shape != activation.output.shape:
        return None
    fit = _dense(inner, last, sign) if last.op == DENSE else _convolutions(inner, last, sign)
    if fit is None:
        return None
    low, high = interval
    norm, settled = _norm(fit, size.factors[0], max(high, 0.0), part.work)
    square = norm.upper**2 * _UP
    constant = max(1.0, max(high, 0.0) * square - 1.0, 1.0 + max(-low, 0.0) * square)
    # B* = -A*^T D + (A* - A)^T D + R + (B* - B) for the weights A* and B* that the stored numbers define
    rest = margin(inner.payload) * fit.largest + fit.rest + margin(last.payload)
    total = (constant + rest * max(abs(low), abs(high)) * size.factors[0].upper) * _UP
    unsure = unknown(last.payload) or unknown(inner.payload)
    rigors = (stretch.rigor, size.rigor, norm.rigor, Rigor.NUMERICAL if unsure else Rigor.CERTIFIED)
    return Bracket.at_most(total, Rigor.weakest(rigors)), settled


@dataclass(frozen=True, eq=False)
class _Fit:
    """B = -A^T D + R: D^1/2 A, the largest entry of D, a bound of ||R||."""

    scaled: Dense | Convolution
    largest: float
    rest: float


def _dense(inner: Node, last: Node, sign: float) -> _Fit | None:
    """Of two matrices."""
    if inner.op != DENSE or inner.payload.weight.shape != last.payload.weight.shape[::-1]:
        return None
    a, b = inner.payload.weight.to(torch.float64), sign * last.payload.weight.to(torch.float64).T
    fitted = _fit(a, b)
    if fitted is None:
        return None
    roots, rest = fitted
    return _Fit(Dense(a * roots[:, None], composed(inner.payload.error)), float(roots.max()) ** 2 * _UP, rest)


def _convolutions(inner: Node, last: Node, sign: float) -> _Fit | None:
    """Of a convolution and one with the adjoint's geometry."""
    if inner.op != CONVOLUTION or last.op != CONVOLUTION or inner.payload.transposed:
        return None
    a: Convolution = inner.payload
    kernel = _as_adjoint(a, last.payload)
    if kernel is None or kernel.shape != a.kernel.shape:
        return None
    own = a.kernel.to(torch.float64)
    fitted = _fit(own.flatten(1), sign * kernel.to(torch.float64).flatten(1))
    if fitted is None:
        return None
    roots, rest = fitted
    scaled = a.with_kernel(own * roots.reshape(-1, *(1,) * (own.dim() - 1)), error=composed(a.error), moved=0.0)
    if a.moved:
        return None  # its error is not one of every unit
    # every tap is a matrix that is applied to shifted pixels
    return _Fit(scaled, float(roots.max()) ** 2 * _UP, math.sqrt(math.prod(a.kernel_size)) * rest)


def _as_adjoint(a: Convolution, b: Convolution) -> torch.Tensor | None:
    """The kernel of the convolution whose adjoint b is, laid out as that of a; None where the geometry is another one."""
    if b.transposed:
        return b.kernel if b.adjoint().geometry == replace(a, output_padding=()).geometry else None
    opposite = tuple((e - 1 - left, e - 1 - right) for e, (left, right) in zip(a.extent, a.padding, strict=True))
    fits = b.input_size == a.output_size and b.output_size == a.input_size and b.padding == opposite
    plain = all(s == 1 for s in (*a.stride, *b.stride)) and a.groups == b.groups == 1 and a.dilation == b.dilation
    if not fits or not plain or a.padding_mode != b.padding_mode or a.padding_mode not in ("zeros", "circular"):
        return None
    return b.kernel.transpose(0, 1).flip(tuple(range(2, b.kernel.dim())))


def _fit(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, float] | None:
    """The roots of d_i >= 0 with b_i near -d_i a_i, row by row, and ||b + d a||_F; None where b is no such multiple of a."""
    if not a.numel() or not is_finite(a) or not is_finite(b):
        return None
    squares = a.square().sum(1)
    d = torch.where(squares > 0, -(a * b).sum(1) / squares.clamp_min(1e-300), 0.0).clamp_min(0.0)
    roots = d.sqrt()
    multiple = roots.square()[:, None] * a
    rest, size = (float(torch.linalg.vector_norm(m)) * _UP for m in (b + multiple, b))
    rounding = 8 * UNIT_ROUNDOFF * (size + float(torch.linalg.vector_norm(multiple)))
    return (roots, rest + rounding) if rest <= _LARGEST_REST * size else None


def _norm(fit: _Fit, plain: Bracket, steepest: float, work: Work) -> tuple[Bracket, bool]:
    """A bound of ||D^1/2 A||, as close as it has to be: ||A|| is known, and often enough; False where the border may lower it.

    A bound that the operator attains on its own image size, as that of a matrix written out, is not lowered by the border.
    """
    bound, lower = Bracket.at_most(math.sqrt(fit.largest) * plain.upper * _UP, plain.rigor), 0.0
    for tolerance in _TOLERANCES:
        if steepest * bound.upper**2 * _UP <= 2:
            break
        linear = fit.scaled.weight if isinstance(fit.scaled, Dense) else fit.scaled
        measured = exact_norm(certified_norm(linear, tolerance).bracket, fit.scaled)
        lower = max(lower, measured.lower)
        if measured.upper < bound.upper:
            bound = measured
    if isinstance(fit.scaled, Convolution) and steepest * bound.upper**2 > 2 * (1 + _CLOSE):
        work.allow(_PER_WEIGHT * fit.scaled.kernel.numel())
        closer = _with_border(fit.scaled, bound, max(math.sqrt(2 / steepest), lower), work)
        attained = bound.upper <= lower * (1 + _ATTAINED)
        return closer or bound, attained or closer is not None or banded_work(fit.scaled) == math.inf
    return bound, True


def _with_border(scaled: Convolution, bound: Bracket, least: float, work: Work) -> Bracket | None:
    """A bound that is just above the ``least`` that is worth anything, for the operator with its border; None where none is proved."""
    if is_covered(scaled) and banded_work(scaled) > _FIRST_FACTORISATION:
        kernel, exponent = scale_to_unit(scaled.kernel.to(torch.float64), scaled.weight.dim())
        found = lower_bound(scaled.with_kernel(kernel), None, _LANCZOS_STEPS) + float(exponent) * math.log(2)
        for excess in _EXCESSES[2:]:
            limit = max(least, math.exp(found)) * (1 + excess)
            norm = norm_near(scaled, limit, work) if limit < bound.upper else None
            if norm is not None and norm < bound.upper:
                return exact_norm(Bracket.at_most(norm, bound.rigor), scaled)
    for excess in _EXCESSES:
        limit = least * (1 + excess)
        if limit < bound.upper and work.take(banded_work(scaled)) and is_norm_at_most(scaled, limit):
            return exact_norm(Bracket.at_most(limit, bound.rigor), scaled)
    return None
