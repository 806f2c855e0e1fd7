"""Bounds of random networks are never below what sampling and ascent find, and the forms never above the product.

The suite has a few; all 200 with three seeds of the search: ``pytest -m long tests/network/test_random_networks.py``.
"""

from __future__ import annotations

import pytest
import torch

import lipaudit
from tests.network.random_networks import F64, RandomNetwork, random_network

_ROUNDING = 1e-9


def sampled(network: RandomNetwork, seed: int, points: int = 12) -> float:
    """The largest norm of the Jacobian at random points of several sizes, improved by steps at random."""
    generator = torch.Generator().manual_seed(seed)

    def norm(x: torch.Tensor) -> float:
        jacobian = torch.autograd.functional.jacobian(network.net, x)
        return float(torch.linalg.matrix_norm(jacobian.reshape(-1, x.numel()), 2))  # type: ignore[union-attr]

    best, where = 0.0, torch.zeros(network.shape, dtype=F64)
    for k in range(points):
        away = torch.randn(network.shape, generator=generator, dtype=F64) * (0.01, 0.3, 1.0, 10.0)[k % 4]
        for x in (away, where + 0.1 * away):
            value = norm(x)
            if value > best:
                best, where = value, x
    return best


def check(number: int, seed: int, points: int = 12) -> None:
    network = random_network(number)
    product = lipaudit.audit(network.net, input_shape={"x": network.shape}, effort="none").network
    report = lipaudit.audit(
        network.net, input_shape={"x": network.shape}, effort="quick", lower_bound=True, seed=seed
    ).network
    assert report.status == product.status, network.steps
    if report.upper_bound is None:
        return
    assert report.upper_bound <= product.upper_bound, network.steps
    stretched = max(report.lower_bound or 0.0, sampled(network, seed, points))
    assert stretched <= report.upper_bound * (1 + _ROUNDING), network.steps


@pytest.mark.parametrize("number", [0, 2, 5, 6, 8, 11, 19, 22, 26])
def test_a_few_random_networks(number: int) -> None:
    check(number, seed=0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", range(200))
def test_random_networks(number: int, seed: int) -> None:
    check(number, seed, points=40)
