"""Gram iteration: certified brackets of the spectral norm of dense matrices.

[P] Delattre, Barthelemy, Araujo, Allauzen, *Efficient Bound of Lipschitz Constant for Convolutional Layers by Gram
Iteration*, ICML 2023. With A_1 = A and A_{t+1} = A_t* A_t, the number ||A_{N+1}||_F^(2^-N) is the Schatten-2^(N+1) norm
of A: an upper bound of sigma_1 that decreases to it superlinearly ([P] Theorem 3; the index counts Gram products).

Rounding. Let e_t bound the relative error of the product, ||fl(A_t* A_t) - A_t* A_t||_F <= e_t ||A_t||_F^2. Then
sigma_1(A_t)^2 <= sigma_1(fl(A_t* A_t)) + e_t ||A_t||_F^2, and unwinding this from the last iterate, whose Frobenius
norm bounds its sigma_1, gives an upper bound that holds for the exact product. All scalings are powers of two and
therefore exact.

The bracket. The column of largest norm of the last iterate is nearly a right singular vector v, so ||A v|| / ||v|| <=
sigma_1 is a lower bound. Once it is close, one Cholesky factorisation proves sigma_1 <= lower (1 + tolerance), see
``cholesky_certificate``.
"""

from __future__ import annotations

import math

import torch

from lipaudit.spectral.bracket import Bracket, log_down, log_up, round_down, round_up
from lipaudit.spectral.matrix.cholesky_certificate import is_below
from lipaudit.spectral.matrix.lanczos import leading_vectors
from lipaudit.spectral.rounding import (
    as_float64,
    frobenius_squared_up,
    gamma,
    log_power_of_two,
    product_error,
    scale_to_unit,
)

# The shares of the tolerance at which a certificate is tried: lower bounds are usually far closer than asked for.
SLACKS = (0.05, 0.99)
# Before these, for a Gram matrix that is nearly a multiple of the identity: any vector's quotient is its norm then.
FLAT = 1e-3
# How near, in the Frobenius norm, relative to that multiple and the root of the size.
_NEARLY = 1e-2
# Columns of a block of a Gram matrix.
BLOCK = 512
# The Schatten norm of a matrix with m columns exceeds sigma_1 by at most m^(1/2^(N+1)): 1e-12 after this many products.
MAX_PRODUCTS = 48


