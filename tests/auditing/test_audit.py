"""``lipaudit.audit`` as a caller sees it: nothing of theirs is touched, and runs repeat to the byte."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator
from PIL import Image
from torch import nn

import lipaudit
from lipaudit.auditing.provenance import state_dict_sha256
from lipaudit.errors import CaptureError, NonFiniteWeightsError, OutputError, UsageError
from lipaudit.gates.report import gate_problem, strict_problem
from lipaudit.network.domain import Domain, ball, pixel_box
from lipaudit.records.report import AuditReport
from lipaudit.records.schema import load_schema
from tests.places import SAMPLES


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
    with pytest.raises(UsageError, match=r"^tol must be a number from 1e-09 to 1, got 0\.0$"):
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
        lipaudit.audit(nn.ReLU(), input_shape=(10,))


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
    assert (report.settings.around, report.settings.radius_in) == ("cat.png", "pixels")
    assert report.network.status == "finite"
    where = "all inputs within 0.5 (l2, in pixels in [0, 1]) of cat.png"
    assert where in " ".join(str(report).split())
    assert f"{where}, resized to 16x16" in _markdown(report, tmp_path).replace("\\", "")
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
    scale: dict[str, Any] = {"mean": (0.5,), "std": (0.25,)}
    ball: dict[str, Any] = {"domain": "ball", "around": torch.zeros(2, 4, 4)}
    with pytest.raises(UsageError, match="mean and std cannot be combined with around, which is a tensor"):
        lipaudit.audit(net, input_shape=(2, 4, 4), **scale, **ball, radius=1.0)
    bounds = [
        lipaudit.audit(net, input_shape=(2, 4, 4), **options).network
        for options in (scale, {"domain": "pixels", **scale}, {**ball, "radius": 1.0})
    ]
    assert len({network.upper_bound for network in bounds}) == 1
    assert {network.rigor for network in bounds} == {"certified"}
    assert [len(network.other_domains) for network in bounds] == [0, 1, 1]


FIELDS = ("upper_bound", "log10_upper_bound", "pixel_upper_bound", "pixel_log10_upper_bound")


def check_estimate(report: AuditReport) -> None:
    """No field of an estimate is an upper bound, and the report survives its schema and its own reader."""
    document = json.loads(report.to_json())
    assert [error.message for error in Draft202012Validator(load_schema()).iter_errors(document)] == []
    assert AuditReport.from_json(report.to_json()) == report
    entries = [document["network"], *document["layers"], *document["network"]["other_domains"]]
    for entry in entries:
        if entry["rigor"] == "estimate":
            assert all(entry.get(key) is None for key in FIELDS)
            assert entry.get("tightness") is None
            assert (entry["estimate"], entry["log10_estimate"]) != (None, None)
        else:
            assert entry["estimate"] is entry["log10_estimate"] is None
    assert str(report).startswith(f"ESTIMATE ({report.settings.method}): ")


@pytest.mark.parametrize("name", ["digits_resnet", "digits_unet", "digits_mobile"])
def test_the_figures_of_a_method_without_a_theorem_are_estimates_everywhere(name: str) -> None:
    report = lipaudit.audit(str(SAMPLES / f"{name}.onnx"), method="sedghi2019", mean=0.5, std=0.25)
    assert report.network.rigor == "estimate"
    assert report.network.pixel_estimate == pytest.approx(4 * report.network.estimate)
    check_estimate(report)
    assert " at most " not in str(report).split("Scope")[0]
    assert gate_problem(report, 1e9).endswith("an estimate is no bound")
    assert "the network's figure is an estimate (sedghi2019): " in strict_problem(report)
    assert (report.settings.method, report.settings.iterations) == ("sedghi2019", None)


def test_a_published_bound_stays_a_bound() -> None:
    net = nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular", bias=False)
    ours, theirs = (lipaudit.audit(net, input_shape=(2, 5, 5), method=name) for name in ("gram", "sedghi2019"))
    (row,) = theirs.layers
    assert (row.rigor, row.estimate, theirs.network.rigor) == ("numerical", None, "numerical")
    assert row.upper_bound == pytest.approx(ours.layers[0].upper_bound, rel=1e-3)
    assert row.upper_bound >= ours.layers[0].lower_bound * (1 - 1e-12)
    assert theirs.network.upper_bound is not None
    assert "ESTIMATE" not in str(theirs)
    assert gate_problem(theirs, 9.0) == ""
    assert "Numerical, because" not in str(theirs)


def test_iterations_and_seed_reach_the_method() -> None:
    def estimate(**options: Any) -> float:
        report = lipaudit.audit(small(), input_shape=(2, 4, 4), method="ryu2019", **options)
        assert report.settings.iterations == options.get("iterations", 100)
        return report.network.estimate

    assert estimate(iterations=1) < estimate(iterations=30) <= estimate() * (1 + 1e-9)
    assert estimate(iterations=1, seed=1) != estimate(iterations=1, seed=2)
    assert estimate(iterations=1, seed=1) == estimate(iterations=1, seed=1)


def test_an_estimate_below_a_stretching_that_was_measured_is_said_to_be_too_small() -> None:
    net = nn.Conv2d(1, 1, 3, padding=1, bias=False)
    nn.init.ones_(net.weight)
    options: dict[str, Any] = {"input_shape": (1, 16, 16), "lower_bound": True}
    small_one, fair = (lipaudit.audit(net, method=name, **options) for name in ("miyato2018", "sedghi2019"))
    note = "The estimate lies below a stretching that was measured: it is too small."
    assert small_one.network.estimate == pytest.approx(3.0)  # the norm of nine ones in a row
    assert small_one.network.lower_bound > 8.5
    assert note in small_one.notes
    assert fair.network.estimate == pytest.approx(9.0)
    assert note not in fair.notes


class Squared(nn.Module):
    """A convolution times itself: the factors of the product are as large as the convolution's values."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y * torch.sigmoid(y.mean((2, 3), keepdim=True))


