"""Gram iteration on a batch of matrices of which only the largest norm is wanted.

The iteration of ``gram`` on every matrix at once ([P] Algorithm 3 runs it over frequencies). One Rayleigh quotient is a
lower bound of the maximum, so that matrices whose Schatten bound, or a comparison, proves them smaller leave the batch
before the next product. Logarithms here are to base 2; the margins of each operation are added to them.
"""

from __future__ import annotations

import math

import torch

from lipaudit.spectral.bracket import Bracket, round_down, round_up
from lipaudit.spectral.matrix.cholesky_certificate import is_below
from lipaudit.spectral.matrix.gram import MAX_PRODUCTS, SLACKS, check_tolerance, slacks
from lipaudit.spectral.matrix.lanczos import leading_vectors
from lipaudit.spectral.rounding import (
    as_float64,
    frobenius_squared_up,
    gamma,
    log_power_of_two,
    product_error,
    scale_to_unit,
)

# Rounding of one base-2 logarithm of a float64, of a sum of two exponentials, and of the sums around them.
_LOG_MARGIN = 2.0**-40
# Matrices of a batch whose Rayleigh quotient is improved after each product, and by how many steps.
IMPROVED, LANCZOS_STEPS = 4, 16


def largest_spectral_norm(matrices: torch.Tensor, tol: float = 1e-3, log_floor: float = -math.inf) -> Bracket:
    """Certified bracket of max_b sigma_1(A_b) over a batch, the norm of the block-diagonal operator.

    Args:
        matrices: (batch, p, q), real or complex.
        tol: upper / lower <= 1 + tol on return.
        log_floor: log of a known lower bound of the maximum, which saves products if it is close.

    Raises:
        ValueError: if the shape is not a batch of matrices or ``tol`` is out of range.
        NonFiniteWeightsError: if an entry is NaN or infinite.

    >>> a = torch.stack([torch.eye(3), torch.full((3, 3), 2.0)])
    >>> b = largest_spectral_norm(a, tol=1e-6)
    >>> b.lower <= 6.0 <= b.upper <= 6.0 * (1 + 1e-6)
    True
    """
    check_tolerance(tol)
    if matrices.dim() != 3:
        raise ValueError(f"a batch of matrices has 3 axes, not the shape {tuple(matrices.shape)}")
    wide = as_float64(matrices, "the matrices")
    if wide.numel() == 0 or not bool(wide.any()):
        return Bracket(-math.inf, -math.inf)
    wide = wide.mH.resolve_conj() if wide.shape[1] < wide.shape[2] else wide
    first, exponent = scale_to_unit(wide, dims=3)  # one scale for all, so that they can be compared
    down, up = log_power_of_two(float(exponent))
    floor = round_down(math.exp(min(700.0, round_down(log_floor - up)))) if log_floor > -math.inf else 0.0
    best, ceiling = _iterate(first, tol, floor)
    lower = round_down(math.log(best) + down) if best > 0 else -math.inf
    upper = round_up(round_up(ceiling * math.log(2), 8) + up)
    return Bracket(min(lower, upper), upper)


def _iterate(first: torch.Tensor, tol: float, floor: float) -> tuple[float, float]:
    """The best lower bound (plain) and the largest upper bound (base-2 logarithm) of the scaled matrices."""
    complex_entries = first.is_complex()
    iterate, grams, gram_errors = first, first, torch.zeros(len(first), dtype=torch.float64)
    scales: list[torch.Tensor] = []
    errors: list[torch.Tensor] = []
    best, ceiling = floor, -math.inf
    allowed = math.log2(1 + tol)
    for product in range(MAX_PRODUCTS):
        error = product_error(iterate.shape[1], complex_entries=complex_entries) * frobenius_squared_up(iterate, 2)
        iterate, exponent = scale_to_unit(iterate.mH @ iterate, dims=2)
        errors.append(error)
        scales.append(exponent)
        if product == 0:
            grams, gram_errors = iterate, error * torch.exp2(-exponent) * (1 + 2**-50)
        best = max(best, _rayleigh(first, iterate))
        bounds = _unwind(iterate, scales, errors)
        target = math.log2(best) + SLACKS[-1] * allowed if best > 0 else -math.inf
        keep = bounds > target
        for slack in slacks(grams) if best > 0 else ():
            if bool(keep.any()):
                claim = math.log2(best) + slack * allowed
                threshold = torch.exp2(2 * claim - scales[0][keep]) * (1 - 2**-38)
                proved = is_below(grams[keep], gram_errors[keep], threshold)
                keep[keep.clone()] = ~proved
                ceiling = max(ceiling, claim + _LOG_MARGIN) if bool(proved.any()) else ceiling
        dropped = bounds[~keep]
        smaller = dropped[dropped <= target]
        ceiling = max(ceiling, float(smaller.max())) if len(smaller) else ceiling
        if not bool(keep.any()):
            return best, ceiling
        if float(bounds[keep].max()) <= math.log2(best) + allowed - _LOG_MARGIN:
            break
        first, iterate, grams, gram_errors = first[keep], iterate[keep], grams[keep], gram_errors[keep]
        scales, errors = [s[keep] for s in scales], [e[keep] for e in errors]
    return best, max(ceiling, float(_unwind(iterate, scales, errors).max()))


def _unwind(iterate: torch.Tensor, scales: list[torch.Tensor], errors: list[torch.Tensor]) -> torch.Tensor:
    """log2 of sigma_1(A_t) <= sqrt(2^scale sigma_1(A_{t+1}) + error), from ||A_{N+1}||_F back to the first."""
    bound = frobenius_squared_up(iterate, 2).log2() / 2 + _LOG_MARGIN
    for scale, error in zip(reversed(scales), reversed(errors), strict=True):
        bound = torch.logaddexp2(bound + scale, error.log2()) / 2 + _LOG_MARGIN
    return bound


def _rayleigh(first: torch.Tensor, iterate: torch.Tensor) -> float:
    """The largest ||A v|| / ||v|| of the batch, rounded down.

    v is the iterate's column of largest norm; that of the most promising matrices is improved in its Krylov space.
    """
    column = torch.linalg.vector_norm(iterate, dim=1).argmax(-1)
    vectors = iterate[torch.arange(len(iterate)), :, column]
    ratios = _quotients(first, vectors)
    some = ratios.topk(min(IMPROVED, len(ratios))).indices
    some = some[torch.linalg.vector_norm(vectors[some], dim=-1) > 2.0**-500]
    if not len(some):
        return 0.0
    better = _quotients(first[some], leading_vectors(iterate[some], vectors[some], LANCZOS_STEPS))
    return max(0.0, float(ratios.max()), float(better.max()))


def _quotients(first: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """||A v|| / ||v|| of every matrix, rounded down; 0 for a vector of zeros."""
    length = torch.linalg.vector_norm(v, dim=-1)
    image = torch.bmm(first, v[..., None])[..., 0]
    slack = product_error(first.shape[2], complex_entries=first.is_complex()) * frobenius_squared_up(first, 2).sqrt()
    rounding = (1 - gamma(4 * (v.shape[-1] + image.shape[-1]) + 32)) / (1 + 2**-50)
    ratio = torch.linalg.vector_norm(image, dim=-1) / length.clamp_min(2.0**-500) * rounding - slack * (1 + 2**-50)
    return torch.where(length > 2.0**-500, ratio, 0.0)
