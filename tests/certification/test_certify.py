"""Certified radii against closed forms, against samples of the inputs that they speak of, and against attacks."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import nn
from torch.nn import functional

import lipaudit
from lipaudit.certification import constants, local
from lipaudit.certification.constants import PairBound, PairConstants
from lipaudit.errors import GraphError, UsageError
from lipaudit.errors.certification import NoDecisionError
from lipaudit.formats.certification import answer_lines, share_cells, spread
from lipaudit.graph.node import Graph
from lipaudit.network.efforts import EFFORTS
from lipaudit.records.certification import RadiusRecord
from sample_models.data import load_classes


def linear(classes: int = 4, inputs: int = 6, seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(inputs, classes)


def closed_form(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """min_j (f_i - f_j)(x) / ||w_i - w_j|| per row of x."""
    w, b = layer.weight.detach().double(), layer.bias.detach().double()
    logits = x.double() @ w.T + b
    i = logits.argmax(1)
    gaps = logits.gather(1, i[:, None]) - logits
    rows = (w[i][:, None] - w[None]).norm(dim=2)
    ratios = (gaps / rows).masked_fill(rows == 0, math.inf)
    return ratios.amin(1)


def mlp(seed: int, classes: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, classes))


def test_the_radii_of_a_linear_classifier_are_those_of_the_closed_form() -> None:
    layer = linear()
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(1))
    found = lipaudit.certify(layer, x, input_shape=(1, 6))
    for image, radius in zip(found.images, closed_form(layer, x).tolist(), strict=True):
        assert radius * 0.999 < image.radius <= radius
        assert image.attack_radius is not None
        assert radius <= image.attack_radius * (1 + 1e-9)
        assert image.attack_radius <= 1.01 * radius
        norm = float(torch.linalg.matrix_norm(layer.weight.detach().double(), 2))
        assert image.jacobian_norm == pytest.approx(norm, rel=1e-9)


def test_radii_in_pixels_are_those_of_the_network_behind_its_normalisation() -> None:
    layer = linear(3, 12)
    network = nn.Sequential(nn.Flatten(), layer)
    pixels = torch.randint(0, 256, (8, 3, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    mean, std = (0.5, 0.4, 0.3), (0.25, 0.5, 2.0)
    found = lipaudit.certify(network, pixels, input_shape=(3, 2, 2), mean=mean, std=std, effort="quick")
    assert found.settings.units == "pixels"
    scaled = nn.Linear(12, 3)
    by = torch.tensor(std).repeat_interleave(4)
    scaled.weight.data = layer.weight.data / by
    scaled.bias.data = layer.bias.data - layer.weight.data @ (torch.tensor(mean).repeat_interleave(4) / by)
    for image, radius in zip(found.images, closed_form(scaled, pixels.flatten(1) / 255).tolist(), strict=True):
        assert image.radius == pytest.approx(radius, rel=1e-3)
        assert image.attack_radius == pytest.approx(radius, rel=1e-2)
    inside = lipaudit.certify(network, pixels, input_shape=(3, 2, 2), mean=mean, std=std, units="input")
    ratios = [b.radius / a.radius for a, b in zip(found.images, inside.images, strict=True)]
    assert all(1 / max(std) * 0.999 <= ratio <= 1 / min(std) * 1.001 for ratio in ratios)


@pytest.mark.parametrize(("seed", "effort"), [(0, "none"), (1, "quick")])
def test_no_input_within_a_certified_radius_is_decided_otherwise(seed: int, effort: str) -> None:
    network = mlp(seed).double()
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    found = lipaudit.certify(network, x, input_shape=(1, 5), effort=effort, local_steps=2, attack_steps=30)
    for image, point in zip(found.images, x, strict=True):
        assert image.radius > 0
        directions = torch.randn(4000, 5, generator=generator, dtype=torch.float64)
        offsets = image.radius * directions / directions.norm(dim=1, keepdim=True)
        assert (network(point + offsets).argmax(1) == image.decision).all()
        assert image.attack_radius is None or image.radius <= image.attack_radius
        assert image.radius == max(image.global_radius, image.local_radius or 0.0)


def test_a_search_certifies_more_than_the_product_of_constants() -> None:
    network, x = mlp(3), torch.randn(4, 5, generator=torch.Generator().manual_seed(3))
    without = lipaudit.certify(network, x, input_shape=(1, 5), attack_steps=0, effort="none")
    searched = lipaudit.certify(network, x, input_shape=(1, 5), attack_steps=0, effort="quick")
    gains = [b.radius / a.radius for a, b in zip(without.images, searched.images, strict=True)]
    assert min(gains) > 1.02


def test_a_constant_that_is_too_small_is_refuted_by_the_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = linear(), torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
    true = constants._product
    monkeypatch.setattr(constants, "_product", lambda factor, constant: 0.9 * true(factor, constant))
    with pytest.raises(GraphError, match="within the certified radius"):
        lipaudit.certify(layer, x, input_shape=(1, 6))


def test_nothing_is_certified_at_a_tie() -> None:
    layer = nn.Linear(2, 3, bias=False)
    layer.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    found = lipaudit.certify(layer, torch.tensor([[1.0, 1.0], [1.0, 1.0 - 2.0**-23], [1.0, 0.5]]), input_shape=(1, 2))
    assert [image.radius > 0 for image in found.images] == [False, False, True]
    assert "2 ties" in str(found)


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_radii_beside_a_large_offset_are_at_most_the_exact_ones(offset: float) -> None:
    """Margins as small as the rounding of the logits: radii and decisions against rational numbers."""
    generator = torch.Generator().manual_seed(5)
    layer = nn.Linear(6, 2).double().requires_grad_(False)
    layer.weight.copy_(torch.randn(2, 6, generator=generator, dtype=torch.float64))
    layer.bias.fill_(offset)
    sizes = 10.0 ** torch.linspace(-11, -1, 60, dtype=torch.float64)[:, None]
    x = torch.randn(60, 6, generator=generator, dtype=torch.float64) * sizes
    found = lipaudit.certify(layer, x, input_shape=(1, 6), effort="none", attack_steps=0)
    weight = [Fraction(a) - Fraction(b) for a, b in zip(*layer.weight.tolist(), strict=True)]
    length = math.sqrt(sum(w * w for w in weight))
    for image, point in zip(found.images, x.tolist(), strict=True):
        margin = sum(w * Fraction(p) for w, p in zip(weight, point, strict=True))
        assert image.radius <= float(abs(margin)) / length * (1 + 1e-12)
        assert image.radius == 0 or image.decision == int(margin < 0)
    assert sum(image.radius > 0 for image in found.images) > 15


class Cancelling(nn.Module):
    """x + ((p + o) - o) for p = 0.3: a constant of which little is left behind a large o."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor([[1.0], [0.0]], dtype=torch.float64))
        self.register_buffer("shift", torch.tensor([0.3, 0.1], dtype=torch.float64))
        self.offset = offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, self.weight) + ((self.shift + self.offset) - self.offset)


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e9, 1e12, 1e15, 1e18])
def test_radii_beside_a_constant_that_cancelled_are_at_most_the_exact_ones(offset: float) -> None:
    shift = (0.3 + offset) - offset - ((0.1 + offset) - offset)
    x = torch.tensor([[-0.2 + d] for d in (-0.1, -1e-7, (0.2 - shift) / 2, (0.2 - shift) * 0.9, 1e-9, 1e-3)]).double()
    found = lipaudit.certify(Cancelling(offset), x, input_shape=(1, 1), effort="none", attack_steps=0)
    for image, (point,) in zip(found.images, x.tolist(), strict=True):
        margin = Fraction(point) + Fraction(0.3) - Fraction(0.1)
        assert image.radius <= float(abs(margin)) * (1 + 1e-12)
        assert image.radius == 0 or image.decision == int(margin < 0)
    assert (found.images[0].radius > 0.07) == (offset < 1e9)


