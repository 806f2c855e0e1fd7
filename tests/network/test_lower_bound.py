"""The empirical lower bound: measured at two inputs, never above the true constant, and without traces in the module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import OutputError, UsageError
from lipaudit.graph.capture.export import capture
from lipaudit.network.domain import GLOBAL, Domain, ball, pixel_box
from lipaudit.network.lower_bound import measured_lower_bound
from lipaudit.network.stretch import Pair


def search(net: nn.Module, inputs: dict[str, torch.Tensor], seed: int = 0, domain: Domain = GLOBAL) -> Pair:
    found = measured_lower_bound(capture(net, inputs), inputs, seed, domain)
    assert found is not None
    return found


def check(net: nn.Module, pair: Pair) -> None:
    """The quotient is what float64 says of the two inputs."""
    net = net.double().eval()
    x, y = ([t.double() for t in point.values()] for point in (pair.x, pair.y))
    distance = torch.cat([(a - b).flatten() for a, b in zip(x, y, strict=True)]).norm()
    change = (net(*x) - net(*y)).norm().detach()
    assert pair.distance == pytest.approx(float(distance), rel=1e-12)
    assert 0 < pair.quotient <= float(change / distance) * (1 + 1e-12)
    assert pair.quotient == pytest.approx(float(change / distance), rel=1e-6)


def test_linear_network_reaches_its_spectral_norm() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)).double()
    norm = float(torch.linalg.matrix_norm((net[1].weight @ net[0].weight).detach(), 2))
    found = search(net, {"x": torch.zeros(1, 5, dtype=torch.float64)})
    assert norm * 0.95 <= found.quotient <= norm * (1 + 1e-14)
    check(net, found)


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_a_large_offset_is_not_taken_for_a_stretch(offset: float) -> None:
    layer = nn.Linear(1, 1).double().requires_grad_(False)
    layer.weight.fill_(1.5)
    layer.bias.fill_(offset)
    images = torch.linspace(-1e-3, 1e-3, 5, dtype=torch.float64)[:, None]
    network = lipaudit.audit(layer, input_shape=(1, 1), effort="none", lower_bound=True, images=images).network
    assert network.lower_bound is not None
    assert network.images is not None
    assert 1.4 < network.lower_bound <= 1.5
    assert all(norm is None or norm.norm <= 1.5 for norm in network.images.norms)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_pair_is_given_exactly_and_gives_the_quotient(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(64, 5)).to(dtype)
    found = search(net, {"x": torch.zeros(1, 2, 6, 6, dtype=dtype)})
    assert found.x["x"].dtype == found.y["x"].dtype == dtype
    check(net, found)


def test_several_inputs_and_outputs_count_as_one_vector() -> None:
    class Two(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"sum": 3 * (a + b), "other": 4 * (a + b)}

    found = search(Two(), {"a": torch.zeros(1, 3), "b": torch.zeros(1, 3)})
    assert found.quotient == pytest.approx(5 * 2**0.5, rel=1e-3)
    assert found.quotient <= 5 * 2**0.5


def test_steps_of_finite_length_leave_a_flat_region() -> None:
    class Dead(nn.Module):
        """Constant around the start, of slope 10 further out."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0.1 * x + 10 * torch.relu(x.abs() - 3.0)

    found = search(Dead(), {"x": torch.full((1, 1), 2.9)})
    assert found.quotient == pytest.approx(10.1, rel=1e-3)


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_the_ascent_comes_near_the_steepest_piece(seed: int) -> None:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    axis = torch.linspace(-6, 6, 121, dtype=torch.float64)
    jacobians = torch.func.vmap(torch.func.jacrev(net))(torch.cartesian_prod(axis, axis)).detach()
    largest = float(torch.linalg.matrix_norm(jacobians, 2).max())
    assert search(net, {"x": torch.zeros(1, 2, dtype=torch.float64)}).quotient >= 0.95 * largest


