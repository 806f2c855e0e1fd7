"""The differentiable bound of the whole network against the audit's and against finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from lipaudit.errors import UsageError
from lipaudit.training import NetworkBound, certified_radii, radius_cross_entropy

SHAPE = (2, 6, 6)


def _convolution(c_in, c_out):
    """With a circular border, whose norm is the same number for the audit and in training."""
    return nn.Conv2d(c_in, c_out, 3, padding=1, padding_mode="circular")


class Residual(nn.Module):
    """Two residual blocks with batch norms, one of them behind the sum, and a dense layer."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = _convolution(2, 4), nn.BatchNorm2d(4)
        self.conv2 = _convolution(4, 4)
        self.conv3, self.conv4 = _convolution(4, 4), nn.Conv2d(4, 4, 1)
        self.norm2 = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 36, 3)

    def forward(self, x):
        x = functional.relu(self.norm1(self.conv1(x)))
        x = x + self.conv2(functional.relu(x)).tanh()
        x = self.conv3(x).relu() + self.conv4(x).tanh()
        return self.head(self.norm2(x.relu()).relu().flatten(1))


class Branching(nn.Module):
    """One tensor with three readers, branches that are concatenated, a tied layer, and two outputs."""

    def __init__(self):
        super().__init__()
        self.stem, self.left, self.right = nn.Linear(5, 6), nn.Linear(6, 4), nn.Linear(6, 6)
        self.tied, self.head = nn.Linear(6, 6), nn.Linear(10, 3)

    def forward(self, x):
        h = self.stem(x).relu()
        g = self.tied(self.tied(h).tanh()).relu()
        both = torch.cat([self.left(h).relu(), self.right(h).relu() + g], 1)
        return self.head(both), torch.maximum(h, g)


NETWORKS = {
    "residual": (Residual, (1, *SHAPE)),
    "branching": (Branching, (1, 5)),
    "normalised": (
        lambda: nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8, eps=0.5), nn.Linear(8, 8), nn.PReLU(), nn.Linear(8, 2)),
        (1, 5),
    ),
    "chain": (lambda: nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)), (1, 5)),
}


def make(name, seed=0):
    torch.manual_seed(seed)
    factory, shape = NETWORKS[name]
    net = factory().double().eval()
    with torch.no_grad():
        for key, buffer in net.named_buffers():
            if key.endswith("running_var"):
                buffer.uniform_(0.5, 2.0)
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d | nn.LayerNorm):
                module.weight.uniform_(-2.0, 2.0)
            if isinstance(module, nn.PReLU):
                module.requires_grad_(False)
    return net, shape


def audited(net, shape):
    return lipaudit.audit(net, input_shape=shape, effort="none", tol=1e-6).network.upper_bound


@pytest.mark.parametrize("name", NETWORKS)
def test_value_is_the_product_of_the_audit(name):
    net, shape = make(name)
    value = NetworkBound(net, shape, iterations=16, oversampling=64)().exp().item()
    assert value == pytest.approx(audited(net, shape), rel=2e-3)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradient_is_that_of_finite_differences(name):
    net, shape = make(name, seed=1)
    bound = NetworkBound(net, shape)
    bound().backward()
    generator = torch.Generator().manual_seed(0)
    moved = 0
    for key, parameter in net.named_parameters():
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        slope = 0.0 if parameter.grad is None else float((parameter.grad * direction).sum())
        values = []
        with torch.no_grad():
            for step in (1e-5, -1e-5):
                parameter.add_(direction, alpha=step)
                values.append(bound().item())
                parameter.sub_(direction, alpha=step)
        assert slope == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4, abs=1e-7), key
        moved += slope != 0
    assert moved >= 3


def test_shares_of_a_block_are_its_parts_of_the_sum():
    net, shape = make("residual")
    bound = NetworkBound(net, shape)
    bound()
    branch = bound.norms["conv2"]
    assert bound.shares["conv1"] == pytest.approx(1.0)
    assert bound.shares["conv2"] == pytest.approx(branch / (1 + branch))
    assert bound.shares["conv3"] + bound.shares["conv4"] == pytest.approx(1.0)
    assert bound.norms["norm2"] == pytest.approx(
        (net.norm2.weight / (net.norm2.running_var + net.norm2.eps).sqrt()).abs().max().item()
    )


def test_weights_are_read_at_every_call():
    net, shape = make("chain")
    bound = NetworkBound(net, shape)
    before = bound().item()
    with torch.no_grad():
        net[2].weight.mul_(3)
    assert bound().item() == pytest.approx(before + math.log(3))
    with torch.no_grad():
        net[2].weight.zero_()
    assert bound().item() == -math.inf
    with torch.no_grad():
        net[2].weight.fill_(math.nan)
    assert math.isnan(bound().item())


def test_frozen_operations_keep_the_constants_of_the_audit():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.PReLU(4, init=1.5), nn.Linear(4, 2)).double().eval()
    with pytest.raises(UsageError, match=r"how the constant of 1 depends on the parameter 1.weight: freeze it"):
        NetworkBound(net, (1, 4))
    net[1].requires_grad_(False)
    assert NetworkBound(net, (1, 4), iterations=16)().exp().item() == pytest.approx(audited(net, (1, 4)), rel=1e-3)


def test_a_network_without_a_bound_over_all_inputs_is_refused():
    class Square(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = nn.Linear(4, 4)

        def forward(self, x):
            return self.dense(x).square()

    with pytest.raises(UsageError, match="no bound over all inputs that could be trained, because of"):
        NetworkBound(Square(), (1, 4))


def test_the_loss_on_radii_widens_them_where_larger_logits_would_not():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    centres = torch.randn(3, 4)
    classes = torch.arange(3).repeat(20)
    images = centres[classes] + 0.1 * torch.randn(60, 4)
    bound = NetworkBound(net, (1, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(100):
        loss = radius_cross_entropy(net(images), classes, 4.0, bound(), radius=0.3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    upper = lipaudit.audit(net, input_shape=(1, 4), effort="none").network.upper_bound
    with torch.no_grad():
        radii = certified_radii(net(images), classes, math.log(upper))
        assert (radii > 0.2).float().mean() > 0.9
        for layer in (net[0], net[2]):  # a network that is multiplied by a number has the same radii
            layer.weight.mul_(5), layer.bias.mul_(5 if layer is net[0] else 25)
        torch.testing.assert_close(certified_radii(net(images), classes, math.log(25 * upper)), radii)