class GramIteration:
    """Gram iteration on one matrix; each call of :meth:`step` takes one more Gram product.

    The matrix is (p, q), real or complex; it is transposed when that makes the Gram matrix smaller. All logarithms are
    natural.

    Raises:
        ValueError: if it is not a matrix.
        NonFiniteWeightsError: if it holds NaN or infinity.

    >>> iteration = GramIteration(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> for _ in range(6): iteration.step()
    >>> iteration.log_lower() <= math.log(4) <= iteration.log_upper() < math.log(4.0001)
    True
    """

    def __init__(self, matrix: torch.Tensor) -> None:
        wide = as_float64(matrix, "the matrix")
        if matrix.dim() != 2:
            raise ValueError(f"Gram iteration takes a matrix, not a tensor of shape {tuple(matrix.shape)}")
        self.transposed = wide.shape[0] < wide.shape[1]
        self.is_zero = wide.numel() == 0 or not bool(wide.any())
        wide = wide.mH.resolve_conj() if self.transposed else wide
        self.scaled, exponent = scale_to_unit(wide, dims=2) if not self.is_zero else (wide, 0.0)
        self.exponent = float(exponent)
        self.iterate = self.scaled
        self.gram: torch.Tensor | None = None
        self._scales: list[float] = []  # the power of two taken out of each product
        self._errors: list[float] = []  # e_t ||A_t||_F^2

    @property
    def products(self) -> int:
        """The number of Gram products taken."""
        return len(self._scales)

    def step(self) -> None:
        """A_{t+1} = A_t* A_t, rescaled by a power of two."""
        error = product_error(self.iterate.shape[0], complex_entries=self.iterate.is_complex())
        self._errors.append(error * float(frobenius_squared_up(self.iterate, 2)))
        self.iterate, exponent = scale_to_unit(gram_product(self.iterate), dims=2)
        self._scales.append(float(exponent))
        if self.gram is None:
            self.gram = self.iterate

    def log_upper(self) -> float:
        """log of the certified Schatten-2^(N+1) norm, N the number of products taken."""
        if self.is_zero:
            return -math.inf
        bound = log_up(round_up(math.sqrt(float(frobenius_squared_up(self.iterate, 2)))))
        for scale, error in zip(reversed(self._scales), reversed(self._errors), strict=True):
            # sigma_1(A_t) <= sqrt(2^scale * bound + error)
            bound = Bracket.sum(
                (Bracket(-math.inf, round_up(bound + log_power_of_two(scale)[1])), Bracket.at_most(error))
            ).log_upper
            bound = round_up(bound / 2)
        return round_up(bound + log_power_of_two(self.exponent)[1])

    def log_lower(self, vector: torch.Tensor | None = None) -> float:
        """log(||A v|| / ||v||) rounded down, v = :meth:`singular_vector` unless one is given."""
        if self.is_zero:
            return -math.inf
        v = self.singular_vector() if vector is None else vector
        image = self.scaled @ v
        slack = product_error(self.scaled.shape[1], complex_entries=self.scaled.is_complex())
        slack *= math.sqrt(float(frobenius_squared_up(self.scaled, 2)))
        length = float(torch.linalg.vector_norm(v)) * (1 + gamma(2 * v.numel() + 8))
        stretched = float(torch.linalg.vector_norm(image)) * (1 - gamma(2 * image.numel() + 8))
        ratio = stretched / length * (1 - 2**-50) - slack * (1 + 2**-50)
        if not ratio > 0:
            return -math.inf
        return round_down(log_down(ratio) + log_power_of_two(self.exponent)[0])

    def certifies(self, log_bound: float) -> bool:
        """Whether sigma_1 <= exp(log_bound) is proved by one Cholesky factorisation of the first Gram matrix."""
        if self.is_zero:
            return True
        if self.gram is None:
            return False
        # everything in units of the rescaled first Gram matrix; exp and its argument are rounded down
        unscaled = round_down(log_bound - log_power_of_two(self.exponent)[1])
        relative = round_down(2 * unscaled - log_power_of_two(self._scales[0])[1])
        threshold = round_down(math.exp(min(relative, 700.0)))
        error = round_up(self._errors[0] * 2.0 ** -self._scales[0])
        return bool(is_below(self.gram[None], error, threshold))

    def singular_vector(self) -> torch.Tensor:
        """A unit vector near a leading right singular vector of the (possibly transposed) matrix.

        The column of largest norm of the iterate ([P] appendix A), improved in its Krylov space.
        """
        if self.gram is None:
            column = self.scaled[torch.linalg.vector_norm(self.scaled, dim=1).argmax()].conj()
            return column / float(torch.linalg.vector_norm(column))
        column = self.iterate[:, torch.linalg.vector_norm(self.iterate, dim=0).argmax()]
        # a step costs n^2, the Gram product that it may save n^3
        return leading_vectors(self.gram[None], column[None], steps=24 + self.gram.shape[0] // 64)[0]


def gram_product(matrix: torch.Tensor) -> torch.Tensor:
    """A* A of a matrix (p, q); of a wide one only the blocks on and below the diagonal are computed, and mirrored.

    >>> gram_product(torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
    tensor([[1., 2.],
            [2., 5.]])
    """
    columns = matrix.shape[1]
    if columns < 2 * BLOCK:
        return matrix.mH @ matrix
    product = matrix.new_empty(columns, columns)
    for start in range(0, columns, BLOCK):
        stop = min(start + BLOCK, columns)
        product[start:, start:stop] = matrix[:, start:].mH @ matrix[:, start:stop]
        product[start:stop, stop:] = product[stop:, start:stop].mH
    return product


def spectral_norm(weight: torch.Tensor, tol: float = 1e-3) -> Bracket:
    """Certified bracket of the largest singular value sigma_1 of a matrix, the l2 Lipschitz constant of x -> W x.

    Equals ``torch.linalg.matrix_norm(weight, 2)``, with bounds on both sides instead of an approximation.

    Args:
        weight: (p, q), real or complex, any floating dtype; its numbers are taken exactly.
        tol: upper / lower <= 1 + tol on return; at least 1e-9.

    Raises:
        ValueError: if ``weight`` is not a matrix or ``tol`` is out of range.
        NonFiniteWeightsError: if it holds NaN or infinity.

    >>> b = spectral_norm(torch.tensor([[3.0, 0.0], [4.0, 0.0]]), tol=1e-6)
    >>> b.lower <= 5.0 <= b.upper <= 5.0 * (1 + 1e-6)
    True
    """
    check_tolerance(tol)
    iteration = GramIteration(weight)
    lower, upper = -math.inf, iteration.log_upper()
    if iteration.is_zero:
        return Bracket(lower, upper)
    allowed = math.log1p(tol)
    for _ in range(MAX_PRODUCTS):
        iteration.step()
        lower = max(lower, iteration.log_lower())
        upper = min(upper, iteration.log_upper())
        for slack in slacks(iteration.gram):
            target = lower + slack * allowed
            if upper > target and iteration.certifies(target):
                upper = target
                break
        if upper - lower <= allowed:
            break
    return Bracket(min(lower, upper), upper)


def slacks(gram: torch.Tensor | None) -> tuple[float, ...]:
    """The shares of the tolerance to try for Gram matrices (..., n, n) of one size: a small one first where all of them are flat.

    >>> slacks(2 * torch.eye(3)), slacks(torch.diag(torch.tensor([1.0, 2.0])))
    ((0.001, 0.05, 0.99), (0.05, 0.99))
    """
    if gram is None or not gram.numel():
        return SLACKS
    size = gram.shape[-1]
    mean = gram.diagonal(dim1=-2, dim2=-1).real.mean(-1, keepdim=True)
    off = gram.clone()
    off.diagonal(dim1=-2, dim2=-1).sub_(mean)
    distance = torch.linalg.vector_norm(off, dim=(-2, -1))
    return (FLAT, *SLACKS) if bool((distance <= _NEARLY * mean[..., 0] * math.sqrt(size)).all()) else SLACKS


def check_tolerance(tol: float) -> None:
    """Refuse a tolerance that float64 cannot certify or that means nothing."""
    if not 1e-9 <= tol <= 1:
        raise ValueError(f"the tolerance must lie between 1e-9 and 1, not {tol}")
