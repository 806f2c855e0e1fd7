"""The norm of a zero-padded convolution by the inertia of the circular one: against its matrix, at both sides of the norm."""

from __future__ import annotations

import pytest
import torch

from lipaudit.spectral.convolution import inertia
from lipaudit.spectral.convolution.explicit import operator_matrices
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.inertia import is_covered, norm_near
from lipaudit.spectral.work import Work

GEOMETRIES: dict[str, tuple[tuple[int, ...], dict[str, object]]] = {
    "one axis": ((4, 3, 3), {"input_size": 20, "padding": 1}),
    "two axes": ((4, 3, 3, 3), {"input_size": (9, 8), "padding": 1}),
    "more channels in": ((2, 5, 3, 3), {"input_size": (8, 7), "padding": 1}),
    "no padding": ((4, 3, 3, 3), {"input_size": (9, 8)}),
    "more padding than needed": ((3, 2, 3, 3), {"input_size": (7, 7), "padding": 2}),
    "dilation": ((3, 3, 3, 3), {"input_size": (9, 8), "padding": 2, "dilation": 2}),
    "a large kernel": ((2, 2, 5, 5), {"input_size": (6, 6), "padding": 2}),
    "even kernel": ((3, 2, 2, 4), {"input_size": (6, 7), "padding": (1, 2)}),
    "uneven padding": ((2, 3, 4, 2), {"input_size": (7, 6), "padding": "same"}),
    "three axes": ((2, 2, 3, 3, 3), {"input_size": (5, 4, 5), "padding": 1}),
}


def convolution(name: str, seed: int = 0) -> Convolution:
    shape, geometry = GEOMETRIES[name]
    kernel = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Convolution.like_torch(kernel, **geometry)  # type: ignore[arg-type]


def true_norm(operator: Convolution) -> float:
    return float(torch.linalg.matrix_norm(operator_matrices(operator)[0], 2))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", GEOMETRIES)
def test_both_sides_of_the_norm(name: str, seed: int) -> None:
    operator = convolution(name, seed)
    norm = true_norm(operator)
    bound = norm_near(operator, norm * (1 + 1e-3), Work(1e10))
    assert bound is not None
    assert norm * (1 + 9e-4) <= bound <= norm * (1 + 1.002e-3)
    for below in (1e-7, 1e-5, 1e-3, 0.1):
        assert norm_near(operator, norm * (1 - below), Work(1e10)) is None


@pytest.mark.parametrize("factor", [2.0**-60, 3.0, 1e30])
def test_scales(factor: float) -> None:
    operator = convolution("two axes")
    scaled, norm = operator.with_kernel(operator.kernel * factor), true_norm(operator) * factor
    bound = norm_near(scaled, norm * (1 + 1e-4), Work(1e10))
    assert bound is not None
    assert norm * (1 + 0.9e-4) <= bound <= norm * (1 + 1.02e-4)


def test_close_to_the_norm_of_a_larger_image() -> None:
    kernel = torch.randn(6, 6, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    operator = Convolution.like_torch(kernel, 14, padding=1)
    norm = true_norm(operator)
    bound = norm_near(operator, norm * (1 + 1e-6), Work(1e10))
    assert bound is not None
    assert norm <= bound <= norm * (1 + 3e-6)


def test_eigenvalues_are_counted_with_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    basis = torch.linalg.qr(torch.randn(5, 5, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))).Q
    matrix = basis @ torch.diag(torch.tensor([0.1, 0.5, 3.9, 4.1, 9.0], dtype=torch.complex128)) @ basis.mH
    assert inertia._number_above(matrix, 1e-12, 2.0) == 2
    assert inertia._number_above(matrix, 0.2, 2.0) is None  # the eigenvalue 3.9 may be above
    eigh = torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda m: (eigh(m)[0], eigh(m)[1].roll(1, 1)))  # another space
    assert inertia._number_above(matrix, 1e-12, 2.0) is None


def test_no_wave_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no singular value taken for one above t, numbers below the norm are "proved"."""
    operator = convolution("one axis")
    near = true_norm(operator) * (1 - 1e-3)
    assert norm_near(operator, near, Work(1e10)) is None
    monkeypatch.setattr(inertia, "is_below", lambda gram, *_: torch.ones(len(gram), dtype=torch.bool))
    assert norm_near(operator, near, Work(1e10)) is not None


def test_vectors_that_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the conjugate gradients return is not believed."""
    solve = inertia._solve

    def moved(*arguments: object) -> tuple[torch.Tensor, torch.Tensor] | None:
        solved = solve(*arguments)  # type: ignore[arg-type]
        return None if solved is None else (solved[0] * 1.01, solved[1])

    operator = convolution("two axes")
    near = true_norm(operator) * (1 + 1e-3)
    monkeypatch.setattr(inertia, "_solve", moved)
    assert norm_near(operator, near, Work(1e10)) is None


def test_little_work_and_a_flat_spectrum() -> None:
    operator = convolution("two axes")
    near = true_norm(operator) * (1 + 1e-3)
    assert norm_near(operator, near, Work(1e4)) is None
    spent = Work(1e10)
    assert norm_near(operator, near, spent) is not None
    assert norm_near(operator, near, Work((1e10 - spent.left) * 0.9)) is None
    same = torch.zeros(2, 2, 3, 3)
    same[:, :, 1, 1] = torch.eye(2)
    assert norm_near(Convolution.like_torch(same, 9, padding=1), 0.999, Work(1e10)) is None


def test_above_all_frequencies_nothing_is_left_to_prove() -> None:
    kernel = torch.ones(1, 1, 3)
    assert norm_near(Convolution.like_torch(kernel, 9, padding=1), 3.01, Work(1e9)) == pytest.approx(3.01)


def test_what_it_is_not_for() -> None:
    kernel = torch.ones(2, 1, 3, dtype=torch.float64)
    for other in (
        Convolution.like_torch(kernel, 8, padding=1, groups=2),
        Convolution.like_torch(kernel, 8, padding=1, padding_mode="circular"),
        Convolution.like_torch(kernel, 8, padding=1, transposed=True),
        Convolution.like_torch(kernel, 8, padding=1, stride=2),
        Convolution.like_torch(kernel, 8, padding=3),
    ):
        assert not is_covered(other)
        assert norm_near(other, 1e9, Work(1e10)) is None
