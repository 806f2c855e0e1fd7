"""Audits in the l-infinity and l1 norm: against explicit matrices, sampling and ascent, and what is refused there."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.cli import main
from lipaudit.errors import UsageError
from lipaudit.records.report import AuditReport
from tests.places import SAMPLES

NORMS = ("linf", "l1")
POWERS = {"linf": math.inf, "l1": 1.0}


def induced(matrix: torch.Tensor, norm: str) -> float:
    return float(torch.linalg.matrix_norm(matrix.detach().double(), math.inf if norm == "linf" else 1))


def size(x: torch.Tensor, norm: str) -> float:
    return float(torch.linalg.vector_norm(x.detach().double().flatten(), POWERS[norm]))


def as_vector(value: Any) -> torch.Tensor:
    return torch.cat([t.flatten() for t in (value if isinstance(value, tuple) else (value,))])


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 3, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


class Joined(nn.Module):
    """Two inputs, two outputs; a concatenation and a maximum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 4), nn.Linear(4, 5)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        joined = torch.cat([a, 2 * b], 1)
        y = torch.tanh(self.first(joined))
        return self.second(y), torch.maximum(y.sum(1), a.mean(1))


NETWORKS: dict[str, tuple[nn.Module, dict[str, tuple[int, ...]]]] = {}


def network(name: str, net: nn.Module, *shapes: tuple[int, ...]) -> None:
    NETWORKS[name] = net.eval(), {"ab"[i] if len(shapes) > 1 else "input": shape for i, shape in enumerate(shapes)}


torch.manual_seed(0)
network("dense", nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1)), (1, 5))
network(
    "convolutional",
    nn.Sequential(
        nn.Conv2d(2, 4, 3, 2, 1), nn.GELU(), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2, 1), nn.Flatten(), nn.Linear(4, 6)
    ),
    (1, 2, 7, 7),
)
network("residual", nn.Sequential(Residual(), nn.Upsample(scale_factor=2, mode="bilinear"), Residual()), (1, 3, 5, 5))
network("transposed", nn.Sequential(nn.ConvTranspose2d(3, 2, 3, 2, 1), nn.PReLU(), nn.LogSoftmax(1)), (1, 3, 4, 4))
network("joined", Joined(), (1, 3), (1, 3))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_that_is_found_exceeds_the_bound(name: str, norm: str) -> None:
    net, shapes = NETWORKS[name]
    shape: Any = shapes if len(shapes) > 1 else {next(iter(shapes)): next(iter(shapes.values()))}
    report = lipaudit.audit(net, input_shape=shape, norm=norm, lower_bound=True)
    upper = report.network.upper_bound
    assert upper is not None
    assert report.network.rigor == "certified"
    assert report.network.lower_bound is not None
    assert 0 < report.network.lower_bound <= upper
    generator = torch.Generator().manual_seed(1)
    net = net.double()
    for scale in (1e-3, 1.0, 10.0):
        x = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes.values()]
        y = [a + scale * torch.randn(a.shape, generator=generator, dtype=torch.float64) for a in x]
        moved = size(as_vector(net(*x)) - as_vector(net(*y)), norm)
        assert moved <= upper * size(as_vector(tuple(x)) - as_vector(tuple(y)), norm) * (1 + 1e-12)
    jacobians = torch.autograd.functional.jacobian(lambda *v: as_vector(net(*v)), tuple(x))
    assert induced(torch.cat([j.flatten(1) for j in jacobians], 1), norm) <= upper
    net.float()


@pytest.mark.parametrize("norm", NORMS)
def test_one_linear_map_has_its_norm_from_both_sides(norm: str) -> None:
    torch.manual_seed(2)
    for net, shape in ((nn.Linear(7, 4), (1, 7)), (nn.Conv2d(2, 3, 3, padding=1, stride=2), (1, 2, 5, 4))):
        report = lipaudit.audit(net, input_shape={"input": shape}, norm=norm, lower_bound=True)
        net = net.double()
        units = torch.eye(math.prod(shape), dtype=torch.float64).reshape(-1, *shape[1:])
        exact = induced((net(units) - net(torch.zeros_like(units))).flatten(1).T, norm)
        assert report.network.upper_bound == pytest.approx(exact, rel=1e-12)
        assert report.network.upper_bound >= exact * (1 - 1e-14)
        assert report.network.lower_bound == pytest.approx(exact, rel=1e-6)
        (row,) = report.layers
        assert row.lower_bound == pytest.approx(exact, rel=1e-12)
        assert report.settings.norm == norm


