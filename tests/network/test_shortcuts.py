"""Residual blocks that are steps of gradient descent, and exponential series: never below the Jacobian, 1 where that is proved."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from tests.graph.networks import OfOneInput
from tests.network.forms.networks import max_min
from tests.one_lipschitz.layers import (
    ConvexPotential,
    ConvexPotentialConvolution,
    SdpBased,
    SdpBasedConvolution,
    SkewExponential,
    cayley,
)


class Step(nn.Module):
    """x - scale B s(A x + b), with every part to be changed."""

    def __init__(
        self,
        scale: float | torch.Tensor,
        activation: Callable[[torch.Tensor], torch.Tensor] = torch.relu,
        back: Callable[[torch.Tensor], torch.Tensor] = lambda w: w.T,
        order: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = lambda x, z: x - z,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        weight = torch.randn(7, 5, generator=generator)
        self.weight = nn.Parameter(weight / torch.linalg.matrix_norm(weight, 2))  # norm 1
        self.bias = nn.Parameter(torch.randn(7, generator=generator))
        self.scale, self.activation, self.back, self.order = scale, activation, back, order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.activation(functional.linear(x, self.weight, self.bias))
        return self.order(x, functional.linear(self.scale * hidden, self.back(self.weight)))


class ConvolutionStep(nn.Module):
    """x - scale K* relu(K x), written as a transposed convolution or as one with the flipped kernel."""

    def __init__(
        self, scale: float, flipped: bool = False, padding: int = 1, stride: int = 1, turned: bool = True
    ) -> None:
        super().__init__()
        weight = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0)).double()
        norm = lipaudit.conv_norm(weight, 6, padding=padding, stride=stride, tol=1e-6).upper
        self.weight, self.scale = nn.Parameter(weight / norm), scale
        self.flipped, self.padding, self.stride, self.turned = flipped, padding, stride, turned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(functional.conv2d(x, self.weight, padding=self.padding, stride=self.stride))
        if self.flipped:
            kernel = self.weight.transpose(0, 1)
            back = functional.conv2d(hidden, kernel.flip([2, 3]) if self.turned else kernel, padding=2 - self.padding)
        else:
            more = 1 if self.stride == 2 else 0
            back = functional.conv_transpose2d(
                hidden, self.weight, padding=self.padding, stride=self.stride, output_padding=more
            )
        return x - self.scale * back


DENSE: dict[str, tuple[nn.Module, float]] = {
    "half a step": (Step(1.0), 1.0),
    "a whole step": (Step(2.0), 1.0),
    "too long a step": (Step(2.5), 1.5),
    "added": (Step(-2.0, order=lambda x, z: x + z), 1.0),
    "the other way round": (Step(2.0, order=lambda x, z: z - x), 1.0),
    "a scale per unit": (Step(torch.linspace(0.1, 1.9, 7)), 1.0),
    "tanh": (Step(2.0, torch.tanh), 1.0),
    "leaky ReLU": (Step(2.0, lambda u: functional.leaky_relu(u, 0.3)), 1.0),
    "a slope below 0": (Step(2.0, lambda u: functional.leaky_relu(u, -0.3)), 1.6),
    "absolute value": (Step(0.5, torch.abs), 1.5),
    "a steeper activation": (Step(1.0, lambda u: 3 * torch.relu(u)), 2.0),
    "published, power iteration": (ConvexPotential(5, 7), 1.0),
    "published, SDP-based": (SdpBased(5, 9), 1.0),
}  # fmt: skip
NOT_A_STEP: dict[str, nn.Module] = {
    "upwards": Step(-1.0),
    "one unit upwards": Step(torch.tensor([1.0] * 6 + [-1.0])),
    "another matrix back": Step(1.0, back=lambda w: w.flip(0).T),
    "another matrix in one entry": Step(1.0, back=lambda w: (w + 0.1 * torch.eye(7, 5)).T),
    "a scaled skip connection": Step(2.0, order=lambda x, z: 2 * x - z),
    "a skip connection with a sign": Step(2.0, order=lambda x, z: x + z),
}  # fmt: skip


def bound_of(net: nn.Module, shape: tuple[int, ...]) -> float:
    figure = lipaudit.audit(net.eval(), input_shape=shape, effort="none").network
    assert figure.status == "finite"
    return figure.upper_bound


def steepest(net: nn.Module, shape: tuple[int, ...], points: int = 60) -> float:
    generator = torch.Generator().manual_seed(0)
    net = net.double()
    jacobians = (
        torch.autograd.functional.jacobian(net, 3 * torch.randn(shape, generator=generator).double()).reshape(
            -1, math.prod(shape)
        )
        for _ in range(points)
    )
    return max(float(torch.linalg.matrix_norm(j, 2)) for j in jacobians)


@pytest.mark.parametrize("name", DENSE)
def test_steps_of_gradient_descent(name: str) -> None:
    net, constant = DENSE[name]
    bound = bound_of(net, (1, 5))
    assert steepest(net, (1, 5)) <= bound * (1 + 1e-9)
    assert bound <= constant * 1.001


@pytest.mark.parametrize("name", NOT_A_STEP)
def test_what_is_no_step_keeps_the_sum(name: str) -> None:
    net = NOT_A_STEP[name]
    bound = bound_of(net, (1, 5))
    assert bound >= 1.9
    assert steepest(net, (1, 5)) <= bound * (1 + 1e-9)


@pytest.mark.parametrize(
    ("net", "constant"),
    [
        (ConvolutionStep(2.0), 1.0),
        (ConvolutionStep(2.0, flipped=True), 1.0),
        (ConvolutionStep(2.0, padding=0), 1.0),
        (ConvolutionStep(2.0, stride=2), 1.0),
        (ConvolutionStep(3.0), 2.0),
        (SdpBasedConvolution(3, 5), 1.0),
    ],
)
def test_steps_with_convolutions(net: nn.Module, constant: float) -> None:
    bound = bound_of(net.double(), (1, 3, 6, 6))
    assert steepest(net, (1, 3, 6, 6), 12) <= bound * (1 + 1e-9)
    assert bound <= constant * 1.001


def test_a_kernel_that_is_not_flipped_is_no_adjoint() -> None:
    assert bound_of(ConvolutionStep(2.0, flipped=True, turned=False).double(), (1, 3, 6, 6)) > 2


def test_steps_that_follow_each_other_have_no_share_inside() -> None:
    net = nn.Sequential(*[Step(2.0) for _ in range(20)], nn.Linear(5, 3))
    nn.init.orthogonal_(net[-1].weight, 3.0)
    report = lipaudit.audit(net.eval(), input_shape=(1, 5), effort="none")
    norm = float(torch.linalg.matrix_norm(net[-1].weight.detach(), 2))
    assert report.network.upper_bound <= norm * 1.001
    assert max(report.layers, key=lambda layer: layer.share or 0.0).name == "20"


class Series(nn.Module):
    """The exponential series of a convolution or a matrix on the data."""

    def __init__(self, skew: bool, terms: int, factor: float = 1.0, mode: str = "circular", size: float = 1.0) -> None:
        super().__init__()
        w = torch.randn(3, 3, 3, 3, generator=torch.Generator().manual_seed(0)).double()
        w = w - w.transpose(0, 1).flip([2, 3]) if skew else w
        self.weight = nn.Parameter(w * size / lipaudit.conv_norm(w, 6, padding=1, padding_mode=mode).upper)
        self.terms, self.factor, self.mode = terms, factor, mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = term = x
        for k in range(1, self.terms):
            pad = (
                functional.pad(term, (1, 1, 1, 1), mode="circular")
                if self.mode == "circular"
                else functional.pad(term, (1, 1, 1, 1))
            )
            term = functional.conv2d(pad, self.weight) / (k**self.factor)
            total = total + term
        return total


@pytest.mark.parametrize(
    ("net", "most"),
    [
        (Series(True, 14), 1 + 1e-6),
        (Series(True, 14, mode="zeros"), 1 + 1e-6),
        (Series(True, 5), 1.02),
        (Series(True, 16, size=2.0), 1.001),
        (SkewExponential(3).double(), 1 + 1e-6),
    ],
)
def test_the_exponential_of_a_skew_symmetric_convolution_is_nearly_orthogonal(net: nn.Module, most: float) -> None:
    bound = bound_of(net, (1, 3, 6, 6))
    assert steepest(net, (1, 3, 6, 6), 1) <= bound
    assert bound <= most


@pytest.mark.parametrize(
    "net", [Series(False, 14), Series(True, 14, factor=0.5), Series(True, 14, factor=0.0, size=0.7)]
)
def test_other_series_are_no_exponentials(net: nn.Module) -> None:
    bound = bound_of(net, (1, 3, 6, 6))
    assert bound > 1.5
    assert steepest(net, (1, 3, 6, 6), 1) <= bound


def test_a_step_whose_norm_was_found_on_its_own_image_size() -> None:
    """The norm over all frequencies is larger: the border has to be seen."""
    torch.manual_seed(0)
    net = ConvexPotentialConvolution(3, 4, 12, iterations=3000)
    bound = bound_of(net, (1, 3, 12, 12))
    assert steepest(net, (1, 3, 12, 12), 2) <= bound * (1 + 1e-9)
    assert bound <= 1 + 1e-4


def test_a_step_with_many_channels_whose_norm_was_found_on_its_own_image_size() -> None:
    """Too many entries for a factorisation: all frequencies prove 1.008."""
    torch.manual_seed(0)
    net = ConvexPotentialConvolution(16, 16, 32, iterations=1500)
    assert 1 <= bound_of(net, (1, 16, 32, 32)) <= 1 + 5e-4


def over(
    x: torch.Tensor, f: Callable[[torch.Tensor], torch.Tensor], g: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    a, b = x.chunk(2, 1)
    return torch.cat([f(a), g(b)], 1)


WHOLE: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "centred": (lambda x: x - x.mean((2, 3), keepdim=True), 1.0),
    "centred over channels": (lambda x: x - x.mean(1, keepdim=True), 1.0),
    "two lanes": (lambda x: over(x, torch.relu, lambda b: 2 * torch.tanh(b)), 2.0),
    "a lane past a block": (lambda x: over(x, lambda a: a, lambda b: b - b.mean((2, 3), keepdim=True)), 1.0),
    "a lane that joins what it took apart": (lambda x: over(x, lambda a: a, lambda b: max_min(torch.tanh(b))), 1.0),
    "a lane that turns its entries around": (
        lambda x: over(x, torch.relu, lambda b: 2 * torch.tanh(b).flip(1).transpose(2, 3).reshape(1, 2, 3, 3)), 2.0,
    ),
    "lanes of every other channel": (lambda x: torch.cat([x[:, ::2].abs(), x[:, 1::2].sin()], 1), 1.0),
}  # fmt: skip
APART: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "the mean of another tensor": (lambda x: x - (3 * x).mean((2, 3), keepdim=True), 2.0),
    "a mean that is added": (lambda x: x + x.mean((2, 3), keepdim=True), 2.0),
    "twice the mean": (lambda x: x - 2 * x.mean((2, 3), keepdim=True), 1.0),
    "lanes that share entries": (lambda x: torch.cat([x[:, :3].abs(), x[:, 1:].sin()], 1), math.sqrt(2)),
    "a lane that repeats its entries": (
        lambda x: over(x, torch.relu, lambda b: torch.tanh(b)[:, [0, 1, 0, 1]]), math.sqrt(2),
    ),
    "a lane that reads both": (lambda x: over(x, torch.relu, lambda b: b + torch.relu(x[:, :2])), math.sqrt(2)),
    "the same entries twice": (lambda x: torch.cat([x[:, :2].abs(), x[:, :2].abs()], 1), math.sqrt(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", [*WHOLE, *APART])
def test_centring_and_lanes(name: str) -> None:
    function, constant = (WHOLE | APART)[name]
    net = OfOneInput(function)
    bound = bound_of(net, (1, 4, 3, 3))
    assert steepest(net, (1, 4, 3, 3), 12) <= bound * (1 + 1e-12)
    assert bound <= constant * (1 + 1e-9) if name in WHOLE else bound >= constant * (1 - 1e-9)


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int64).to(x.dtype)


def binary(x: torch.Tensor) -> torch.Tensor:
    return x.bool().to(x.dtype)


def series(x: torch.Tensor, w: torch.Tensor, cast: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    first = functional.linear(cast(x), w)
    second = functional.linear(first, w) / 2
    return x + first + second + functional.linear(second, w) / 3


JUMPS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "the mean of whole numbers": lambda x, w: x - rounded(x).mean(-1, keepdim=True),
    "the mean of truth values": lambda x, w: x - binary(x).mean(-1, keepdim=True),
    "whole numbers less their mean": lambda x, w: rounded(x) - x.mean(-1, keepdim=True),
    "a step that rounds its product": lambda x, w: x - 2 * torch.relu(rounded(x @ w.T)) @ w,
    "a step that rounds its activation": lambda x, w: x - 2 * rounded(torch.relu(x @ w.T)) @ w,
    "a step that rounds its input": lambda x, w: x - 2 * torch.relu(rounded(x) @ w.T) @ w,
    "a step that rounds what it adds": lambda x, w: x - rounded(2 * torch.relu(x @ w.T) @ w),
    "a step from whole numbers": lambda x, w: rounded(x) - 2 * torch.relu(x @ w.T) @ w,
    "a series of whole numbers": lambda x, w: series(x, w - w.T, rounded),
    "a series of truth values": lambda x, w: series(x, w - w.T, binary),
    "lanes of whole numbers": lambda x, w: torch.cat([rounded(x[:, :2]), x[:, 2:].sin()], 1),
    "lanes of the rounded input": lambda x, w: over(rounded(x), torch.relu, torch.sin),
}  # fmt: skip


@pytest.mark.parametrize("effort", ["none", "quick"])
@pytest.mark.parametrize("name", JUMPS)
def test_casts_that_jump_get_no_bound(name: str, effort: str) -> None:
    w = torch.linalg.qr(torch.randn(4, 4, generator=torch.Generator().manual_seed(2)).double())[0]
    net = OfOneInput(lambda x: JUMPS[name](x, w))
    x = torch.randn(1, 4, generator=torch.Generator().manual_seed(3)).double()
    for domain in ({}, {"domain": "ball", "around": x, "radius": 1.0}):
        report = lipaudit.audit(net, input_shape=(1, 4), effort=effort, **domain)
        assert report.network.status != "finite"


def test_what_a_cast_to_complex_numbers_drops_is_no_mean_of_the_tensor() -> None:
    net = OfOneInput(lambda x: x - (x * torch.tensor(2j).to(torch.complex128)).imag.mean(-1, keepdim=True))
    assert steepest(net, (1, 4)) <= bound_of(net, (1, 4)) * (1 + 1e-9)


def test_a_cast_to_less_precision_is_passed() -> None:
    net = OfOneInput(lambda x: x - x.float().mean(-1, keepdim=True).double())
    assert bound_of(net, (1, 4)) <= 1 + 1e-6


class TwoMaps(nn.Module):
    """C s(W x), matrices or convolutions that go around."""

    def __init__(
        self, first: torch.Tensor, second: torch.Tensor, activation: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        super().__init__()
        self.first, self.second, self.activation = nn.Parameter(first), nn.Parameter(second), activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.first.dim() == 2:
            return functional.linear(self.activation(functional.linear(x, self.first)), self.second)
        for i, kernel in enumerate((self.first, self.second)):
            x = functional.conv2d(functional.pad(x, (1, 1, 1, 1), mode="circular"), kernel)
            x = self.activation(x) if i == 0 else x
        return x


ACTIVATIONS = {
    "relu": torch.relu, "tanh": torch.tanh, "leaky": lambda x: functional.leaky_relu(x, 0.25),
    "steep": lambda x: functional.leaky_relu(x, 2.0), "absolute": torch.abs,
}  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("convolution", [False, True])
def test_two_maps_that_are_nearly_a_sandwich_are_never_below_their_jacobian(activation: str, convolution: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    q = cayley(torch.randn(9, 5, generator=generator, dtype=torch.float64))
    psi = torch.tensor([0.5, 1.0, 1.5, 0.7, 3.0], dtype=torch.float64)
    first, second = math.sqrt(2) / psi[:, None] * q[5:].T, math.sqrt(2) * q[:5] * psi
    if convolution:
        first, second = (functional.pad(m[..., None, None], (1, 1, 1, 1)) for m in (first, second))
    first, second = (m + 0.02 * torch.randn(m.shape, generator=generator, dtype=m.dtype) for m in (first, second))
    net, shape = TwoMaps(first, second, ACTIVATIONS[activation]), (1, 4, 5, 5) if convolution else (1, 4)
    network = lipaudit.audit(net, input_shape={"x": shape}, effort="none").network
    largest = 0.0
    for one in torch.randn(15, *shape, generator=generator, dtype=torch.float64) * 3:
        jacobian = torch.autograd.functional.jacobian(net, one).reshape(-1, one.numel())
        largest = max(largest, float(torch.linalg.matrix_norm(jacobian, 2)))
    assert largest <= network.upper_bound * (1 + 1e-12)
    if activation in ("relu", "tanh", "leaky"):
        assert network.upper_bound <= 1.6


@pytest.mark.parametrize("frequencies", [1, 3])
def test_the_norm_that_a_sandwich_is_bounded_by_is_above_every_choice_of_slopes(frequencies: int) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        w = torch.randn(
            frequencies, 5, 3, generator=generator, dtype=torch.complex128 if frequencies > 1 else torch.float64
        )
        c = torch.randn(frequencies, 4, 5, generator=generator, dtype=w.dtype)
        roots = torch.rand(5, generator=generator, dtype=torch.float64) + 0.1
        k = torch.cat([c / roots, w.mH * (roots / 2)], 1)
        bound = float(torch.linalg.matrix_norm(k, 2).max()) ** 2
        for _ in range(50):
            slopes = torch.rand(5, generator=generator, dtype=torch.float64).round(decimals=0)
            assert float(torch.linalg.matrix_norm(c @ (slopes[:, None] * w), 2).max()) <= bound * (1 + 1e-12)
