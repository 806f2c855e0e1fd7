"""``lipaudit.audit`` as a caller sees it: nothing of theirs is touched, and runs repeat to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import nn

import lipaudit
from lipaudit.errors import CaptureError, NonFiniteWeightsError, UsageError
from lipaudit.network.domain import Domain, ball, pixel_box
from lipaudit.opening import state_dict_sha256

SAMPLES = Path(__file__).parents[1] / "sample_models"


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3, 1, 1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))


def test_the_module_is_left_as_it_was() -> None:
    net = small().train()
    net[0].bias.requires_grad_(False)
    net[4].weight.grad = torch.ones_like(net[4].weight)
    calls: list[str] = []
    net[2].register_forward_hook(lambda *_: calls.append("hook"))
    before = {k: v.clone() for k, v in net.state_dict().items()}
    lipaudit.audit(net, input_shape=(2, 4, 4), lower_bound=True)
    assert all(m.training for m in net.modules())
    assert not net[0].bias.requires_grad
    assert net[0].weight.requires_grad
    assert bool((net[4].weight.grad == 1).all())
    assert len(net[2]._forward_hooks) == 1
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def test_two_runs_give_the_same_bytes() -> None:
    def text() -> str:
        document = json.loads(lipaudit.audit(str(SAMPLES / "digits_mobile.onnx"), lower_bound=True).to_json())
        del document["created"], document["timings"]
        return json.dumps(document)

    assert text() == text()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_dtype_counts_its_own_numbers(dtype: torch.dtype) -> None:
    stored = small().to(dtype)
    same_numbers = small().to(dtype).to(torch.float64)
    bounds = [lipaudit.audit(n, input_shape=(2, 4, 4)).network.log10_upper_bound for n in (stored, same_numbers)]
    assert bounds[0] == pytest.approx(bounds[1], abs=1e-9)


def test_rows_read_each_other_and_the_input() -> None:
    report = lipaudit.audit(small(), input_shape=(2, 4, 4))
    first, last = report.layers
    assert first.inputs == ("input",)
    assert last.inputs == (first.name,)
    assert first.folded == ("1",)
    assert report.network.upper_bound == pytest.approx(first.upper_bound * last.upper_bound, rel=1e-9)
    assert sum(layer.share for layer in report.layers if layer.share > 0) == pytest.approx(1)
    assert all((layer.share > 0) == (layer.upper_bound > 1) for layer in report.layers)
    assert report.model.num_parameters == sum(p.numel() for p in small().parameters())


def test_errors_name_the_problem() -> None:
    broken = small()
    broken[4].weight.data[0, 0] = float("inf")
    with pytest.raises(NonFiniteWeightsError, match=r"4\.weight"):
        lipaudit.audit(broken, input_shape=(2, 4, 4))
    with pytest.raises(CaptureError, match="1, 2, 5, 5"):
        lipaudit.audit(small(), input_shape=(2, 5, 5))
    with pytest.raises(UsageError, match="tolerance"):
        lipaudit.audit(small(), input_shape=(2, 4, 4), tol=0.0)
    with pytest.raises(UsageError, match="weights"):
        lipaudit.audit(small(), input_shape=(2, 4, 4), weights="random")
    with pytest.raises(UsageError, match="input"):
        lipaudit.audit(small())


def test_hash_ignores_order_and_sees_every_bit() -> None:
    a, b = small(), small()
    assert state_dict_sha256(a) == state_dict_sha256(b)
    b[4].bias.data[0] += 1e-6
    assert state_dict_sha256(a) != state_dict_sha256(b)
    tied = nn.Module()
    tied.x = tied.y = nn.Parameter(torch.ones(2))
    assert len(state_dict_sha256(tied)) == 64


def test_pixels_are_measured_where_the_normalisation_is_known(tmp_path: Path) -> None:
    from torchvision.models import squeezenet1_1

    torch.save(squeezenet1_1(weights=None).state_dict(), tmp_path / "weights.pth")
    report = lipaudit.audit("squeezenet1_1", weights=str(tmp_path / "weights.pth"), input_shape=(64,))
    assert report.model.preprocessing is not None
    ratio = report.network.pixel_upper_bound / report.network.upper_bound
    assert 1 / 0.224 <= ratio <= 1 / 0.224 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv1d(2, 3, 3), {"input": (1, 2, 16)}),
        (nn.Linear(4, 2), (1, 4)),
        (nn.Linear(4, 2), {"input": (1, 7, 4)}),
        (nn.Conv3d(1, 1, 2), (1, 1, 4, 4, 4)),
        (nn.Conv2d(1, 2, 3), (1, 8, 8)),
    ],
)
def test_shapes_of_any_rank(module: nn.Module, shape: tuple[int, ...] | dict[str, tuple[int, ...]]) -> None:
    report = lipaudit.audit(module, input_shape=shape)
    expected = shape["input"] if isinstance(shape, dict) else shape
    assert report.model.input_shape[-len(expected) :] == expected
    assert report.network.status == "finite"


def test_a_bare_number_is_no_shape_of_an_unknown_model() -> None:
    with pytest.raises(UsageError, match="one number"):
        lipaudit.audit(nn.Linear(10, 2), input_shape=(10,))


class Gate(nn.Module):
    """x sigmoid(w mean(x)): unbounded over all inputs, with a constant where x is bounded."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[2.0, -1.0], [0.5, 3.0]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = torch.sigmoid(nn.functional.linear(x.mean((2, 3)), self.weight))
        return x * s[:, :, None, None]


