"""Dense spectral norms against 400-bit references."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from lipaudit.errors import NonFiniteWeightsError
from lipaudit.spectral.bracket import Rigor
from lipaudit.spectral.matrix.gram import spectral_norm
from tests.spectral.matrices import SPECIAL, gaussian, random_matrix, sylvester
from tests.spectral.reference import check_bracket, log_spectral_norm

TOLERANCES = (1e-3, 1e-6)


def check(matrix: torch.Tensor, tol: float) -> None:
    bracket = spectral_norm(matrix, tol)
    assert bracket.rigor is Rigor.CERTIFIED
    assert bracket.log_lower <= bracket.log_upper
    if not bool(matrix.any()):
        assert bracket.log_upper == -math.inf
        return
    check_bracket(bracket, log_spectral_norm(matrix))
    assert bracket.log_upper - bracket.log_lower <= math.log1p(tol) * (1 + 1e-9)


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_matrices(name: str, tol: float) -> None:
    check(SPECIAL[name], tol)


@pytest.mark.parametrize("tol", TOLERANCES)
def test_random_matrices(tol: float) -> None:
    for seed in range(150):
        check(random_matrix(seed), tol)


@pytest.mark.long
def test_five_thousand_random_matrices() -> None:
    for seed in range(5000):
        check(random_matrix(100_000 + seed), TOLERANCES[seed % 2])


@pytest.mark.parametrize("tol", [1e-9, 1e-8, 1.0])
def test_extreme_tolerances(tol: float) -> None:
    for seed in range(20):
        check(random_matrix(7000 + seed), tol)


@pytest.mark.parametrize("tol", [0.0, 9e-10, -1.0, 1.5, math.nan])
def test_refused_tolerances(tol: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        spectral_norm(torch.eye(2), tol)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (0, 4), (4, 0)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.complex64])
def test_zero_matrices_have_norm_zero(shape: tuple[int, int], dtype: torch.dtype) -> None:
    bracket = spectral_norm(torch.zeros(shape, dtype=dtype))
    assert (bracket.log_lower, bracket.log_upper) == (-math.inf, -math.inf)


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), ()])
def test_only_matrices(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="matrix"):
        spectral_norm(torch.ones(shape))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, complex(0, math.inf), complex(math.nan, 0)])
def test_non_finite_entries_are_refused(bad: complex) -> None:
    matrix = torch.eye(3, dtype=torch.complex128 if isinstance(bad, complex) else torch.float64)
    matrix[1, 2] = bad
    with pytest.raises(NonFiniteWeightsError):
        spectral_norm(matrix)


def test_overflow_in_a_narrow_dtype_is_a_fact_of_the_weights() -> None:
    """float16 weights near its largest number: their Gram matrix does not fit float16."""
    matrix = torch.full((4, 4), 65504.0, dtype=torch.float16)
    assert spectral_norm(matrix, 1e-6).lower <= 4 * 65504.0 <= spectral_norm(matrix, 1e-6).upper


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_bracket_depends_on_the_numbers_not_on_their_dtype(dtype: torch.dtype) -> None:
    for seed in range(20):
        narrow = gaussian(seed, 3 + seed % 5, 6).to(dtype)
        assert spectral_norm(narrow) == spectral_norm(narrow.double())
    weight = torch.nn.Parameter(gaussian(0, 4, 4))
    assert spectral_norm(weight) == spectral_norm(weight.detach())


@pytest.mark.parametrize("name", SPECIAL)
def test_transposition_and_signs_keep_the_norm(name: str) -> None:
    matrix = SPECIAL[name]
    exact = log_spectral_norm(matrix)
    for variant in (matrix.T, matrix.mH, -matrix, matrix.flip(0), matrix.flip(1), matrix.conj()):
        check_bracket(spectral_norm(variant, 1e-6), exact)


def test_scaling_by_a_power_of_two_shifts_the_bracket_exactly() -> None:
    matrix = gaussian(3, 5, 7)
    plain = spectral_norm(matrix, 1e-6)
    for power in (-900, -40, 40, 900):
        scaled = spectral_norm(matrix * 2.0**power, 1e-6)
        assert scaled.log_upper - plain.log_upper == pytest.approx(power * math.log(2), abs=1e-12)
        assert scaled.log_lower - plain.log_lower == pytest.approx(power * math.log(2), abs=1e-12)


@pytest.mark.parametrize(
    ("matrix", "norm"),
    [
        (torch.tensor([[3.0, 0.0], [4.0, 0.0]]), 5.0),
        (torch.tensor([[2.0, 2.0], [-1.0, 1.0]]), math.sqrt(8)),
        (sylvester(7), 128**0.5),
        (torch.eye(300), 1.0),
        (torch.full((200, 50), 0.5), 50.0),
        (torch.diag(torch.arange(1.0, 121.0)), 120.0),
    ],
)
def test_known_norms(matrix: torch.Tensor, norm: float) -> None:
    bracket = spectral_norm(matrix, 1e-6)
    assert bracket.lower <= norm * (1 + 1e-15)
    assert norm * (1 - 1e-15) <= bracket.upper <= norm * (1 + 2e-6)


@pytest.mark.parametrize("shape", [(128, 128), (400, 100), (64, 512)])
def test_larger_matrices_agree_with_lapack(shape: tuple[int, int]) -> None:
    matrix = gaussian(0, *shape)
    reference = float(torch.linalg.matrix_norm(matrix, 2))
    bracket = spectral_norm(matrix)
    assert bracket.lower <= reference * (1 + 1e-12)
    assert reference * (1 - 1e-12) <= bracket.upper <= reference * 1.001 * (1 + 1e-12)


@pytest.mark.parametrize("shape", [(40, 40), (60, 20), (20, 60)])
def test_the_norm_of_an_isometry_is_found_closely(shape: tuple[int, int]) -> None:
    """Twenty orthogonal layers must not add up to more than a thousandth."""
    weight = nn.init.orthogonal_(torch.empty(shape))
    truth = float(torch.linalg.matrix_norm(weight.double(), 2))
    assert truth <= spectral_norm(weight).upper <= truth * (1 + 2e-6)
