"""Sizes in short: one or two numbers for a module whose first layer tells the rest, and for models with a size of their own."""

from __future__ import annotations

import pytest
from torch import nn

import lipaudit
from lipaudit.errors import UsageError
from lipaudit.frontends.load import load
from lipaudit.frontends.shapes import Shape


@pytest.mark.parametrize(
    ("net", "shape", "full"),
    [
        (nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU()), 12, (1, 3, 12, 12)),
        (nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU()), (12, 10), (1, 3, 12, 10)),
        (nn.Sequential(nn.ReLU(), nn.Conv1d(2, 2, 3)), 9, (1, 2, 9)),
        (nn.Conv3d(2, 2, 2), 5, (1, 2, 5, 5, 5)),
        (nn.Sequential(nn.Linear(64, 3)), (64,), (1, 64)),
        (nn.Linear(64, 3), "64", (1, 64)),
        (nn.Conv2d(1, 2, 3), (1, 8, 8), (1, 1, 8, 8)),
    ],
)
def test_a_module_takes_one_or_two_numbers(net: nn.Module, shape: int | str | Shape, full: Shape) -> None:
    assert lipaudit.audit(net.eval(), shape).model.input_shape == full


@pytest.mark.parametrize("net", [nn.ReLU(), nn.Sequential(nn.Embedding(3, 2), nn.Linear(2, 2))])
def test_a_number_that_no_layer_explains_is_refused(net: nn.Module) -> None:
    with pytest.raises(UsageError, match=r"one number.* does not tell the shape of this model's input"):
        lipaudit.audit(net, 12)


def test_two_numbers_are_height_and_width_of_an_image_model() -> None:
    assert list(load("resnet18", input_shapes={"": (64, 96)}, weights="random").input_shapes.values()) == [
        (1, 3, 64, 96)
    ]