class Custom(torch.autograd.Function):
    """The identity with a gradient a hundred times as large."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 100 * gradient


class Lambda(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "constant"),
    [
        (lambda x: x - x.detach(), 0.0),
        (lambda x: 3 * x - 2 * x.detach(), 1.0),
        (lambda x: Custom.apply(x), 1.0),
        (lambda x: x + (x.round() - x).detach() * 0, 1.0),
        (lambda x: (x * 3).detach() - 2 * x.detach(), 1.0),
        (lambda x: torch.zeros_like(x).copy_(x).mul_(0.5), 0.5),
        (lambda x: 1e8 + x - 1e8, 1.0),
        (lambda x: torch.relu(x - 1e-3) * 2, 2.0),
    ],
)
def test_autograd_is_not_believed(function: Any, constant: float) -> None:
    found = lipaudit.audit(Lambda(function), input_shape={"x": (1, 4)}, lower_bound=True).network
    assert found.lower_bound is not None
    assert constant * 0.99 <= found.lower_bound <= constant
    assert found.lower_bound_distance is not None


def test_on_a_domain_both_points_belong_to_it() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.Tanh())
    shapes = {"x": (1, 3, 2, 2)}
    box = pixel_box(shapes, (0.5, 0.4, 0.3), (0.2, 0.3, 0.1))
    around = {"x": torch.full((1, 3, 2, 2), 40.0)}
    for domain in (box, ball(around, 0.01), ball(around, 1e-6)):
        found = search(net, {"x": torch.zeros(1, 3, 2, 2)}, domain=domain)
        for point in (found.x["x"], found.y["x"]):
            away = point.double() - domain.centres["x"]
            if domain.radius is not None:
                assert float(away.norm()) <= domain.radius
            else:
                assert bool((away.abs() <= domain.reach["x"]).all())
    check(net, search(net, {"x": torch.zeros(1, 3, 2, 2)}, domain=box))


def test_module_is_left_as_it_was_and_result_is_repeatable() -> None:
    class Caching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.last = 0, torch.zeros(1, 4)
            self.register_buffer("total", torch.zeros(()))
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            self.last = x
            self.total = self.total + 1
            return 2 * self.norm(x)

    net = Caching()
    net.norm.weight.requires_grad_(False)
    total, last = net.total, net.last
    first = lipaudit.audit(net, input_shape={"x": (1, 4)}, lower_bound=True, seed=3)
    second = lipaudit.audit(net, input_shape={"x": (1, 4)}, lower_bound=True, seed=3)
    assert first.network == second.network
    assert (net.calls, float(net.total)) == (0, 0.0)
    assert net.total is total
    assert net.last is last
    assert net.training
    assert net.norm.training
    assert not net.norm.weight.requires_grad
    assert net.norm.bias.requires_grad
    assert net.norm.bias.grad is None
    assert int(net.norm.num_batches_tracked) == 0


def test_lower_bound_stays_below_the_certified_bound() -> None:
    torch.manual_seed(1)
    attention_free = nn.Sequential(nn.Conv2d(2, 6, 3, 2, 1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24, 5))
    report = lipaudit.audit(attention_free, input_shape=(2, 8, 8), lower_bound=True)
    assert 0 < report.network.lower_bound <= report.network.upper_bound


def test_a_network_that_is_no_graph_has_no_lower_bound() -> None:
    report = lipaudit.audit(
        Lambda(lambda x: x * 2 if bool(x.sum() > 0) else x), input_shape={"x": (1, 4)}, lower_bound=True
    )
    assert report.network.lower_bound is None
    assert any("No lower bound was searched" in note for note in report.notes)


def test_the_pair_is_saved(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3), nn.Sigmoid())
    file = tmp_path / "pair.npz"
    report = lipaudit.audit(net, input_shape={"input": (1, 4)}, lower_bound=True, save_pair=file)
    arrays = np.load(file)
    assert sorted(arrays) == ["x.input", "y.input"]
    x, y = (torch.from_numpy(arrays[key]) for key in ("x.input", "y.input"))
    assert x.dtype == torch.float32
    distance = float((x.double() - y.double()).norm())
    assert report.network.lower_bound_distance == pytest.approx(distance)
    change = float((net.double()(x.double()) - net(y.double())).norm().detach())
    assert report.network.lower_bound == pytest.approx(change / distance, rel=1e-6)
    assert any("pair.npz" in note for note in report.notes)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"save_pair": "pair.npz"}, UsageError, "lower_bound"),
        ({"save_pair": "pair.pt", "lower_bound": True}, UsageError, "npz"),
        ({"save_pair": "/no/such/folder/pair.npz", "lower_bound": True}, OutputError, "no folder"),
    ],
)
def test_a_file_that_cannot_hold_the_pair_is_refused(options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        lipaudit.audit(nn.ReLU(), input_shape={"input": (1, 3)}, **options)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.onnx", "--save-pair", "pair.npz"], "--lower-bound"),
        (["a.onnx", "b.onnx", "--lower-bound", "--save-pair", "pair.npz"], "one model"),
        (["a.onnx", "--jobs", "2", "--lower-bound", "--save-pair", "pair.npz"], "one model"),
    ],
)
def test_the_command_keeps_the_pair_of_one_model(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
