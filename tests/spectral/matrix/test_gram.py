"""Gram iteration: the Schatten norms that it computes, its convergence, its lower bound."""

from __future__ import annotations

import math

import pytest
import torch
from flint import arb

from lipaudit.spectral.matrix.gram import GramIteration
from tests.spectral.matrices import SPECIAL, gaussian, random_matrix, repeated, sylvester
from tests.spectral.reference import log_schatten_norm, log_spectral_norm, precise

CASES = {name: SPECIAL[name] for name in SPECIAL if name not in ("subnormal beside huge", "entries 1e-300 to 1e300")}


@pytest.mark.parametrize("name", CASES)
def test_after_n_products_the_bound_is_the_schatten_norm(name: str) -> None:
    """||A_{N+1}||_F^(2^-N) = Schatten-2^(N+1): p = 2 before the first product, 4 after it, 8 after two ..."""
    iteration = GramIteration(CASES[name])
    for products in range(8):
        assert iteration.products == products
        exact = log_schatten_norm(CASES[name], products)
        with precise():
            excess = arb(iteration.log_upper()) - exact
            assert excess > 0
            # relative to the logarithm, whose last bit is coarse for entries of 1e300
            assert excess < 1e-12 + 1e-14 * abs(exact)
        iteration.step()


def test_the_bound_decreases_and_overshoots_by_the_stated_factor_at_most() -> None:
    for seed in range(40):
        matrix = random_matrix(seed)
        if not bool(matrix.any()):
            continue
        side = min(matrix.shape)
        iteration = GramIteration(matrix)
        with precise():
            exact = log_spectral_norm(matrix)
        previous = math.inf
        for products in range(10):
            bound = iteration.log_upper()
            assert bound <= previous + 1e-12
            with precise():
                assert arb(bound) < exact + arb(side).log() / 2 ** (products + 1) + 1e-11
            previous = bound
            iteration.step()


def test_the_overshoot_is_attained_where_all_singular_values_are_equal() -> None:
    iteration = GramIteration(sylvester(4))
    for products in range(12):
        expected = math.log(4) + math.log(16) / 2 ** (products + 1)
        assert iteration.log_upper() == pytest.approx(expected, abs=1e-12)
        iteration.step()


@pytest.mark.parametrize("shape", [(3, 50), (50, 3)])
def test_the_gram_matrix_is_on_the_smaller_side(shape: tuple[int, int]) -> None:
    iteration = GramIteration(gaussian(0, *shape))
    iteration.step()
    assert iteration.iterate.shape == (3, 3)
    assert iteration.transposed == (shape == (3, 50))


def test_many_products_neither_overflow_nor_vanish() -> None:
    for matrix in (SPECIAL["huge"], SPECIAL["subnormal"], SPECIAL["complex"], repeated(1, 6, 6)):
        iteration = GramIteration(matrix)
        exact = log_spectral_norm(matrix)
        for _ in range(60):
            iteration.step()
        with precise():
            assert exact < arb(iteration.log_upper()) < exact + 1e-10


@pytest.mark.parametrize("name", SPECIAL)
def test_the_lower_bound_of_every_vector_is_one(name: str) -> None:
    matrix = SPECIAL[name]
    exact = log_spectral_norm(matrix)
    iteration = GramIteration(matrix)
    side = iteration.scaled.shape[1]
    vectors = [*torch.eye(side, dtype=iteration.scaled.dtype), torch.ones(side, dtype=iteration.scaled.dtype) * 1e-3]
    _, _, right = torch.linalg.svd(iteration.scaled)
    vectors.append(right[0].conj())
    for products in range(3):
        for vector in [None, *vectors]:
            with precise():
                assert not arb(iteration.log_lower(vector)) > exact, products
        iteration.step()
    best = iteration.log_lower(right[0].conj())
    with precise():
        assert arb(best) > exact - 1e-9


def test_the_singular_vector_attains_the_norm() -> None:
    for shape in ((7, 5), (5, 7)):
        matrix = gaussian(1, *shape)
        iteration = GramIteration(matrix)
        for _ in range(4):
            iteration.step()
        vector = iteration.singular_vector()
        assert float(torch.linalg.vector_norm(vector)) == pytest.approx(1.0)
        side = matrix.T if iteration.transposed else matrix
        norm = float(torch.linalg.matrix_norm(matrix, 2))
        assert float(torch.linalg.vector_norm(side @ vector)) == pytest.approx(norm, rel=1e-9)


def _float_below(exact: arb) -> float:
    """A float provably below the exact value, by little more than the spacing of floats."""
    log = float(exact.lower())
    while not arb(log) < exact:
        log = math.nextafter(log, -math.inf)
    return log


def test_no_claim_below_the_norm_is_certified_at_any_scale() -> None:
    """The scale's logarithm (up to 700) is subtracted from the claim: its rounding dwarfs that of the difference."""
    generator = torch.Generator().manual_seed(0)
    for power in (-1020, -700, -1, 0, 1, 700, 1020):
        for _ in range(60):
            value = (0.5 + 0.5 * float(torch.rand((), dtype=torch.float64, generator=generator))) * 2.0**power
            iteration = GramIteration(torch.eye(2, dtype=torch.float64) * value)
            iteration.step()
            with precise():
                false_claim = _float_below(arb(value).log())
            assert not iteration.certifies(false_claim)
            assert iteration.certifies(false_claim + 1e-10)


def test_false_claims_about_random_matrices_are_not_certified() -> None:
    certified = 0
    for seed in range(100):
        matrix = random_matrix(500 + seed)
        if not bool(matrix.any()):
            continue
        iteration = GramIteration(matrix)
        assert not iteration.certifies(1000.0), "nothing is proved before the first product"
        iteration.step()
        with precise():
            false_claim = _float_below(log_spectral_norm(matrix))
        assert not iteration.certifies(false_claim)
        assert not iteration.certifies(false_claim - 1e-6)
        certified += iteration.certifies(false_claim + 1e-9)
    assert certified > 80


def test_a_zero_matrix_needs_no_iteration() -> None:
    iteration = GramIteration(torch.zeros(3, 2))
    assert iteration.log_upper() == iteration.log_lower() == -math.inf
    assert iteration.certifies(-1e9)


@pytest.mark.parametrize("columns", [1, 3])
def test_what_rounding_loses_in_a_product_is_given_back(columns: int) -> None:
    """1 + 2^-54 + 2^-54 + ... loses the small terms that meet the large one; the exact sum is known."""
    rows = 100_000
    matrix = torch.full((rows, columns), 2.0**-27, dtype=torch.float64)
    matrix[0] = 1.0
    iteration = GramIteration(matrix)
    with precise():
        exact = (arb(columns) * (1 + arb(rows - 1) * arb(2) ** -54)).log() / 2
        for _ in range(4):
            assert arb(iteration.log_upper()) > exact
            iteration.step()
        assert not arb(iteration.log_lower()) > exact
