"""Sampling at data-dependent places, and the weights of cubic sampling one by one."""

from __future__ import annotations

import math

import pytest
import torch

from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.region.magnitude import Interval, Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import apply_rule
from tests.nodes import Operation, data, operation

GENERATOR = torch.Generator().manual_seed(0)
GRID = 2.6 * torch.rand(1, 3, 4, 2, dtype=torch.float64, generator=GENERATOR) - 1.3


def _within(found: Operation, radius: float) -> Effect:
    """The effect where every pixel is within a radius of 0."""
    effect = apply_rule(found.node, Settings())
    assert effect.given is not None
    shapes = [ref.info.shape for ref in found.node.refs]
    bounds = {shape: {(1,): radius} if shape[-1] != 2 else {} for shape in shapes}
    magnitudes = (
        Magnitude(
            Radii.of(shape, bounds[shape]), Interval(), lambda shape=shape: torch.zeros(shape, dtype=torch.float64)
        )
        for shape in shapes
    )
    return effect.given(tuple(magnitudes))


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", range(3))
def test_moving_places_stretch_no_further_than_the_pixels_allow(padding: int, corners: bool) -> None:
    found = operation("aten.grid_sampler.default", (data(1, 2, 5, 6), data(1, 3, 4, 2), 0, padding, corners), {})
    largest = [0.0, 0.0]
    for attempt in range(30):
        image = torch.randn(1, 2, 5, 6, dtype=torch.float64, generator=GENERATOR)
        if attempt % 3 == 0:  # a chequerboard: neighbours as far from each other as they can be
            image = (-1.0) ** (torch.arange(5)[:, None] + torch.arange(6)).expand(1, 2, 5, 6).double()
        image = image / image.norm(dim=1).max()
        grid = 2.6 * torch.rand(1, 3, 4, 2, dtype=torch.float64, generator=GENERATOR) - 1.3
        if attempt % 3 == 1:
            grid = grid * 0 + grid[:, :1, :1]
        jacobians = torch.autograd.functional.jacobian(lambda x, g: found.function(x, g)[0], (image, grid))
        for i, jacobian in enumerate(jacobians):
            matrix = jacobian.reshape(24, -1)
            largest[i] = max(largest[i], float(torch.linalg.matrix_norm(matrix, 2)))
    effect = _within(found, 1.0)
    for norm, factor in zip(largest, effect.factors, strict=True):
        assert 0.3 * factor.upper < norm <= factor.upper * (1 + 1e-10)


def test_moving_places_of_a_constant_image() -> None:
    image = torch.randn(1, 2, 5, 6, dtype=torch.float64, generator=GENERATOR)
    found = operation("aten.grid_sampler.default", (image, data(1, 3, 4, 2), 0, 0, False), {})
    (factor,) = _within(found, 1.0).factors
    assert factor.upper == pytest.approx(float(image.norm(dim=1).max()) * math.hypot(5, 6), rel=1e-6)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", range(3))
def test_cubic_weights_count_with_their_moduli(padding: int, corners: bool) -> None:
    found = operation("aten.grid_sampler.default", (data(1, 1, 5, 9), 1.5 * GRID, 2, padding, corners), {})
    pixels = torch.eye(45, dtype=torch.float64).reshape(45, 1, 1, 5, 9)
    matrix = torch.stack([found.function(pixel)[0].flatten() for pixel in pixels], 1)
    (factor,) = apply_rule(found.node, Settings()).factors
    assert factor.upper == pytest.approx(float(torch.linalg.matrix_norm(matrix.abs(), 2)), rel=1e-3)


def test_a_place_half_way_between_pixels_counts_for_all_of_them() -> None:
    """float32 and float64 may round it to different sides."""
    places = torch.zeros(1, 1, 2, 2, dtype=torch.float64)
    places[0, 0, 1] = torch.tensor([-0.1, -0.1])
    found = operation("aten.grid_sampler.default", (data(1, 1, 4, 4), places, 1, 0, False), {})
    (factor,) = apply_rule(found.node, Settings()).factors
    assert factor.upper == pytest.approx(math.sqrt(2))
    assert factor.lower == pytest.approx(1.0)


def test_places_on_a_large_image_are_sampled_without_a_matrix() -> None:
    theta = torch.tensor([[[0.7, -0.3, 0.1], [0.3, 0.7, 0.0]]], dtype=torch.float64)
    places = torch.nn.functional.affine_grid(theta, [1, 1, 96, 96], align_corners=False)
    found = operation("aten.grid_sampler.default", (data(1, 1, 96, 96), places, 0, 0, False), {})
    (factor,) = apply_rule(found.node, Settings()).factors
    assert 1.0 < factor.upper < 1.5
