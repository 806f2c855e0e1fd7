import pytest
import torch

import lipaudit
from tests.graph.networks import OfOneInput
from tests.network.local.networks import largest_stretch, random_network

RADII = (1e-6, 1e-3, 1e-2, 0.1, 1.0)


def bound(net: torch.nn.Module, shape: tuple[int, ...], centre: torch.Tensor, radius: float) -> tuple[float, float]:
    """The printed bound, and that of the Jacobian at the centre."""
    network = lipaudit.audit(net, shape, domain="ball", around=centre, radius=radius).network
    (own,) = [entry for entry in network.bounds if entry.name == "jacobian at the centre"]
    assert network.upper_bound is not None
    assert own.upper_bound is not None, own.reason
    return network.upper_bound, own.upper_bound


def check(seed: int) -> None:
    net, shape = random_network(seed)
    centre = torch.randn(shape, dtype=torch.float64)
    before = 0.0
    for radius in RADII:
        printed, own = bound(net, shape, centre, radius)
        stretch = largest_stretch(net, centre, radius, seed)
        assert stretch <= printed * (1 + 1e-9), (seed, radius, stretch, printed)
        assert stretch <= own * (1 + 1e-9), (seed, radius, stretch, own)
        assert printed >= before * (1 - 1e-9), (seed, radius, printed, before)
        if radius == RADII[0]:
            assert printed <= 1.01 * stretch, (seed, printed, stretch)
        before = printed
    everywhere = lipaudit.audit(net, shape).network.upper_bound
    assert everywhere is None or before <= everywhere * (1 + 1e-9)


@pytest.mark.parametrize("seed", [0, 5, 6, 9, 10, 12, 14, 19])
def test_balls_hold_every_jacobian_and_grow_with_the_radius(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_many_balls(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", [5, 9, 10])
def test_cubes_hold_every_jacobian(seed: int) -> None:
    net, shape = random_network(seed)
    centre = torch.randn(shape, dtype=torch.float64)
    for half in (1e-6, 0.02):
        options = {"domain": "ball", "around": centre, "radius": half, "norm_domain": "linf", "effort": "none"}
        network = lipaudit.audit(net, shape, **options).network
        enclosing = lipaudit.audit(
            net, shape, **{**options, "radius": half * centre.numel() ** 0.5, "norm_domain": "l2"}
        )
        stretch = largest_stretch(net, centre, half, seed, cube=True)
        assert network.upper_bound is not None
        assert stretch <= network.upper_bound * (1 + 1e-9)
        assert network.upper_bound <= enclosing.network.upper_bound * (1 + 1e-6)
        if half == 1e-6:
            assert network.upper_bound <= 1.01 * stretch


def test_what_is_random_has_no_bound() -> None:
    network = OfOneInput(lambda x: x - torch.nn.functional.dropout(x, 0.5, True).mean(-1, keepdim=True))
    report = lipaudit.audit(network, input_shape=(1, 4), domain="ball", around=torch.ones(1, 4), radius=0.1)
    assert report.network.status == "unsupported"
