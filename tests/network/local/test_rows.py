"""Combinations of outputs on a ball: their gradients, and how far they stray, against points that descend inside the ball."""

import pytest
import torch
from torch import nn

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.table import fold, recognise
from lipaudit.network.bound import Problem
from lipaudit.network.domain import ball
from lipaudit.network.local.bound import linearise, problem_on
from lipaudit.network.propagate import evaluate_rules
from lipaudit.rules.effect import Settings
from lipaudit.spectral.oracle import CertifiedNorms
from tests.network.local.networks import random_network

ROWS = torch.tensor([[1.0, -1.0, 0.0], [0.0, -1.0, 1.0], [0.3, 0.2, 0.1]], dtype=torch.float64)


def problems(net: nn.Module, centre: torch.Tensor, radii: list[float]) -> list[Problem]:
    recognised = recognise(capture(net, {"input": centre}))
    simple, norms = fold(recognised), CertifiedNorms(1e-3)
    effects = evaluate_rules(simple, Settings(norms))
    return [problem_on(ball({simple.inputs[0]: centre}, r), recognised, simple, effects, norms) for r in radii]


def descended(net: nn.Module, centre: torch.Tensor, row: torch.Tensor, radius: float, count: int = 48) -> torch.Tensor:
    """Points of the ball from gradient descent on ``row @ net(x)``, from random starts and with steps that get smaller."""
    away = torch.randn(count, centre.numel(), dtype=torch.float64)
    away = radius * away / away.norm(dim=1, keepdim=True) * torch.rand(count, 1, dtype=torch.float64) ** 0.2
    for step in 0.5 ** torch.arange(6):
        away.requires_grad_()
        value = (net(centre + away.reshape(count, *centre.shape[1:])).flatten(1) @ row).sum()
        (slope,) = torch.autograd.grad(value, away)
        away = away.detach() - step * radius * nn.functional.normalize(slope, dim=1)
        away = away * (radius / away.norm(dim=1, keepdim=True).clamp_min(radius))
    return away


def check(seed: int) -> None:
    """With the slopes at the centre, and with chords: no gradient is steeper, no value strays farther, no nearer point falls below."""
    net, shape = random_network(seed)
    centre = torch.randn(shape, dtype=torch.float64)
    rows = nn.functional.pad(ROWS, (0, net(centre).numel() - ROWS.shape[1]))
    radii = [1e-6, 1e-3, 1e-2, 0.1, 1.0]
    for radius, problem in zip(radii, problems(net, centre, radii), strict=True):
        for chords in (False, True):
            lines = linearise(problem, chords)
            found = lines.bounds(lines.outputs(problem.graph.outputs), rows)
            excess = found.below - radius * found.linear
            for i, row in enumerate(rows):
                start = (net(centre).flatten() @ row).detach()
                for sign, most in ((1.0, found.below[i]), (-1.0, found.above[i])):
                    for part in (1.0, 0.3):
                        away = descended(net, centre, sign * row, part * radius).requires_grad_()
                        values = net(centre + away.reshape(-1, *shape[1:])).flatten(1) @ row
                        (slopes,) = torch.autograd.grad(values.sum(), away)
                        fall = float((sign * (start - values)).detach().max())
                        allowed = 1e-12 + 1e-12 * float(start.abs())
                        assert float(slopes.norm(dim=1).max()) <= float(found.gradients[i]) * (1 + 1e-9)
                        assert fall <= float(most) + allowed, (seed, radius, chords, i)
                        if sign > 0:
                            assert fall <= float(part * radius * found.linear[i] + excess[i]) + allowed


@pytest.mark.parametrize("seed", [0, 2, 5, 6, 9, 11, 12, 14])
def test_no_point_of_the_ball_is_steeper_or_falls_farther(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_many_networks(seed: int) -> None:
    check(seed)


def test_chords_let_values_stray_less() -> None:
    ratios = []
    for seed in (1, 3, 17, 19):
        torch.manual_seed(seed)
        net = nn.Sequential(
            *(layer for _ in range(4) for layer in (nn.Linear(10, 10), nn.ReLU())), nn.Linear(10, 3)
        ).double()
        centre = torch.randn(1, 10, dtype=torch.float64)
        (problem,) = problems(net, centre, [1.0])
        strays = []
        for chords in (False, True):
            lines = linearise(problem, chords)
            strays.append(lines.bounds(lines.outputs(problem.graph.outputs), ROWS).below)
        ratios.append(float((strays[1] / strays[0]).mean()))
    assert sum(ratios) / 4 < 0.9