def test_what_rests_on_an_estimate_is_an_estimate() -> None:
    options: dict[str, Any] = {"input_shape": (2, 4, 4), "mean": 0.5, "std": 0.25, "domain": "pixels"}
    rigors = {}
    for name in ("gram", "sedghi2019"):
        report = lipaudit.audit(Squared(), method=name, **options)
        (row,) = (r for r in report.layers if r.op == "mul")
        rigors[name] = (row.rigor, report.network.rigor)
        assert (row.upper_bound is None) is (name == "sedghi2019")
    assert rigors == {"gram": ("numerical", "numerical"), "sedghi2019": ("estimate", "estimate")}
    check_estimate(lipaudit.audit(Squared(), method="sedghi2019", **options))


def _markdown(report: lipaudit.AuditReport, folder: Path) -> str:
    report.save(folder / "report.md")
    return " ".join((folder / "report.md").read_text(encoding="utf-8").split())


def test_a_layer_for_which_a_method_is_not_defined_is_unsupported(tmp_path: Path) -> None:
    net = nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect")
    report = lipaudit.audit(net, input_shape=(1, 5, 5), method="sedghi2019")
    assert report.network.status == report.layers[-1].status == "unsupported"
    assert "sedghi2019 is not defined for reflect padding" in report.layers[-1].reason
    assert report.network.estimate is report.network.upper_bound is None
    assert "1 operation without a figure by sedghi2019" in " ".join(str(report).split())
    said = _markdown(report, tmp_path)
    assert "because sedghi2019 is not defined for 1 operation." in said
    assert "Choose --method gram, or another method that is defined there" in said
    assert "Write the model" not in said


def test_too_few_samples_are_no_missing_rule_either(tmp_path: Path) -> None:
    report = lipaudit.audit(nn.Conv2d(1, 1, 3, padding=1), input_shape=(1, 5, 5), method="araujo2021", iterations=2)
    assert "take at least 3" in report.layers[-1].reason
    assert "araujo2021 is not defined for 1 operation" in _markdown(report, tmp_path)


def test_an_estimate_below_a_jacobian_is_said_to_be_too_small_at_the_headline() -> None:
    net = nn.Conv2d(1, 1, 3, padding=1, bias=False)
    net.weight.data.fill_(1.0)  # the reshaped kernel has norm 3, the convolution nearly 9
    report = lipaudit.audit(net, input_shape=(1, 8, 8), method="miyato2018", lower_bound=True)
    assert report.network.estimate == pytest.approx(3.0)
    assert report.network.lower_bound > 6
    assert "not a bound, and too small: " in " ".join(str(report).split("Scope")[0].split())
    assert any("too small" in note for note in report.notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "sedghi2018"}, "no method 'sedghi2018'"),
        ({"method": "sedghi2019", "structure": True}, "method cannot be combined with structure .* computes no norms"),
        ({"method": "sedghi2019", "iterations": 3}, "has no iterations"),
        ({"iterations": 3}, "gram has no iterations"),
    ],
)
def test_a_method_that_cannot_be_used_is_refused_before_anything_is_loaded(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        lipaudit.audit("no-such-model.onnx", **options)


@pytest.mark.parametrize("function", [lipaudit.audit, lipaudit.compare])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 2**70}, r"^seed must be an integer from 0 to 2\^63 - 1, got 1180591620717411303424$"),
        ({"seed": -1}, "got -1"),
        ({"seed": 1.5}, "got 1.5"),
        ({"seed": True}, "got True"),
        ({"tol": "x"}, "^tol must be a number from 1e-09 to 1, got 'x'$"),
        ({"tol": None}, "got None"),
        ({"device": "nope"}, "there is no device 'nope': choose one of auto, cpu, cuda"),
        ({"device": None}, "there is no device None"),
        ({"iterations": 10**30}, "an integer from 1 to 1,000,000, got "),
        ({"iterations": "3"}, "an integer from 1 to 1,000,000, got '3'"),
    ],
)
def test_arguments_of_another_kind_are_one_clear_error(function: Any, options: dict[str, Any], words: str) -> None:
    method = {"method": "ryu2019"} if function is lipaudit.audit else {"methods": "ryu2019"}
    with pytest.raises(UsageError, match=words):
        function(small(), input_shape=(2, 4, 4), **method, **options)


