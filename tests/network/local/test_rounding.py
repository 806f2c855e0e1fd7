"""Values at the centre that cancel: no unit is taken to be on or off because of what rounding leaves of them."""

from fractions import Fraction

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.node import Node
from lipaudit.network import rounding
from lipaudit.network.local.bound import linearise
from tests.network.local.networks import random_network
from tests.network.local.test_rows import problems

LARGE = 2.0**40
CENTRE = 1 / 3
# what is lost of (2^40 + 1) c - 2^40 c = c: the computed value is less than the exact one by so much
LOST = float(
    Fraction(LARGE + 1) * Fraction(CENTRE) - Fraction(LARGE) * Fraction(CENTRE) - Fraction((LARGE + 1) * CENTRE)
    + Fraction(LARGE * CENTRE)
)  # fmt: skip


class Cancelling(nn.Module):
    """z = x + shift for x >= 0 as a difference of two large products, between units of zeros."""

    def __init__(self, shift: float, at: tuple[int, int] = (0, 1), width: int = 2) -> None:
        super().__init__()
        up, down = torch.zeros(1, width, dtype=torch.float64), torch.zeros(width, 1, dtype=torch.float64)
        up[0, list(at)] = torch.tensor([LARGE + 1, LARGE], dtype=torch.float64)
        down[list(at), 0] = torch.tensor([1.0, -1.0], dtype=torch.float64)
        self.up, self.down = nn.Parameter(up), nn.Parameter(down)
        self.shift = nn.Parameter(torch.tensor([shift], dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.up) @ self.down + self.shift


def test_the_side_of_a_kink_is_not_decided_by_a_rounded_value() -> None:
    assert LOST > 1e-5
    # z is 0.2 of what is lost at the centre, above the kink; what is computed is below it
    network = nn.Sequential(Cancelling(0.2 * LOST - CENTRE), nn.LeakyReLU(0.01))
    centre = torch.tensor([[CENTRE]], dtype=torch.float64)
    assert float(network(centre).detach()) < 0
    options = {"domain": "ball", "around": centre, "effort": "none"}
    for kind in ("l2", "linf"):
        report = lipaudit.audit(network, (1, 1), **options, radius=0.1 * LOST, norm_domain=kind)
        assert report.network.upper_bound is not None
        assert report.network.upper_bound >= 1


class Square(nn.Module):
    """x^2 as ((x + 2^40) - 2^40)^2."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(1, 1, dtype=torch.float64) for _ in range(2)))
        for layer, shift in zip(self.layers, (LARGE, -LARGE), strict=True):
            nn.init.ones_(layer.weight)
            nn.init.constant_(layer.bias, shift)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.layers(x)
        return z * z


def test_sizes_at_the_centre_that_cancel_are_not_taken_for_small_ones() -> None:
    centre = torch.tensor([[5e-5]], dtype=torch.float64)
    assert float(Square().layers(centre).detach()) == 0
    report = lipaudit.audit(Square(), (1, 1), domain="ball", around=centre, radius=1e-9, effort="none")
    assert [bound.name for bound in report.network.bounds] == ["product", "jacobian at the centre"]
    assert all(bound.upper_bound is not None and bound.upper_bound >= 1e-4 for bound in report.network.bounds)


class Decision(nn.Module):
    """The logits relu(x - c - t / 10) and t / 5, t = ``LOST``, and a square of no size, over which no bound on all inputs is known."""

    def __init__(self, at: tuple[int, int]) -> None:
        super().__init__()
        self.difference = Cancelling(-CENTRE - 0.1 * LOST, at, 8)
        self.first = nn.Parameter(torch.tensor([[1.0, 0.0]], dtype=torch.float64))
        self.second = nn.Parameter(torch.tensor([0.0, 0.2 * LOST], dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.difference(x)) @ self.first + self.second + 1e-40 * (x * x)


def test_no_radius_holds_another_decision_of_a_unit_that_rounding_turns_off() -> None:
    options = {"input_shape": (1, 1), "local_steps": 8, "attack_steps": 0, "effort": "none"}
    centre = torch.tensor([[CENTRE]], dtype=torch.float64)
    for at in ((0, 5), (1, 2)):
        (image,) = lipaudit.certify(Decision(at), centre, **options).images
        assert image.radius <= 0.3 * LOST


@pytest.mark.parametrize("seed", [0, 5, 6, 9, 10, 12, 14, 19])
def test_values_that_are_moved_at_every_node_stay_within_the_error(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Roundings that are 2^30 times as large as those of float64 are far above it, and of any sign."""
    unit = 2.0**-23
    monkeypatch.setattr(rounding, "gamma", lambda terms: terms * unit)
    net, shape = random_network(seed)
    centre = torch.randn(shape, dtype=torch.float64)
    signs = torch.Generator().manual_seed(seed)

    def moved(node: Node, value: torch.Tensor) -> torch.Tensor:
        if node.op == "input" or not value.is_floating_point():
            return value
        return value * (1 + 4 * unit * torch.randint(-1, 2, value.shape, generator=signs))

    for radius, chords in ((1e-9, False), (1e-2, True)):
        (problem,) = problems(net, centre, [radius])
        lines = linearise(problem, chords)
        found = lines.bounds(lines.outputs(problem.graph.outputs))
        away = torch.zeros_like(found.error)
        for _ in range(10):
            values = interpret(lines.graph, {problem.graph.inputs[0]: centre}, None, torch.float64, moved)
            outputs = torch.cat([values[name].detach().flatten() for name in problem.graph.outputs])
            away = away.maximum((outputs - lines.outputs(problem.graph.outputs).detach()).abs())
        assert bool((away <= found.error).all()), (seed, radius, float((away / found.error).max()))
        assert bool((found.error <= 1e4 * away.max()).all()), (seed, float(found.error.max()), float(away.max()))
