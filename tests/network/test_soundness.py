"""Networks that once got a bound below their true constant, or might: each with the constant worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from lipaudit.errors import CaptureError, GraphError, UsageError
from lipaudit.graph.capture.export import capture
from lipaudit.network.stretch import Pair


class Lambda(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def upper(function: Callable[[torch.Tensor], Any], *shape: int) -> float:
    report = lipaudit.audit(Lambda(function).double(), input_shape={"x": shape})
    assert report.network.status == "finite"
    return report.network.upper_bound


def double(function: Callable[[torch.Tensor], Any], *shape: int) -> lipaudit.AuditReport:
    net = Lambda(function).double()
    net.register_buffer("dtype", torch.zeros(1, dtype=torch.float64))
    return lipaudit.audit(net, input_shape={"x": shape})


@pytest.mark.parametrize(
    ("function", "constant"),
    [
        (lambda x: (x, x), math.sqrt(2)),
        (lambda x: (x, functional.dropout(x, training=False), x + 1), math.sqrt(3)),
        (lambda x: {"a": 2 * x, "b": [(2 * x).contiguous(), 2 * x]}, math.sqrt(12)),
        (lambda x: (x.clone(), x.detach()), math.sqrt(2)),
    ],
)
def test_an_output_that_is_returned_twice_counts_twice(
    function: Callable[[torch.Tensor], Any], constant: float
) -> None:
    found = upper(function, 1, 3)
    assert constant <= found <= constant * (1 + 1e-9)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x.sum().item(),
        lambda x: x * x.sum().item(),
        lambda x: x.clone().fill_(x.sum().item()),
        lambda x: x.masked_fill(torch.tensor([[True, False, True, False]]), x.sum().item()),
        lambda x: x.clamp(max=x.mean().item()),
        lambda x: x.roll(int(x.argmax().item()), 1),
        lambda x: (x, x.sum().item()),
        lambda x: torch.full_like(x, x.sum().item()),
    ],
)
def test_numbers_read_from_the_input_are_never_constants(function: Callable[[torch.Tensor], Any]) -> None:
    with pytest.raises(CaptureError):
        capture(Lambda(function), {"x": torch.ones(1, 4)})
    network = lipaudit.audit(Lambda(function), input_shape={"x": (1, 4)}).network
    assert (network.status, network.upper_bound, network.log10_upper_bound) == ("unsupported", None, None)


@pytest.mark.parametrize("d", [1, 2])
def test_a_data_dependent_bias_counts_for_every_sample(d: int) -> None:
    conv = (functional.conv1d, functional.conv2d)[d - 1]
    kernel = torch.full((2, 1, *(1,) * d), 1e-9)
    samples = 4

    def run(x: torch.Tensor) -> torch.Tensor:
        return conv(x.reshape(samples, 1, *(3,) * d), kernel, bias=x.flatten()[:2])

    # each of the two bias entries is added at every position of every sample
    constant = math.sqrt(samples * 3**d)
    assert constant <= upper(run, 1, samples * 3**d) <= constant * 1.001


@pytest.mark.parametrize(
    ("factors", "constant"),
    [
        ((1e-200, 1e-200, 1e300, 1e100), 1.0),
        ((1e-160, 1.2225e-161, 1e300), 1.2225e-21),
        ((1e200, 1e200, 1e-200, 1e-200), 1.0),
        ((1e-320, 1e300), 9.99988867182683e-21),
        ((0.0, 3.0), 0.0),
    ],
)
@pytest.mark.parametrize("start", ["nothing", "convolution", "dense"])
def test_folding_neither_underflows_nor_overflows(factors: tuple[float, ...], constant: float, start: str) -> None:
    first = {
        "nothing": nn.Identity(),
        "convolution": nn.Conv2d(2, 2, 1, bias=False),
        "dense": nn.Linear(2, 2, bias=False),
    }[start]
    with torch.no_grad():
        for p in first.parameters():
            p.copy_(torch.eye(2).reshape(p.shape))

    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = first

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for factor in factors:
                x = x * factor
            return x

    report = lipaudit.audit(Chain().double(), input_shape={"x": (1, 2, 2, 2)})
    # one rounding of a subnormal factor is no longer small beside it
    tolerance = 0.01 if any(0 < factor < 2.0**-1022 for factor in factors) else 0.002
    assert constant <= report.network.upper_bound <= constant * (1 + tolerance)


def test_a_stack_of_constants_claims_no_lower_end_it_does_not_have() -> None:
    stack = torch.stack([torch.diag(torch.tensor([1.0, 0, 0])), torch.diag(torch.tensor([0.0, 1, 0]))])
    (row,) = double(lambda x: torch.matmul(stack.to(x.dtype), x[0]), 1, 3, 2).layers[-1:]
    assert row.upper_bound >= 1
    assert row.lower_bound is None or row.lower_bound <= 1


def test_a_contradiction_is_an_error_and_not_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lipaudit.auditing.lower_bound.measured_lower_bound", lambda *_: Pair({}, {}, 1.0, 7.0))
    with pytest.raises(GraphError, match="7"):
        lipaudit.audit(nn.ReLU(), input_shape={"input": (1, 3)}, lower_bound=True)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Embedding(5, 3)), "integers"),
        (nn.BatchNorm1d(4, track_running_stats=False), "statistics of a batch"),
    ],
)
def test_what_cannot_be_captured_says_why(module: nn.Module, words: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CaptureError, match=words):
        lipaudit.audit(module, input_shape=(1, 4))
    assert capfd.readouterr() == ("", "")


def test_control_flow_that_depends_on_data_leaves_the_network_without_a_bound() -> None:
    network = lipaudit.audit(Lambda(lambda x: x if x.sum() > 0 else -x), input_shape=(1, 4)).network
    assert network.status == "unsupported"
    assert network.upper_bound is None
    assert "control flow" in network.reasons[0]


def on_pixels(function: Callable[[torch.Tensor], Any], *shape: int, effort: str = "none") -> lipaudit.AuditReport:
    net = Lambda(function)
    net.register_buffer("dtype", torch.zeros(1, dtype=torch.float64))
    return lipaudit.audit(net, input_shape={"x": shape}, domain="pixels", mean=(0.0,), std=(1.0,), effort=effort)


HIDDEN = torch.tensor([[True, True], [False, False]])


@pytest.mark.parametrize(
    ("function", "shape", "least"),
    [
        # torch gives 0 to a query without a key, far from every value
        (
            lambda x: (functional.scaled_dot_product_attention(1e-3 * x, 1e-3 * x, x + 500, HIDDEN) - 500) * x,
            (1, 2, 3), 500.0,
        ),
        # a product that is broadcast by what it is added to
        (lambda x: torch.addcmul(torch.zeros(1, 3, 500).double(), x, x), (1, 3, 1), 2 * math.sqrt(500)),
        # convolutions of an image without a batch axis
        (lambda x: functional.conv2d(x[0].double(), torch.full((8, 8, 1, 1), 4.0).double()).square(), (1, 8, 2, 2), 1024.0),
        (lambda x: functional.conv1d(x[0].double(), torch.full((8, 8, 1), 4.0).double()).square(), (1, 8, 4), 1024.0),
        # a cast to booleans between the softmax and the product with the values
        (lambda x: (x @ x.mT * 1e-6).softmax(-1).to(torch.bool).to(x.dtype) @ x, (1, 4, 2), 4.0),
        # divisors that are rounded
        (lambda x: x / (3 * (50 * x).softmax(-1) + 1).to(torch.int64).sum(-1, keepdim=True), (1, 2, 4), math.inf),
    ],
)  # fmt: skip
def test_bounds_on_pixels_that_were_once_too_small(
    function: Callable[[torch.Tensor], Any], shape: tuple[int, ...], least: float
) -> None:
    network = on_pixels(function, *shape).network
    assert network.status == "unbounded" or (network.upper_bound is not None and network.upper_bound >= least)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.mean().mean(0),
        lambda x: x * x.mean().softmax(0),
        lambda x: x * x.mean().amax(0),
        lambda x: x.square().sum().softmax(0) * x.mean(),
        lambda x: torch.cat([x.square(), x[:, :, :0].square()], -1),
        lambda x: x[:, :, :0].square().sum() * x,
        lambda x: x ** math.inf,
        lambda x: x + functional.batch_norm(
            torch.ones(1, 3, dtype=x.dtype), torch.zeros(3, dtype=x.dtype), torch.ones(3, dtype=x.dtype), None, x[0, 0]
        ),
    ],
)  # fmt: skip
def test_odd_operations_get_a_status(function: Callable[[torch.Tensor], Any]) -> None:
    assert on_pixels(function, 1, 1, 3, effort="quick").network.status in ("finite", "unbounded", "unsupported")


def test_a_complex_kernel_is_refused_and_not_a_crash() -> None:
    kernel = torch.ones(1, 1, 1, 1, dtype=torch.complex128)
    network = on_pixels(
        lambda x: functional.conv2d(torch.complex(x, x), kernel.to(torch.complex(x, x).dtype)).abs(), 1, 1, 2, 2
    ).network
    assert network.status == "unsupported"


@pytest.mark.parametrize("kind", ["sparse", "meta"])
def test_a_ball_around_what_is_no_plain_tensor_is_refused(kind: str) -> None:
    centre = torch.zeros(1, 1, 2, 2)
    odd = centre.to_sparse() if kind == "sparse" else centre.to("meta")
    with pytest.raises(UsageError, match="plain"):
        lipaudit.audit(nn.ReLU(), input_shape={"input": (1, 1, 2, 2)}, domain="ball", around=odd, radius=1.0)
