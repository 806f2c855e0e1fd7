"""The norm of a network's Jacobian at an input, against torch.autograd and against what no lower bound may exceed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lipaudit.graph.capture.export import capture
from lipaudit.network.domain import GLOBAL, pixel_box
from lipaudit.network.jacobian_norm import FEW_OUTPUTS, jacobian_norms


def norms(net: nn.Module, images: torch.Tensor, **options: object) -> list[float]:
    inputs = {"x": torch.zeros_like(images[:1])}
    named = [(str(i), image[None]) for i, image in enumerate(images)]
    pairs = jacobian_norms(capture(net, inputs), inputs, named, options.pop("domain", GLOBAL), **options)  # type: ignore[arg-type]
    return [pair.quotient for pair in pairs]


def by_autograd(net: nn.Module, images: torch.Tensor) -> list[float]:
    net = net.double()
    jacobians = (torch.autograd.functional.jacobian(net, image[None].double()) for image in images)
    return [
        float(torch.linalg.matrix_norm(j.flatten(len(j.shape) // 2).reshape(-1, images[0].numel()), 2))
        for j in jacobians
    ]


@pytest.mark.parametrize("outputs", [3, FEW_OUTPUTS + 5])
def test_at_every_input_a_linear_network_has_its_spectral_norm(outputs: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(9, 7), nn.Linear(7, outputs))
    norm = float(torch.linalg.matrix_norm((net[1].weight.double() @ net[0].weight.double()).detach(), 2))
    for found in norms(net, torch.randn(6, 9)):
        assert found == pytest.approx(norm, rel=1e-6 if outputs == 3 else 1e-3)
        assert found <= norm * (1 + 1e-12)


@pytest.mark.parametrize("outputs", [4, FEW_OUTPUTS + 5])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.GELU, nn.Tanh])
def test_the_norm_is_that_of_autograd(outputs: int, activation: type[nn.Module]) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1), activation(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(45, outputs), activation()
    )
    images = torch.randn(5, 2, 6, 6)
    assert norms(net, images) == pytest.approx(by_autograd(net, images), rel=2e-3)


class Kink(nn.Module):
    """The identity; at 0, where its two halves meet, autograd says 2."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x >= 0, x, 0.0) - torch.where(-x >= 0, -x, 0.0)


def test_at_a_kink_autograd_is_not_believed() -> None:
    zero = torch.zeros(1, 3)
    assert by_autograd(Kink(), zero) == [2.0]
    assert norms(Kink(), zero) == pytest.approx([1.0], rel=1e-9)
    assert norms(Kink(), zero)[0] <= 1.0


def test_an_input_outside_of_the_domain_is_moved_into_it() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.square()

    box = pixel_box({"x": (1, 1, 1, 1)}, (0.0,), (1.0,))
    assert norms(Square(), torch.full((1, 1, 1, 1), 5.0), domain=box) == pytest.approx([2.0], rel=1e-4)


def test_norms_are_repeatable_and_told_as_they_are_found() -> None:
    torch.manual_seed(2)
    net, images, told = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 30)), torch.randn(3, 30), []
    first = norms(net, images, seed=3, progress=lambda *entry: told.append(entry))
    assert first == norms(net, images, seed=3)
    assert told == [(0, 3, "0"), (1, 3, "1"), (2, 3, "2")]
