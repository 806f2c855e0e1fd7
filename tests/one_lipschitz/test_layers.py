"""Layers that are 1-Lipschitz by construction come out as 1; never below what inputs show."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lipaudit
from tests.one_lipschitz import layers

FLAT, IMAGE = (1, 8), (1, 4, 6, 6)
LAYERS: dict[str, tuple[type[nn.Module], tuple[object, ...], tuple[int, ...]]] = {
    "convex potential": (layers.ConvexPotential, (8, 12), FLAT),
    "convex potential, convolution": (layers.ConvexPotentialConvolution, (4, 5, 6, 3000), IMAGE),
    "SDP-based": (layers.SdpBased, (8, 12), FLAT),
    "SDP-based, convolution": (layers.SdpBasedConvolution, (4, 5), IMAGE),
    "sandwich": (layers.Sandwich, (8, 6), FLAT),
    "sandwich, convolution": (layers.SandwichConvolution, (4, 5, 6), IMAGE),
    "sandwich, convolution of one unit": (layers.SandwichConvolution, (4, 1, 6), IMAGE),
    "almost orthogonal": (layers.AlmostOrthogonal, (8, 6), FLAT),
    "almost orthogonal, circular": (layers.AlmostOrthogonalConvolution, (4, 5), IMAGE),
    "almost orthogonal, zeros": (layers.AlmostOrthogonalConvolution, (4, 5, "zeros"), IMAGE),
    "Cayley": (layers.CayleyLinear, (8, 6), FLAT),
    "Cayley, convolution": (layers.CayleyConvolution, (4, 6), IMAGE),
    "series of a skew-symmetric convolution": (layers.SkewExponential, (4,), IMAGE),
    "exponential of a skew-symmetric matrix": (layers.SkewMatrixExponential, (8,), FLAT),
    "Bjorck": (layers.bjorck_linear, (8, 6), FLAT),
    "blocks": (layers.BlockConvolution, (4,), IMAGE),
    "blocks, zeros": (layers.BlockConvolution, (4, False), IMAGE),
    "orthogonal per frequency": (layers.LayerwiseOrthogonal, (4, 6), IMAGE),
    "exponential per frequency": (layers.ExplicitOrthogonal, (4, 6), IMAGE),
    "invertible downsampling": (layers.InvertibleDownsampling, (), IMAGE),
    "invertible downsampling by slices": (layers.InvertibleDownsamplingBySlices, (), IMAGE),
    "batch centring": (layers.BatchCentring, (4,), IMAGE),
    "layer centring": (layers.LayerCentring, (), IMAGE),
    "one class": (layers.NormalisedClasses, (8, 1), FLAT),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_one_lipschitz(name: str) -> None:
    make, arguments, shape = LAYERS[name]
    torch.manual_seed(0)
    net = make(*arguments).eval()
    figure = lipaudit.audit(net, input_shape={lipaudit_input(net): shape}, effort="none").network
    assert figure.status == "finite"
    x = torch.randn(shape, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(net.double(), x, vectorize=True).reshape(-1, x.numel())
    assert float(torch.linalg.matrix_norm(jacobian, 2)) <= figure.upper_bound * (
        1 + 1e-6
    )  # weights are made in float64 here
    assert figure.upper_bound <= 1.0001


def lipaudit_input(net: nn.Module) -> str:
    """The name of the only input."""
    return "input" if isinstance(net, nn.Linear) else "x"


def test_a_residual_connection_with_weights() -> None:
    net = layers.LipschitzResidual(layers.bjorck_linear(8, 8)).eval()
    assert lipaudit.audit(net, input_shape={"x": FLAT}).network.upper_bound <= 1.0001


def test_a_sandwich_of_a_scaled_input_has_at_most_the_scale() -> None:
    torch.manual_seed(0)
    for net in (layers.SandwichConvolution(4, 3, 6, 3.0), layers.Sandwich(8, 5, 3.0)):
        shape = IMAGE if isinstance(net, layers.SandwichConvolution) else FLAT
        figure = lipaudit.audit(net.eval(), input_shape={"x": shape}, effort="none").network
        assert 1.0 < figure.upper_bound <= 3.0 * (1 + 1e-4)


def test_several_classes_are_not_one_lipschitz_together() -> None:
    net = layers.NormalisedClasses(8, 5).eval()
    figure = lipaudit.audit(net, input_shape={"x": FLAT}, lower_bound=True).network
    assert 1 < figure.lower_bound <= figure.upper_bound
    assert lipaudit.claim(lipaudit.audit(net, input_shape={"x": FLAT}, lower_bound=True)).verdict == "refuted"


def test_what_only_approximates_shows_its_excess() -> None:
    torch.manual_seed(0)
    loose = layers.ConvexPotential(8, 12, 3, 0).eval()  # three steps of the power iteration
    figure = lipaudit.audit(loose, input_shape={"x": FLAT}).network
    weight = loose.weight.detach().double()
    u = loose.u.double()
    for _ in range(3):
        v = nn.functional.normalize(weight.T @ u, dim=0)
        u = nn.functional.normalize(weight @ v, dim=0)
    norm = float(torch.sum(u * (weight @ v)))
    excess = 2 / norm**2 * float(torch.linalg.matrix_norm(weight, 2)) ** 2 - 1
    assert excess > 1.0001
    assert excess <= figure.upper_bound <= excess * 1.001


def test_a_deep_network_of_all_kinds() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        layers.BlockConvolution(4), layers.ConvexPotentialConvolution(4, 5, 6, 3000), layers.InvertibleDownsampling(),
        layers.CayleyConvolution(16, 3), nn.Flatten(), layers.CayleyLinear(144, 24), layers.Sandwich(24, 24),
        layers.SdpBased(24, 32), layers.AlmostOrthogonal(24, 16), layers.Sandwich(16, 8), layers.NormalisedClasses(8, 1),
    ).eval()  # fmt: skip
    assert lipaudit.audit(net, input_shape={"input": IMAGE}, effort="quick").network.upper_bound <= 1.001