def test_a_wrong_decision_certifies_nothing_for_the_accuracy() -> None:
    layer, x = linear(), torch.randn(10, 6, generator=torch.Generator().manual_seed(1))
    right = layer(x).argmax(1)
    labels = right.clone()
    labels[:3] = (right[:3] + 1) % 4
    found = lipaudit.certify(layer, x, input_shape=(1, 6), labels=labels, radii=[1e-6])
    assert found.accuracy == 0.7
    assert (found.radii[0].certified, found.radii[0].certified_accuracy, found.radii[0].attacked_accuracy) == (
        1.0,
        0.7,
        0.7,
    )
    shares = [(row.certified_accuracy, row.attacked_accuracy) for row in (*found.radii, *found.curve)]
    assert all(a is not None and b is not None and a <= b for a, b in shares)


def test_shares_are_rounded_to_the_safe_side() -> None:
    row = RadiusRecord(0.5, 2 / 3, 2 / 3, 2 / 3)
    assert share_cells(row) == ("0.5", "66.6%", "66.7%", "66.6%")
    assert spread([1.0, 2.0, 3.0, 8.0], upwards=False) == "2.5 median, from 1 to 8"


def test_without_labels_decisions_are_certified_and_no_accuracy_is_known() -> None:
    found = lipaudit.certify(linear(), torch.zeros(1, 6), input_shape=(1, 6), attack_steps=0)
    assert found.accuracy is None
    assert found.radii[0].certified_accuracy is None
    assert found.images[0].attack_radius is None
    assert len(found.images) == 1