class Excited(nn.Module):
    """A convolution whose channels are gated by their means (squeeze and excite)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gate = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))


def test_an_estimate_over_pixels_is_no_bound_that_a_gate_can_judge() -> None:
    torch.manual_seed(0)
    report = lipaudit.audit(Excited(), input_shape=(3, 6, 6), method="ryu2019", mean=0.5, std=0.25)
    (pixels,) = report.network.other_domains
    assert (report.network.status, pixels.domain, pixels.status, pixels.rigor) == (
        "unbounded",
        "pixels",
        "finite",
        "estimate",
    )
    for problem in (gate_problem(report, 9.0), strict_problem(report)):
        assert "it has one" not in problem
        assert "--method gram with --domain pixels may give one" in problem
    assert "is what a gate can judge" not in " ".join(str(report).split())


class _Cancelling(torch.nn.Module):
    """x + s conv(x), where the two nearly cancel: what is left of the folded kernel is rounding."""

    def __init__(self, weight: float, factor: float) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 1, 1, bias=False).double()
        self.conv.weight.data.fill_(weight)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) * self.factor


@pytest.mark.parametrize(("weight", "factor"), [(-3.0, 1 / 3), (-49.0, 1 / 49), (-7.0, 1 / 7), (-3.0, 0.25)])
def test_branches_that_cancel_keep_a_bound(weight: float, factor: float) -> None:
    exact = abs(1 + Fraction(weight) * Fraction(factor))
    report = lipaudit.audit(_Cancelling(weight, factor), input_shape=(1, 4, 4))
    assert report.network.upper_bound is not None
    assert Fraction(report.network.upper_bound) >= exact


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_dtype_of_the_caller_does_not_matter(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, padding=1))
    expected = lipaudit.audit(net, input_shape=(3, 40, 40)).network.upper_bound
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        found = lipaudit.audit(net, input_shape=(3, 40, 40)).network.upper_bound
    finally:
        torch.set_default_dtype(before)
    assert found == pytest.approx(expected, rel=1e-3)


def test_inference_mode_of_the_caller_does_not_matter() -> None:
    net = torch.nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect")
    with torch.inference_mode():
        report = lipaudit.audit(net, input_shape=(3, 40, 40))
    assert report.network.status == "finite"


def test_audits_in_several_threads_do_not_disturb_each_other() -> None:
    torch.manual_seed(1)
    nets = [torch.nn.Sequential(torch.nn.Conv2d(1, i + 1, 3), torch.nn.ReLU()) for i in range(5)]
    expected = [lipaudit.audit(net, input_shape=(1, 12, 12)).network.upper_bound for net in nets]
    streams = sys.stdout, sys.stderr
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda net: lipaudit.audit(net, input_shape=(1, 12, 12)).network.upper_bound, nets))
    assert found == expected
    assert (sys.stdout, sys.stderr) == streams


def test_a_cache_saves_the_norms_of_a_second_audit(tmp_path: Path) -> None:
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 4, 3))
    first = lipaudit.audit(net, input_shape=(1, 12, 12), cache=tmp_path / "norms")
    second = lipaudit.audit(net, input_shape=(1, 12, 12), cache=str(tmp_path / "norms"))
    assert not any("earlier audit" in note for note in first.notes)
    assert any(note.startswith("2 of 2 norms") for note in second.notes)
    assert (first.network, first.layers) == (second.network, second.layers)
    net[0].weight.data[0, 0, 0, 0] += 1
    third = lipaudit.audit(net, input_shape=(1, 12, 12), cache=tmp_path / "norms")
    assert any(note.startswith("1 of 2 norms") for note in third.notes)


def test_a_cache_has_the_norms_of_every_gate_of_a_recurrent_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.gru = nn.LSTM(4, 3, bidirectional=True, proj_size=2), nn.GRU(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.gru(self.lstm(x.reshape(5, 1, 4))[0])[0]

    torch.manual_seed(3)
    net = Recurrent()
    first = lipaudit.audit(net, input_shape=(1, 20), cache=tmp_path)

    def refuse(*_arguments: object) -> None:
        raise AssertionError("a norm was computed again")

    for name in ("oracle.spectral_norm", "precompute.certified_norm", "precompute.matrix_norms"):
        monkeypatch.setattr(f"lipaudit.spectral.{name}", refuse)
    second = lipaudit.audit(net, input_shape=(1, 20), cache=tmp_path)
    # two directions: 4 gates, and 3 of them together, of W and W'; a projection. A GRU: 3 gates of W and W'
    assert any(note.startswith("28 of 28 norms") for note in second.notes)
    assert (first.network, first.layers) == (second.network, second.layers)


def test_norms_that_cannot_be_kept_are_reported_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> None:
        raise OutputError("norms cannot be kept in norms.sqlite (disk full)")

    monkeypatch.setattr("lipaudit.spectral.cache.NormStore.write", full)
    report = lipaudit.audit(torch.nn.Linear(2, 2), input_shape=(1, 2), cache=tmp_path)
    assert report.network.status == "finite"
    assert any("disk full" in note for note in report.notes)
