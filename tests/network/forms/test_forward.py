"""Multipliers from the input on: the figures of ECLipsE-Fast, and feasible for other intervals of slopes."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from lipaudit.network.forms.elimination import InfeasibleError
from tests.network.forms.networks import F64, case, conv, dense, jacobian, one_segment, steps_of


def forward_bound(net: nn.Module, shape: tuple[int, ...], per_frequency: bool = False) -> float:
    chain = one_segment(steps_of(case(shape, lambda x, net: net(x), net)), per_frequency)
    return math.exp(chain.certified(chain.start("forward"))[0])


def mlp(sizes: tuple[int, ...], activation: nn.Module) -> nn.Sequential:
    torch.manual_seed(3)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs, dtype=F64), activation]
    return nn.Sequential(*layers[:-1]).eval()


def eclipse_fast(weights: list[torch.Tensor]) -> float:
    """The recursion of the paper for slopes in [0, 1], written down once more."""
    x = torch.eye(weights[0].shape[1], dtype=F64)
    for weight in weights[:-1]:
        m = weight @ torch.linalg.inv(x) @ weight.T
        t = 2 / torch.linalg.eigvalsh(m).max()
        x = t * torch.eye(len(weight), dtype=F64) - t**2 / 4 * m
    last = weights[-1] @ torch.linalg.inv(x) @ weights[-1].T
    return math.sqrt(float(torch.linalg.eigvalsh(last).max()))


@pytest.mark.parametrize("sizes", [(5, 7, 3), (3, 20, 11, 8, 2), (30, 12, 12, 12, 12, 4)])
def test_relu_networks_get_the_figure_of_eclipse_fast(sizes: tuple[int, ...]) -> None:
    net = mlp(sizes, nn.ReLU())
    weights = [layer.weight.detach() for layer in net if isinstance(layer, nn.Linear)]
    assert forward_bound(net, (1, sizes[0])) == pytest.approx(eclipse_fast(weights), rel=1e-5)


@pytest.mark.parametrize("activation", [nn.LeakyReLU(0.3), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Softsign()])
def test_other_slopes_have_feasible_multipliers(activation: nn.Module) -> None:
    net = mlp((4, 15, 9, 3), activation)
    x = torch.zeros(1, 4, dtype=F64)
    norm = float(torch.linalg.matrix_norm(torch.autograd.functional.jacobian(net, x).reshape(3, 4), 2))
    assert norm <= forward_bound(net, (1, 4)) < math.inf


def test_convolutions_frequency_by_frequency_are_bounded_too() -> None:
    net = nn.Sequential(conv(2, 3), nn.ReLU(), conv(3, 4), nn.ReLU(), conv(4, 2)).eval()
    bound = forward_bound(net, (1, 2, 6, 6), per_frequency=True)
    x = torch.randn(1, 2, 6, 6, dtype=F64, generator=torch.Generator().manual_seed(0))
    assert float(torch.linalg.matrix_norm(jacobian(net, x), 2)) <= bound * (1 + 1e-12)


def test_residual_networks_are_no_chains() -> None:
    example = case((1, 4), lambda x, a: x + functional.relu(a(x)), dense(4, 4))
    with pytest.raises(InfeasibleError, match="no chain"):
        one_segment(steps_of(example), per_frequency=False).start("forward")


@pytest.mark.parametrize("seed", range(6))
def test_slopes_that_hardly_differ(seed: int) -> None:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 9), nn.LeakyReLU(1 - 2.0**-52), nn.Linear(9, 1)).double().eval()
    norm = float(torch.linalg.matrix_norm((net[2].weight @ net[0].weight).detach(), 2))
    bound = lipaudit.audit(net, input_shape=(1, 6)).network.upper_bound
    assert norm * (1 - 1e-12) <= bound
