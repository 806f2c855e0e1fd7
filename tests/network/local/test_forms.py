import math

import pytest
import torch
from torch import nn

import lipaudit.rules  # noqa: F401  registers the rules
from benchmarks.local_mlp import interval_slopes
from benchmarks.local_mlp import random_network as random_mlp
from lipaudit.graph.capture.export import capture
from lipaudit.graph.passes.table import fold, recognise
from lipaudit.network.bound import NetworkBound, NotApplicable
from lipaudit.network.domain import ball
from lipaudit.network.local.bound import jacobian_at_centre, problem_on
from lipaudit.network.local.forms import forms_on_domain
from lipaudit.network.propagate import evaluate_rules
from lipaudit.rules.effect import Settings
from lipaudit.spectral.oracle import CertifiedNorms
from tests.network.local.networks import largest_stretch, random_network


def bounds(net: nn.Module, centre: torch.Tensor, radii: list[float], work: float) -> list[tuple[float, float]]:
    """By the Jacobian at the centre and by forms, on balls of some radii; the network is captured once."""
    name = "input"
    recognised = recognise(capture(net, {name: centre}))
    simple, norms = fold(recognised), CertifiedNorms(1e-3)
    (name,) = simple.inputs
    effects = evaluate_rules(simple, Settings(norms))
    found = []
    for radius in radii:
        problem = problem_on(ball({name: centre}, radius), recognised, simple, effects, norms, work=work)
        results = jacobian_at_centre(problem), forms_on_domain(problem)
        assert all(isinstance(result, NetworkBound) for result in results), results
        found.append(tuple(math.exp(r.network.log_upper) for r in results if isinstance(r, NetworkBound)))
    return found


def check(seed: int, radii: list[float]) -> None:
    net, shape = random_network(seed)
    centre = torch.randn(shape, dtype=torch.float64)
    for radius, (own, forms) in zip(radii, bounds(net, centre, radii, 3e9), strict=True):
        stretch = largest_stretch(net, centre, radius, seed)
        assert stretch <= forms * (1 + 1e-9), (seed, radius)
        assert seed == 14 or forms <= own * (1 + 1e-6) or radius > 0.05, (seed, radius)
        if radius == 1e-6 and seed != 14:
            assert forms <= 1.001 * stretch


@pytest.mark.parametrize("seed", [5, 10])
def test_forms_hold_every_jacobian_of_a_small_ball(seed: int) -> None:
    check(seed, [0.02])


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 2, 5, 8, 10, 12, 14])
def test_forms_hold_every_jacobian_of_a_ball(seed: int) -> None:
    check(seed, [1e-6, 0.05, 0.5])


def test_units_that_cannot_switch_are_linear() -> None:
    """Where no ReLU can switch the bound is the norm of the Jacobian, whatever the radius."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    nn.init.constant_(net[0].bias, 10.0)
    nn.init.uniform_(net[2].weight)
    net[2].bias.data = torch.where(torch.arange(8) < 4, 100.0, -1000.0).double()
    centre = torch.randn(1, 3, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(net, centre).reshape(2, 3)
    exact = float(torch.linalg.matrix_norm(jacobian, 2))
    for own, forms in bounds(net, centre, [1e-3, 1.0], 1e10):
        assert own == pytest.approx(exact, rel=1e-8)
        assert forms == pytest.approx(exact, rel=1e-6)


def test_forms_are_below_products_of_interval_slopes() -> None:
    net = random_mlp(1)
    centre = torch.randn(1, net[0].in_features, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        other = interval_slopes(net, centre, 0.1)
    ((_, forms),) = bounds(net, centre, [0.1], 3e9)
    assert forms <= other


def test_many_outputs_take_more_work_than_is_allowed() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 40_000)).double()
    centre = torch.zeros(1, 4, dtype=torch.float64)
    recognised = recognise(capture(net, {"input": centre}))
    simple, norms = fold(recognised), CertifiedNorms(1e-1)
    effects = evaluate_rules(simple, Settings(norms))
    problem = problem_on(ball({simple.inputs[0]: centre}, 0.1), recognised, simple, effects, norms)
    result = jacobian_at_centre(problem)
    assert isinstance(result, NotApplicable)
    assert "takes more work than is allowed" in result.reason
