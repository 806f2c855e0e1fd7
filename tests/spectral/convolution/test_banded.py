"""The norm of a zero-padded convolution, decided for the operator itself: against its matrix, at both sides of the norm."""

from __future__ import annotations

import pytest
import torch

from lipaudit.spectral.convolution.banded import banded_work, is_norm_at_most
from lipaudit.spectral.convolution.explicit import operator_matrices
from lipaudit.spectral.convolution.geometry import Convolution

GEOMETRIES: dict[str, tuple[tuple[int, ...], dict[str, object]]] = {
    "one axis": ((4, 3, 3), {"input_size": 9, "padding": 1}),
    "two axes": ((4, 3, 3, 3), {"input_size": (7, 6), "padding": 1}),
    "more channels in": ((2, 5, 3, 3), {"input_size": (6, 5), "padding": 1}),
    "no padding": ((4, 3, 3, 3), {"input_size": (7, 6)}),
    "a stride": ((4, 3, 3, 3), {"input_size": (8, 7), "padding": 1, "stride": 2}),
    "a stride, more channels in": ((2, 6, 4, 4), {"input_size": (8, 8), "padding": 1, "stride": 2}),
    "dilation": ((3, 3, 3, 3), {"input_size": (9, 8), "padding": 2, "dilation": 2}),
    "a large kernel": ((2, 2, 5, 5), {"input_size": (4, 4), "padding": 2}),
    "even kernel": ((3, 2, 2, 4), {"input_size": (6, 7), "padding": (1, 2)}),
    "three axes": ((2, 2, 3, 3, 3), {"input_size": (4, 3, 5), "padding": 1}),
}


def convolution(name: str) -> Convolution:
    shape, geometry = GEOMETRIES[name]
    kernel = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Convolution.like_torch(kernel, **geometry)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GEOMETRIES)
def test_both_sides_of_the_norm(name: str) -> None:
    operator = convolution(name)
    norm = float(torch.linalg.matrix_norm(operator_matrices(operator)[0], 2))
    assert is_norm_at_most(operator, norm * (1 + 1e-8))
    for below in (1e-10, 1e-6, 0.1):
        assert not is_norm_at_most(operator, norm * (1 - below))
    assert 0 < banded_work(operator) < 1e9


def test_what_it_does_not_decide() -> None:
    kernel = torch.ones(2, 1, 3, dtype=torch.float64)
    for other in (
        Convolution.like_torch(kernel, 8, padding=1, groups=2),
        Convolution.like_torch(kernel, 8, padding=1, padding_mode="circular"),
        Convolution.like_torch(kernel, 8, padding=1, transposed=True),
    ):
        assert not is_norm_at_most(other, 1e9)
        assert banded_work(other) == float("inf")