@pytest.mark.parametrize("last", [nn.Softmax(1), nn.LogSoftmax(-1)])
def test_a_softmax_at_the_end_changes_no_decision_and_no_radius(last: nn.Module) -> None:
    network, x = mlp(0), torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    plain, soft = (
        lipaudit.certify(net, x, input_shape=(1, 5), attack_steps=0) for net in (network, nn.Sequential(network, last))
    )
    assert [i.radius for i in plain.images] == [i.radius for i in soft.images]


def test_logits_may_have_further_axes_of_one() -> None:
    network, x = mlp(0), torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    plain, tall = (
        lipaudit.certify(net, x, input_shape=(1, 5), attack_steps=5)
        for net in (network, nn.Sequential(network, nn.Unflatten(1, (3, 1, 1))))
    )
    assert [i.radius for i in plain.images] == pytest.approx([i.radius for i in tall.images], rel=1e-4)
    assert [i.attack_radius for i in plain.images] == pytest.approx([i.attack_radius for i in tall.images], rel=1e-4)


class Pair(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, 2 * x


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        (nn.Linear(6, 1), "returns one number"),
        (Pair(), "returns 2 tensors"),
        (nn.Unflatten(1, (2, 3)), r"a tensor of shape \(1, 2, 3\)"),
    ],
)
def test_networks_that_decide_nothing_are_refused(network: nn.Module, problem: str) -> None:
    with pytest.raises(NoDecisionError, match=problem):
        lipaudit.certify(network, torch.zeros(1, 6), input_shape=(1, 6))


def test_a_network_without_a_bound_over_all_inputs_has_local_radii_alone() -> None:
    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.first(x) * self.first(x))

    network = Square().double()
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = lipaudit.certify(network, x, input_shape=(1, 3), local_steps=6)
    assert found.constant.upper_bound is None
    for image, point in zip(found.images, x, strict=True):
        assert image.global_radius == 0 < image.radius == image.local_radius
        directions = torch.randn(4000, 3, dtype=torch.float64)
        offsets = image.radius * directions / directions.norm(dim=1, keepdim=True)
        assert (network(point + offsets).argmax(1) == image.decision).all()


