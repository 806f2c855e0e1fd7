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


class MaxMin(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, 1)
        return torch.cat((torch.maximum(a, b), torch.minimum(a, b)), 1)


def pairs_and_slopes(kind: str) -> tuple[nn.Module, tuple[int, ...]]:
    """Networks with PReLU and MaxMin."""
    torch.manual_seed(4)
    act = {"prelu": nn.PReLU(8, 0.3), "steep prelu": nn.PReLU(1, -1.7), "maxmin": MaxMin()}[
        kind.removesuffix(" images")
    ]
    if kind.endswith("images"):
        layers = [nn.Conv2d(1, 8, 3), act, nn.Conv2d(8, 8, 3), act, nn.Flatten(), nn.Linear(32, 3)]
        return nn.Sequential(*layers).double().eval(), (1, 1, 6, 6)
    return nn.Sequential(nn.Linear(5, 8), act, nn.Linear(8, 8), act, nn.Linear(8, 3)).double().eval(), (1, 5)


def check(net: nn.Module, shape: tuple[int, ...]) -> None:
    """With the slopes at the centre, and with chords: no gradient is steeper, no value strays farther, no nearer point falls below."""
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
                        assert fall <= float(most) + allowed, (radius, chords, i)
                        if sign > 0:
                            assert fall <= float(part * radius * found.linear[i] + excess[i]) + allowed


@pytest.mark.parametrize("seed", [0, 2, 5, 6, 9, 11, 12, 14])
def test_no_point_of_the_ball_is_steeper_or_falls_farther(seed: int) -> None:
    check(*random_network(seed))


@pytest.mark.parametrize("kind", ["prelu", "steep prelu", "maxmin", "prelu images", "maxmin images"])
def test_pairs_and_slopes_hold_on_balls_and_tend_to_the_jacobian(kind: str) -> None:
    net, shape = pairs_and_slopes(kind)
    check(net, shape)
    centre = torch.randn(shape, dtype=torch.float64)
    (problem,) = problems(net, centre, [1e-7])
    lines = linearise(problem)
    found = lines.bounds(lines.outputs(problem.graph.outputs))
    jacobian = torch.autograd.functional.jacobian(net, centre).reshape(3, -1)
    assert found.norm == pytest.approx(float(torch.linalg.matrix_norm(jacobian, 2)), rel=1e-4)


def test_a_pair_and_a_slope_that_are_undecided_at_the_centre() -> None:
    for kind in ("maxmin", "steep prelu"):
        net, _ = pairs_and_slopes(kind)
        net[0].bias.data.zero_()
        if kind == "maxmin":
            net[0].weight.data[4:] = net[0].weight.data[:4]
        (problem,) = problems(net, torch.zeros(1, 5, dtype=torch.float64), [1e-6])
        lines = linearise(problem)
        found = lines.bounds(lines.outputs(problem.graph.outputs), ROWS)
        for i, row in enumerate(ROWS):
            away = descended(net, torch.zeros(1, 5, dtype=torch.float64), row, 1e-6).requires_grad_()
            values = net(away) @ row
            (slopes,) = torch.autograd.grad(values.sum(), away)
            assert float(slopes.norm(dim=1).max()) <= float(found.gradients[i])
            assert float((net(torch.zeros(1, 5).double())[0] @ row - values).detach().max()) <= float(found.below[i])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_many_networks(seed: int) -> None:
    check(*random_network(seed))


@pytest.mark.parametrize("start", [-0.3, 0.2])
def test_the_range_of_one_unit_is_that_of_the_closed_form(start: float) -> None:
    """v relu(w x + b) with w c + b = s rises and falls by v (relu(s + r |w|) - relu(s)) and v (relu(s) - relu(s - r |w|)) on a ball."""
    net = nn.Sequential(nn.Linear(5, 1), nn.ReLU(), nn.Linear(1, 3, bias=False)).double()
    centre = torch.randn(1, 5, dtype=torch.float64)
    with torch.no_grad():
        net[0].bias += start - net[0](centre)[0]
        net[2].weight.copy_(torch.tensor([[2.0], [-3.0], [0.5]]))
    reach = 0.5
    (problem,) = problems(net, centre, [reach / float(net[0].weight.detach().norm())])
    lines = linearise(problem)
    found = lines.bounds(lines.outputs(problem.graph.outputs))
    rise, fall = max(start + reach, 0) - max(start, 0), max(start, 0) - max(start - reach, 0)
    line = float(start > 0) * reach  # what the line moves by beside what the unit differs by from it
    most, least = max(rise, line), max(fall, line)
    if start > 0:  # the line falls by its reach, and the unit stays above it by what is left of that below 0
        most = line + (reach - start)
    for i, v in enumerate((2.0, 3.0, 0.5)):
        up, down = (found.above[i], found.below[i])[:: -1 if i == 1 else 1]
        assert float(up) == pytest.approx(v * most, rel=1e-6)
        assert float(down) == pytest.approx(v * least, rel=1e-6, abs=1e-9)


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
