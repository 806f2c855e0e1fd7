"""Rigorous references: spectral norms of float64 matrices as arb balls, by Gram iteration in 400-bit arithmetic.

With S = ||A_{N+1}||_F^(2^-N) the Schatten-2^(N+1) norm, S m^(-1/2^(N+1)) <= sigma_1 <= S for the smaller side m. After
64 products the two ends agree to 19 digits, at any scale, since the exponents of arb are unbounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from flint import arb, arb_mat, ctx

from lipaudit.spectral.bracket import Bracket

PRODUCTS = 64
BITS = 400


@contextmanager
def precise() -> Iterator[None]:
    """Arithmetic with ``BITS`` bits, more than the 50 digits that are asked for even after all squarings."""
    before = ctx.prec
    ctx.prec = BITS
    try:
        yield
    finally:
        ctx.prec = before


def real_form(matrix: torch.Tensor) -> torch.Tensor:
    """[[Re, -Im], [Im, Re]]: real, with the singular values of a complex matrix (each twice)."""
    wide = matrix.to(torch.complex128)
    return torch.cat([torch.cat([wide.real, -wide.imag], 1), torch.cat([wide.imag, wide.real], 1)], 0)


def log_schatten_norm(matrix: torch.Tensor, products: int) -> arb:
    """log of the Schatten-2^(products + 1) norm of the numbers stored in a non-zero matrix."""
    real = real_form(matrix) if matrix.is_complex() else matrix.to(torch.float64)
    real = real if real.shape[0] >= real.shape[1] else real.T
    with precise():
        iterate = arb_mat([[arb(x) for x in row] for row in real.tolist()])
        for _ in range(products):
            iterate = iterate.transpose() * iterate
        squares = sum((x * x for x in iterate.entries()), arb(0))
        if matrix.is_complex():
            squares = squares / 2  # the real form has every singular value twice
        return squares.log() / 2 ** (products + 1)


def log_spectral_norm(matrix: torch.Tensor) -> arb:
    """A ball of radius below 1e-18 that holds log sigma_1 of the numbers stored in a non-zero matrix."""
    log_schatten = log_schatten_norm(matrix, PRODUCTS)
    with precise():
        log_overshoot = arb(min(matrix.shape)).log() / 2 ** (PRODUCTS + 1)
        return (log_schatten - log_overshoot).union(log_schatten)


def check_bracket(bracket: Bracket, log_exact: arb) -> None:
    """Both ends of a bracket are on their sides of the exact value, in logarithms and in plain units."""
    with precise():
        assert log_exact.rad() < 1e-15
        assert not arb(bracket.log_upper) < log_exact, (bracket, log_exact)
        assert not arb(bracket.log_lower) > log_exact, (bracket, log_exact)
        exact = log_exact.exp()
        assert not arb(bracket.upper) < exact
        assert not arb(bracket.lower) > exact
