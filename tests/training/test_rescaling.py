"""Layers that are bounded by construction, and the audit that certifies them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given, settings
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

from lipaudit import audit
from lipaudit.errors import UsageError
from lipaudit.training import LipschitzRegularizer, Rescaling, rescale
from lipaudit.training.geometry import Geometry
from tests.spectral.geometries import Case, cases


class Residual(nn.Module):
    """relu, two residual branches, pooling and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 6, 3, padding=1)
        self.first = nn.Conv2d(6, 6, 3, padding=1, groups=2)
        self.second = nn.Conv2d(6, 6, 3, padding=1, padding_mode="circular")
        self.down = nn.Conv2d(6, 4, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.head = nn.Linear(4 * 16, 3)
        for p in self.parameters():
            p.data *= 4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        x = x + self.second(torch.relu(self.first(x)))
        x = functional.avg_pool2d(self.up(torch.relu(self.down(x))), 2, 2)
        return self.head(functional.max_pool2d(x, 3, 1, padding=1).flatten(1))


LAYERS = ["stem", "first", "second", "down", "up", "head"]


@pytest.fixture
def net() -> Residual:
    torch.manual_seed(1)
    return Residual()


@pytest.mark.parametrize("limit", [1.0, 0.7])
@pytest.mark.parametrize("removed", [False, True])
def test_the_audit_certifies_the_product_of_the_limits(net: Residual, limit: float, removed: bool) -> None:
    assert rescale(net, (1, 8, 8), limit) == LAYERS
    if removed:
        for name in LAYERS:
            parametrize.remove_parametrizations(net.get_submodule(name), "weight")
        assert not any("parametrizations" in name for name in net.state_dict())
    report = audit(net, input_shape=(1, 8, 8))
    rows = {row.name: row.upper_bound for row in report.layers if row.name in LAYERS}
    assert list(rows) == LAYERS
    assert max(rows.values()) <= limit
    assert rows["head"] >= 0.99 * limit
    # stem, 1 + the branch, down, up, average pooling 1/2, max pooling 3, head
    assert report.network.upper_bound <= limit**4 * (1 + limit**2) * 1.5 * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(cases(valid=True))
def test_every_geometry_is_within_the_limit(case: Case) -> None:
    kernel = case.kernel()
    try:
        geometry = Geometry.of(case.convolution(kernel))
        case.operator(kernel)
    except (ValueError, RuntimeError):
        assume(False)
    for dtype in (torch.float64, torch.float32, torch.float16):
        rescaled = Rescaling([geometry], 0.8, 6, 1e-3, 8)(kernel.clamp(-1e4, 1e4).to(dtype)).double()
        assert torch.linalg.matrix_norm(case.operator(rescaled), 2) <= 0.8
        assert case.norm(rescaled).upper <= 0.8


def test_the_limit_holds_for_other_sizes(net: Residual) -> None:
    rescale(net, (1, 8, 8))
    for name in ("stem", "down"):
        layer = nn.Sequential(net.get_submodule(name))
        report = audit(layer, input_shape=(layer[0].in_channels, 33, 47))
        assert report.network.upper_bound <= 1


def test_small_layers_are_not_changed_and_large_ones_only_scaled(net: Residual) -> None:
    net.first.weight.data *= 1e-3
    before = {name: net.get_submodule(name).weight.detach().clone() for name in LAYERS}
    rescale(net, (1, 8, 8), {"head": None, "*": 0.5})
    assert torch.equal(net.first.weight, before["first"])
    assert not parametrize.is_parametrized(net.head)
    ratio = net.stem.weight / before["stem"]
    torch.testing.assert_close(ratio, ratio.mean().expand_as(ratio))
    assert 0 < ratio.mean() < 1


def test_parameters_stay_and_are_trained_through_the_rescaling(net: Residual) -> None:
    parameters = list(net.parameters())
    rescale(net, (1, 8, 8))
    assert {id(p) for p in net.parameters()} == {id(p) for p in parameters}
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    x = torch.randn(8, 1, 8, 8)
    losses = []
    for _ in range(10):
        loss = functional.cross_entropy(net(x), torch.arange(8) % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert max(row.upper_bound for row in audit(net, input_shape=(1, 8, 8)).layers if row.name in LAYERS) <= 1


def test_the_gradient_is_that_of_the_quotient() -> None:
    rescaling = Rescaling([Geometry((5, 5), padding=1)], 0.5, 4, 1e-3, 4)
    kernel = torch.randn(3, 2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(rescaling, (kernel.requires_grad_(),))
    assert torch.autograd.gradcheck(rescaling, ((kernel.detach() * 1e-3).requires_grad_(),))
    zero = torch.zeros(3, 2, 3, 3, requires_grad=True)
    rescaling(zero).sum().backward()
    assert torch.equal(zero.grad, torch.ones_like(zero))


def test_a_tied_weight_is_rescaled_wherever_it_is() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(x)))

    net = Tied()
    net.first.weight.data *= 9
    assert rescale(net, (1, 4)) == ["first"]
    assert torch.equal(net.first.weight, net.second.weight)
    assert len(list(net.parameters())) == 3
    assert audit(net, input_shape=(1, 4)).network.upper_bound <= 1
    for module in (net.first, net.second):
        parametrize.remove_parametrizations(module, "weight")
    assert audit(net, input_shape=(1, 4)).network.upper_bound <= 1


def test_half_precision_is_within_the_limit_too() -> None:
    layer = nn.Linear(64, 64, bias=False).to(torch.bfloat16)
    layer.weight.data *= 5
    rescale(layer, (1, 64))
    norm = torch.linalg.matrix_norm(layer.weight.double(), 2).item()
    assert 1 / (1 + 2**-8 * 64) / 1.01 <= norm <= 1


def test_numbers_below_the_range_of_the_precision_are_covered() -> None:
    generator = torch.Generator().manual_seed(3)
    for limit in (3e-4, 1e-4, 3e-5):  # entries near 2^-24, the smallest of float16
        weight = torch.rand(64, 64, generator=generator).half()
        rescaled = Rescaling([None], limit, 8, 1e-3, 16)(weight)
        assert torch.linalg.matrix_norm(rescaled.double(), 2) <= limit
    with pytest.raises(UsageError, match=r"1e-07 is too small for a weight in torch\.float16"):
        Rescaling([None], 1e-7, 8, 1e-3, 16)(weight)


def test_a_compiled_network_and_a_regularizer_read_the_rescaled_weights(net: Residual) -> None:
    rescale(net, (1, 8, 8))
    x = torch.randn(2, 1, 8, 8)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(compiled, net(x))
    compiled.sum().backward()
    assert net.stem.parametrizations.weight.original.grad.any()
    regularizer = LipschitzRegularizer(net, (1, 8, 8), target=0.5, iterations=10)
    regularizer().backward()
    assert max(regularizer.values.values()) <= 1
    assert list(regularizer.values) == LAYERS


def test_bad_limits(net: Residual) -> None:
    for limit in (0.0, math.inf, -1.0):
        with pytest.raises(UsageError, match="above 0"):
            rescale(net, (1, 8, 8), limit)
    assert not any(parametrize.is_parametrized(m) for m in net.modules())


def test_a_layer_is_rescaled_once(net: Residual) -> None:
    first, *others = rescale(net, (1, 8, 8), {"*": 2.0})
    with pytest.raises(UsageError, match=f"{first} is rescaled already: end that with .*remove_parametrizations"):
        rescale(net, (1, 8, 8), 1.0)
    assert len(parametrize_of(net, first)) == 1
    assert others


def parametrize_of(net: nn.Module, name: str) -> nn.Module:
    return net.get_submodule(name).parametrizations["weight"]  # type: ignore[no-any-return, index, union-attr]
