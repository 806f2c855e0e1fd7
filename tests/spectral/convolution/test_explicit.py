"""Operators written out by their places against torch's own convolution of unit vectors."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings

from lipaudit.spectral.convolution.explicit import operator_matrices, written_out
from lipaudit.spectral.convolution.geometry import Convolution
from lipaudit.spectral.convolution.norm import convolution_norm
from lipaudit.spectral.convolution.power_iteration import apply
from tests.spectral.geometries import Case, cases


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(cases(valid=True))
def test_the_matrices_are_the_operator(case: Case) -> None:
    kernel = case.kernel()
    try:
        convolution = case.convolution(kernel)
    except ValueError:
        assume(False)
    ordinary = convolution.adjoint() if convolution.transposed else convolution
    groups = ordinary.groups
    c_in = ordinary.channels[0] // groups
    pixels = math.prod(ordinary.input_size)
    units = torch.eye(c_in * pixels, dtype=torch.float64).reshape(-1, c_in, *ordinary.input_size)
    columns = apply(ordinary, units.repeat(1, groups, *[1] * len(ordinary.input_size)))
    expected = columns.reshape(c_in * pixels, groups, -1).permute(1, 2, 0)
    torch.testing.assert_close(operator_matrices(ordinary), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
def test_norm_of_several_groups(mode: str) -> None:
    generator = torch.Generator().manual_seed(7)
    kernel = torch.rand(6, 2, 3, 3, generator=generator, dtype=torch.float64) - 0.5
    convolution = Convolution.like_torch(kernel, 6, padding=1, groups=3, padding_mode=mode)
    exact = max(float(torch.linalg.matrix_norm(m, 2)) for m in operator_matrices(convolution))
    bracket = written_out(convolution, 1e-4)
    assert bracket.lower <= exact * (1 + 1e-13)
    assert exact * (1 - 1e-13) <= bracket.upper <= 1.0001 * exact * (1 + 1e-9)


@pytest.mark.parametrize("first", [1, 2**14])
@pytest.mark.parametrize(("work", "tightness"), [(1e9, 1.001), (2e6, 1.05), (0.0, 1.15)])
def test_depthwise_layers_are_bounded_group_by_group(
    work: float, tightness: float, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promising groups first, then those that they do not exclude; what is too much work keeps its bound by frequencies."""
    monkeypatch.setattr("lipaudit.spectral.convolution.norm.WRITTEN_WORK", work)
    monkeypatch.setattr("lipaudit.spectral.convolution.norm.FIRST_ENTRIES", first)
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        kernel = torch.randn(40, 1, 3, 3, generator=generator, dtype=torch.float64)
        convolution = Convolution.like_torch(kernel, 7, padding=1, groups=40)
        found = convolution_norm(convolution)
        exact = max(float(torch.linalg.matrix_norm(m, 2)) for m in operator_matrices(convolution))
        assert found.note == "explicit matrix"
        assert exact * 0.99 <= found.bracket.lower <= exact * (1 + 1e-12)
        assert exact * (1 - 1e-12) <= found.bracket.upper <= tightness * exact
