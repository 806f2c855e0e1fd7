"""Boxes and balls: what they contain, what is said of their size, and where the search for lower bounds may go."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch

from lipaudit.network.domain import GLOBAL, Domain, ball, pixel_box

MEAN, STD = (0.485, 0.456, 0.406), (0.229, -0.5, 2.0)


def corners(shape: Sequence[int], count: int = 64) -> list[torch.Tensor]:
    """Corners of the box of normalised images: pixels that are 0 or 1."""
    generator = torch.Generator().manual_seed(0)
    mean, std = (torch.tensor(v, dtype=torch.float64).reshape(1, -1, *(1,) * (len(shape) - 2)) for v in (MEAN, STD))
    draws = [torch.randint(0, 2, tuple(shape), generator=generator).to(torch.float64) for _ in range(count)]
    return [(pixels - mean) / std for pixels in (*draws, torch.zeros(tuple(shape)), torch.ones(tuple(shape)))]


@pytest.mark.parametrize("shape", [(1, 3, 4, 5), (1, 3, 7), (1, 3, 2, 3, 4)])
@pytest.mark.parametrize("axes", [(), (1,), (2,), (1, 2), "all"])
def test_radii_of_the_pixel_box_hold_and_are_attained(shape: tuple[int, ...], axes: tuple[int, ...] | str) -> None:
    box = pixel_box({"x": shape}, MEAN, STD)
    dims = list(range(len(shape))) if axes == "all" else list(axes)
    radius = box.radii["x"].over(dims).upper
    reached = 0.0
    for corner in corners(shape):
        away = corner - box.centres["x"]
        found = torch.linalg.vector_norm(away, dim=dims).max() if dims else away.abs().max()
        reached = max(reached, float(found))
    assert reached <= radius
    if dims in ([], [1], list(range(len(shape)))):
        assert radius <= reached * (1 + 1e-9)


def test_nearest_keeps_what_lies_inside_and_moves_the_rest_onto_the_border() -> None:
    box = pixel_box({"x": (1, 3, 2, 2)}, MEAN, STD)
    inside = box.centres["x"] + 0.9 * box.reach["x"] * (2 * torch.rand(1, 3, 2, 2, dtype=torch.float64) - 1)
    assert torch.allclose(box.nearest({"x": inside})["x"], inside)
    far = box.nearest({"x": torch.full((1, 3, 2, 2), 1e6, dtype=torch.float64)})["x"]
    assert torch.allclose(far, box.centres["x"] + box.reach["x"])
    centre = torch.arange(4.0, dtype=torch.float64)[None]
    around = ball({"x": centre}, 0.5)
    outside = around.nearest({"x": centre + 7.0})["x"]
    assert float(torch.linalg.vector_norm(outside - centre)) == pytest.approx(0.5)
    assert torch.equal(around.nearest({"x": centre})["x"], centre)


def test_a_ball_that_only_encloses_the_domain_is_searched_inside() -> None:
    centre = torch.zeros(1, 4, dtype=torch.float64)
    enclosing = ball({"x": centre}, radius=3.0, inner=0.5)
    assert enclosing.radii["x"].total.upper == pytest.approx(3.0)
    moved = enclosing.nearest({"x": centre + 10.0})["x"]
    assert float(torch.linalg.vector_norm(moved)) == pytest.approx(0.5)


def test_all_inputs_are_near_themselves() -> None:
    x = torch.randn(1, 3)
    assert torch.equal(GLOBAL.nearest({"x": x})["x"], x)
    assert Domain("global").radii == {}


def test_several_inputs_of_a_ball_are_one_vector() -> None:
    both = ball({"a": torch.zeros(1, 2), "b": torch.zeros(1, 2)}, 1.0)
    moved = both.nearest({"a": torch.ones(1, 2), "b": torch.ones(1, 2)})
    assert math.hypot(*(float(torch.linalg.vector_norm(x)) for x in moved.values())) == pytest.approx(1.0)