@pytest.mark.parametrize("norm", NORMS)
def test_the_ascent_finds_the_steepest_piece_of_a_small_network(norm: str) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    axis = torch.linspace(-6, 6, 121, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    jacobians = torch.func.vmap(torch.func.jacrev(net))(grid).detach()
    sums = jacobians.abs().sum(2 if norm == "linf" else 1).amax(1)
    found = lipaudit.audit(net, input_shape=(1, 2), norm=norm, lower_bound=True).network.lower_bound
    assert found is not None
    assert float(sums.median()) < 0.8 * float(sums.max())
    assert found >= 0.95 * float(sums.max())


@pytest.mark.parametrize("norm", NORMS)
def test_norms_at_images_are_sums_of_moduli_of_the_jacobian(norm: str) -> None:
    torch.manual_seed(6)
    net = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 5))
    images = torch.randn(5, 4)
    network = lipaudit.audit(net, input_shape=(1, 4), norm=norm, images=images).network
    net = net.double()
    expected = [induced(torch.autograd.functional.jacobian(net, x.double()), norm) for x in images]
    assert network.images is not None
    assert network.lower_bound is not None
    assert [entry.norm for entry in network.images.norms] == pytest.approx(expected, rel=1e-3)
    assert max(expected) * 0.999 <= network.lower_bound <= (network.upper_bound or 0.0)


@pytest.mark.parametrize("norm", NORMS)
def test_where_outputs_are_many_a_power_iteration_takes_the_place_of_rows(norm: str) -> None:
    torch.manual_seed(7)
    net = nn.Linear(6, 300)
    network = lipaudit.audit(net, input_shape=(1, 6), norm=norm, images=torch.randn(2, 6)).network
    assert network.images is not None
    assert all(0.5 * induced(net.weight, norm) <= entry.norm for entry in network.images.norms)
    assert network.images.largest <= induced(net.weight, norm) * (1 + 1e-9)


def test_several_outputs_are_one_vector_and_so_are_several_inputs() -> None:
    class Two(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return 3 * a + b, 4 * b

    shapes = {"a": (1, 2), "b": (1, 2)}
    found = {n: lipaudit.audit(Two(), input_shape=shapes, norm=n, lower_bound=True).network for n in NORMS}
    # rows (3, 1) and (0, 4); columns (3, 0) and (1, 4): the sums per output are 4, 4 and, as bounds of each, 3 + 1 and 4
    assert found["linf"].upper_bound == pytest.approx(4.0)
    assert found["linf"].lower_bound == pytest.approx(4.0, rel=1e-6)
    assert found["l1"].upper_bound == pytest.approx(8.0)
    assert found["l1"].lower_bound == pytest.approx(5.0, rel=1e-6)
    assert [output.upper_bound for output in found["l1"].outputs] == pytest.approx([4.0, 4.0])


@pytest.mark.parametrize("norm", NORMS)
def test_what_has_no_rule_in_the_norm_is_unsupported_there(norm: str) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    report = lipaudit.audit(net, input_shape=(1, 4), norm=norm)
    assert report.network.status == "unsupported"
    assert report.network.upper_bound is None
    (row,) = [layer for layer in report.layers if layer.status == "unsupported"]
    assert row.reason == f"it has a constant in the l2 norm, and no rule in the {norm} norm"
    assert lipaudit.audit(net, input_shape=(1, 4)).network.status == "finite"


@pytest.mark.parametrize("norm", NORMS)
def test_what_has_no_constant_in_one_norm_has_none_in_another(norm: str) -> None:
    class Jump(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.round()

    assert lipaudit.audit(Jump(), input_shape={"x": (1, 4)}, norm=norm).network.status == "unbounded"


@pytest.mark.parametrize("norm", NORMS)
def test_the_report_says_the_norm_and_is_read_back(norm: str) -> None:
    torch.manual_seed(0)
    report = lipaudit.audit(nn.Linear(3, 3), input_shape=(1, 3), norm=norm)
    assert json.loads(report.to_json())["settings"]["norm"] == norm
    assert AuditReport.from_json(report.to_json()) == report
    assert f"Lipschitz bound ({norm})" in str(report)
    assert "l2" not in str(report)


def test_gates_hold_in_the_norm(capsys: pytest.CaptureFixture[str]) -> None:
    resnet = str(SAMPLES / "digits_resnet.onnx")
    assert main([resnet, "--norm", "linf", "--max-log10-bound", "10", "-q"]) == 0
    assert main([resnet, "--norm", "linf", "--max-log10-bound", "9", "-q"]) == 1
    assert "(linf)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"structure": True}, "structure=True cannot be combined with norm='linf'"),
        ({"method": "ryu2019"}, "method='ryu2019' cannot be combined with norm='linf'"),
        ({"effort": "quick"}, "effort='quick' cannot be combined with norm='linf'"),
        ({"domain": "pixels"}, "domain='pixels' cannot be combined with norm='linf'"),
        ({"norm": "l3"}, "there is no norm 'l3': choose one of l2, linf, l1"),
    ],
)
def test_what_belongs_to_the_l2_norm_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        lipaudit.audit(nn.ReLU(), input_shape={"x": (1, 3)}, **{"norm": "linf", **options})