def test_answers_that_are_no_numbers_are_no_decisions() -> None:
    class Log(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(x)

    found = lipaudit.certify(Log(), torch.tensor([[-1.0, 2.0]]), input_shape=(1, 2), local_steps=2)
    assert found.images[0].decision is None
    assert found.images[0].radius == 0
    assert "1 image without a decision" in str(found)
    assert lipaudit.Certification.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"radii": [0.0]}, "radii must be numbers above 0"),
        ({"radii": [math.nan]}, "radii must be numbers above 0"),
        ({"attack_steps": -1}, "attack_steps must be an integer from 0"),
        ({"workers": 2}, "requires a model by its name"),
        ({"units": "metres"}, "there is no units 'metres'"),
        ({"labels": [7]}, "there is a label 7, and the network has 4 classes"),
        ({"labels": [1, 2]}, "1 numbers of classes"),
        ({"units": "pixels"}, "the normalisation of pixels of"),
    ],
)
def test_wrong_options_are_one_clear_error(options: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        lipaudit.certify(linear(), torch.zeros(1, 6), input_shape=(1, 6), **options)  # type: ignore[arg-type]


def test_images_with_nan_are_refused() -> None:
    with pytest.raises(UsageError, match="finite numbers"):
        lipaudit.certify(linear(), torch.full((1, 6), math.nan), input_shape=(1, 6))


def test_the_digits_are_certified_below_what_attacks_reach() -> None:
    digits = load_classes("test")
    found = lipaudit.certify(
        "sample_models/digits_resnet.onnx", digits.images[:8], labels=digits.targets[:8], attack_steps=30
    )
    assert found.accuracy is not None
    assert found.accuracy > 0.9
    for image in found.images:
        assert image.attack_radius is not None
        assert 1e-6 < image.radius <= image.attack_radius < 1


@pytest.mark.parametrize("crossing", [1e-4, 3e-3, 0.05])
def test_the_search_finds_where_bounds_explode(monkeypatch: pytest.MonkeyPatch, crossing: float) -> None:
    """K(r) = 10 up to a tenth of the crossing, and beyond it by powers of r: four balls certify a fifth of the crossing."""

    def certified(
        _constants: object, _image: object, _margins: object, radius: float
    ) -> tuple[local.LocalRadius, float]:
        steep = (radius / crossing) ** 12
        reach = min(100 * crossing, crossing / steep) if steep < 1e30 else 1e-30
        return local.LocalRadius(min(radius, reach if reach >= radius else 1e-30), 0, None), reach

    monkeypatch.setattr(local, "_certified", certified)
    found = local.local_radius(None, torch.ones(1, 1), None, 1e-25, 0.3, 4)  # type: ignore[arg-type]
    assert crossing / 5 <= found.radius <= crossing


def test_balls_certify_radii_of_the_digits_that_global_bounds_do_not_reach() -> None:
    digits = load_classes("test")
    options = {"labels": digits.targets[:1], "local_steps": 1, "attack_steps": 0, "effort": "none", "radii": [2e-3]}
    found = lipaudit.certify("sample_models/digits_resnet.onnx", digits.images[:1], **options)  # type: ignore[arg-type]
    (image,) = found.images
    assert image.global_radius < 2e-3 / 8
    assert image.local_radius == image.radius > 2e-3
    assert found.radii[0].certified_accuracy == 1.0
    assert image.constant is not None
    assert image.margin is not None
    assert image.constant * image.radius <= image.margin


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", ["digits_resnet", "digits_mobile", "digits_se", "digits_vit"])
def test_every_digit_is_certified_below_what_attacks_reach(name: str) -> None:
    digits, model = load_classes("test"), f"sample_models/{name}.onnx"
    found = lipaudit.certify(model, digits.images, labels=digits.targets, effort="quick")
    around = lipaudit.certify(model, digits.images[:4], local_steps=2, effort="none")
    assert found.accuracy is not None
    assert found.accuracy > 0.95
    assert [image.radius > 0 for image in found.images] == [found.constant.upper_bound is not None] * 450
    for image in (*found.images, *around.images):
        assert image.attack_radius is not None
        assert image.radius <= image.attack_radius
    assert all(image.local_radius for image in around.images)


def test_the_attack_is_as_good_as_one_of_the_adversarial_robustness_toolbox() -> None:
    attacks = pytest.importorskip("art.attacks.evasion")
    estimators = pytest.importorskip("art.estimators.classification")
    network = mlp(5, 4)
    x = torch.randn(12, 5, generator=torch.Generator().manual_seed(5))
    found = lipaudit.certify(network, x, input_shape=(1, 5))
    classifier = estimators.PyTorchClassifier(network, nn.CrossEntropyLoss(), (5,), 4)
    attack = attacks.DeepFool(classifier, max_iter=100, epsilon=1e-3, verbose=False)
    points = torch.from_numpy(attack.generate(x.numpy()))
    changed = network(points).argmax(1) != network(x).argmax(1)
    theirs = torch.where(changed, (points - x).norm(dim=1), math.inf).tolist()
    ours = [image.attack_radius for image in found.images]
    assert all(a is not None and a <= 1.02 * b for a, b in zip(ours, theirs, strict=True))


def test_the_network_is_searched_as_an_audit_does_and_the_rest_with_a_third_of_that_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the first screen says: so its bound may be above that of an audit."""
    works: list[float] = []
    solve = PairConstants._solve

    def solved(self: PairConstants, graph: Graph, work: float) -> PairBound:
        works.append(work)
        return solve(self, graph, 0.0)

    monkeypatch.setattr(PairConstants, "_solve", solved)
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).eval()
    found = lipaudit.certify(net, torch.randn(1, 4), input_shape=(1, 4), effort="quick", attack_steps=0)
    assert works[:2] == [EFFORTS["quick"], EFFORTS["quick"] / 3]
    assert sum(works[2:]) == pytest.approx(EFFORTS["quick"] / 3)
    assert dict(answer_lines(found))["Lipschitz bound (l2)"].endswith("over all inputs, certified")
