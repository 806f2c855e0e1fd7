"""The captured graph against the module as a user calls it."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import lipaudit
from lipaudit.errors import CaptureError
from lipaudit.graph.capture.agreement import disagreement
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret

X = {"x": torch.zeros(1, 4)}
Forward = Callable[[nn.Module, torch.Tensor], Any]


class Net(nn.Module):
    def __init__(self, forward: Forward, **attributes: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)
        nn.init.eye_(self.linear.weight)
        self.compute = forward
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> Any:
        return self.compute(self, self.linear(x))


@pytest.mark.parametrize(
    "asks",
    [
        torch.compiler.is_compiling,
        torch.compiler.is_exporting,
        torch.compiler.is_dynamo_compiling,
        torch.jit.is_tracing,
        lambda: torch.compiler.is_compiling() or (not torch.is_grad_enabled() and torch.compiler.is_exporting()),
    ],
)
@pytest.mark.parametrize("exported", [0.1, 10.0])
def test_a_module_that_asks_whether_it_is_exported_is_audited_as_it_is_called(
    asks: Callable[[], bool], exported: float
) -> None:
    net = Net(lambda m, x: exported * x if asks() else x)
    graph = capture(net, X)
    x = torch.randn(1, 4)
    assert torch.equal(interpret(graph, {"x": x})[graph.outputs[0]], net(x).detach())
    bound = lipaudit.audit(net, input_shape={"x": (1, 4)}).network.upper_bound
    assert bound == pytest.approx(1.0, rel=1e-3)
    assert bound >= 1


def _counts(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    m.calls.total += 1
    return x * m.calls.total


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda m, x: x if torch.is_grad_enabled() else 10 * x, "gradients"),
        (lambda m, x: 10 * x if torch.is_grad_enabled() else x, "gradients"),
        (lambda m, x: x if isinstance(x, FakeTensor) else 10 * x, "differs by"),
        (lambda m, x: torch.ones(1, 4) if isinstance(x, FakeTensor) else x, "constant in its export"),
        (lambda m, x: x if isinstance(x, FakeTensor) or float(x.abs().sum()) < 50 else 2 * x, "large random inputs"),
        (lambda m, x: x if isinstance(x, FakeTensor) else (x, x), "returns no tensor"),
        (lambda m, x: x if isinstance(x, FakeTensor) else x[:, :2], "shape"),
        (lambda m, x: x if isinstance(x, FakeTensor) else x / 0, "infinite or undefined"),
        (lambda m, x: x if isinstance(x, FakeTensor) else x.no_such_method(), "no_such_method"),
        (lambda m, x: x * random.random(), "random numbers"),
        (lambda m, x: x * float(np.random.rand()), "random numbers"),
        (lambda m, x: x * torch.rand_like(x), "random numbers"),
    ],
)
def test_what_is_another_function_when_it_is_called_is_refused(forward: Forward, words: str) -> None:
    with pytest.raises(CaptureError, match=words):
        capture(Net(forward), X)
    report = lipaudit.audit(Net(forward), input_shape={"x": (1, 4)}) if "no_such" not in words else None
    if report is not None:
        assert report.network.status == "unsupported"
        assert report.network.upper_bound is None
        assert words in report.network.reasons[0]


def test_a_module_that_runs_is_left_as_it_was_found() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        m.calls += 1
        m.seen.append(x)
        m.cache.keys = x
        m.total.add_(x.sum())
        m.average = m.average + x.mean()
        if not isinstance(x, FakeTensor):
            m.cache.tensors["total"].add_(1)
            m.linear.weight.data.clamp_(-0.5, 0.5)
        torch.rand(1), random.random(), np.random.rand()
        print("running")
        return 2 * x

    cache = SimpleNamespace(keys=None, tensors={"total": torch.zeros(())})
    net = Net(forward, calls=0, seen=[], cache=cache)
    net.register_buffer("total", torch.zeros(()))
    net.register_buffer("average", torch.zeros(()))
    average, weight = net.average, net.linear.weight
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state()
    capture(net, X)
    assert (net.calls, net.seen, net.cache) == (0, [], cache)
    assert cache.keys is None
    assert float(cache.tensors["total"]) == float(net.total) == 0
    assert net.average is average
    assert net.linear.weight is weight
    assert torch.equal(weight, torch.eye(4))
    assert net.training
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tolist() == states[1]
    assert torch.equal(torch.random.get_rng_state(), states[2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rounding_is_no_difference(dtype: torch.dtype) -> None:
    """Sums that cancel, in the order in which the module adds and in another one."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)).to(dtype)

    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = layers(x)
        terms = torch.cat([y, 100 + y, y - 100], 1)
        if isinstance(x, FakeTensor):
            return terms.sum(1)
        return sum((terms[:, i] for i in range(1, 9)), terms[:, 0])

    net = Net(forward).to(dtype)
    inputs = {"x": torch.zeros(1, 4, dtype=dtype)}
    assert capture(net, inputs).outputs
    off = Net(lambda m, x: forward(m, x) * (1 if isinstance(x, FakeTensor) else 10000)).to(dtype)
    with pytest.raises(CaptureError, match="differs by"):
        capture(off, inputs)


def test_fused_kernels_agree_with_what_is_written_out() -> None:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = {"x": torch.zeros(1, 5, 8)}
    assert disagreement(encoder, x, capture(encoder, x)) is None


def test_without_weights_nothing_is_compared() -> None:
    net = Net(lambda m, x: x if isinstance(x, FakeTensor) else 1 / 0).to("meta")
    assert capture(net, X).outputs