GATE: dict[str, Any] = {"input_shape": (2, 3, 3), "mean": (0.5, 0.25), "std": (0.5, 0.25)}


def largest_stretch(domain: Domain, net: nn.Module) -> float:
    """The largest Jacobian norm at random points of a domain."""
    generator = torch.Generator().manual_seed(0)
    best = 0.0
    for scale in (0.1, 1.0, 3.0) * 8:
        x = domain.centres["input"] + scale * torch.randn(1, 2, 3, 3, dtype=torch.float64, generator=generator)
        x = domain.nearest({"input": x})["input"]
        jacobian = torch.autograd.functional.jacobian(net.double(), x).reshape(18, 18)
        best = max(best, float(torch.linalg.matrix_norm(jacobian, 2)))
    return best


def test_a_gate_is_unbounded_globally_and_finite_on_pixels_beside() -> None:
    report = lipaudit.audit(Gate(), **GATE)
    assert report.network.status == "unbounded"
    assert report.model.preprocessing == {"mean": (0.5, 0.25), "std": (0.5, 0.25)}
    (pixels,) = report.network.other_domains
    assert (pixels.domain, pixels.status, pixels.rigor, pixels.reasons) == ("pixels", "finite", "numerical", ())
    over = lipaudit.audit(Gate(), **GATE, domain="pixels", lower_bound=True)
    assert over.network.upper_bound == pixels.upper_bound
    assert over.network.pixel_upper_bound == pixels.pixel_upper_bound
    assert over.network.pixel_upper_bound == pytest.approx(4 * over.network.upper_bound)
    (everywhere,) = over.network.other_domains
    assert (everywhere.domain, everywhere.status) == ("global", "unbounded")
    assert len(everywhere.reasons) == 1
    assert "(mul): product of two data-dependent tensors" in everywhere.reasons[0]
    assert over.network.lower_bound <= over.network.upper_bound
    assert over.settings.domain == over.network.domain == "pixels"
    found = largest_stretch(pixel_box({"input": (1, 2, 3, 3)}, GATE["mean"], GATE["std"]), Gate())
    assert 0.5 < found <= over.network.upper_bound


@pytest.mark.parametrize("radius", [0.01, 0.5, 20.0])
def test_a_ball_has_its_own_bound(radius: float) -> None:
    centre = torch.rand(1, 2, 3, 3)
    report = lipaudit.audit(Gate(), input_shape=(2, 3, 3), domain="ball", around=centre, radius=radius)
    assert report.network.status == "finite"
    assert (report.settings.radius, report.settings.radius_in, report.settings.around) == (radius, "input", None)
    assert largest_stretch(ball({"input": centre}, radius), Gate()) <= report.network.upper_bound
    wider = lipaudit.audit(Gate(), input_shape=(2, 3, 3), domain="ball", around=centre, radius=2 * radius)
    assert report.network.upper_bound <= wider.network.upper_bound
    assert lipaudit.AuditReport.from_json(report.to_json()) == report


def test_a_ball_around_an_image_counts_in_its_pixels(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    Image.new("L", (20, 20), 128).save(path)
    report = lipaudit.audit(
        str(SAMPLES / "digits_se.onnx"), domain="ball", around=str(path), radius=0.5, mean=(0.5,), std=(0.25,)
    )
    assert (report.settings.around, report.settings.radius_in) == (str(path), "pixels")
    assert report.network.status == "finite"
    text = " ".join(str(report).split())
    assert f"all inputs within 0.5 (l2, in pixels in [0, 1]) of {path}, resized to 16x16" in text
    centre = torch.full((1, 1, 16, 16), (128 / 255 - 0.5) / 0.25, dtype=torch.float64)
    same = lipaudit.audit(str(SAMPLES / "digits_se.onnx"), domain="ball", around=centre, radius=2.0)
    assert same.network.log10_upper_bound == pytest.approx(report.network.log10_upper_bound, abs=1e-6)


def test_the_structure_over_pixels_has_no_figures() -> None:
    for domain in ("global", "pixels"):
        report = lipaudit.audit(Gate(), **GATE, domain=domain, structure=True)
        statuses = {report.network.domain: report.network.status}
        statuses |= {other.domain: other.status for other in report.network.other_domains}
        assert statuses == {"global": "unbounded", "pixels": "finite"}
        assert report.network.upper_bound is None
        assert all(other.upper_bound is other.pixel_upper_bound is None for other in report.network.other_domains)
        assert lipaudit.AuditReport.from_json(report.to_json()) == report


def test_a_linear_network_has_one_bound_on_every_domain() -> None:
    net = small()
    bounds = [
        lipaudit.audit(net, input_shape=(2, 4, 4), mean=(0.5,), std=(0.25,), **options).network
        for options in ({}, {"domain": "pixels"}, {"domain": "ball", "around": torch.zeros(2, 4, 4), "radius": 1.0})
    ]
    assert len({network.upper_bound for network in bounds}) == 1
    assert {network.rigor for network in bounds} == {"certified"}
    assert [len(network.other_domains) for network in bounds] == [0, 1, 1]
