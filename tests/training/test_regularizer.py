"""The regularization of the paper: which layers, which geometry, which value, which gradient."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parametrizations

from lipaudit.errors import CaptureError, ModelLoadError, NonFiniteWeightsError, UsageError
from lipaudit.training import Geometry, LipschitzRegularizer, Schedule, spectral_norm_bound
from lipaudit.training.layers import find_layers


class Small(nn.Module):
    """A residual network with every kind of border, a batch norm and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.block = nn.ModuleList(
            [nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular", groups=2), nn.Conv2d(4, 4, 1)]
        )
        self.head = nn.Linear(4 * 16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.stem(x)))
        x = x + self.block[1](torch.relu(self.block[0](x)))
        return self.head(x.flatten(1))


GEOMETRIES = {
    "stem": Geometry((8, 8), stride=2, padding=1),
    "block.0": Geometry((4, 4), padding=1, padding_mode="circular", groups=2),
    "block.1": Geometry((4, 4)),
    "head": None,
}


@pytest.fixture
def net() -> Small:
    torch.manual_seed(0)
    net = Small()
    net.norm.weight.data.uniform_(0.5, 2)
    net.norm.running_var.uniform_(0.2, 2)
    return net


def expected(net: Small, iterations: int, folded: bool = True) -> dict[str, torch.Tensor]:
    weights = {name: net.get_submodule(name).weight for name in GEOMETRIES}
    if folded:
        scale = net.norm.weight / torch.sqrt(net.norm.running_var + net.norm.eps)
        weights["stem"] = weights["stem"] * scale[:, None, None, None]
    return {name: spectral_norm_bound(weights[name], g, iterations) for name, g in GEOMETRIES.items()}


def test_the_loss_sums_the_bounds_above_the_target(net: Small) -> None:
    bounds = expected(net, 4)
    middle = sorted(b.item() for b in bounds.values())[1] + 1e-3
    regularizer = LipschitzRegularizer(net, (1, 8, 8), target=middle, weight=0.3, iterations=4)
    loss = regularizer()
    above = {name: b for name, b in bounds.items() if b.item() > middle}
    assert 0 < len(above) < len(bounds)
    torch.testing.assert_close(loss, 0.3 * torch.stack(list(above.values())).sum())
    assert regularizer.values == pytest.approx({name: b.item() for name, b in bounds.items()}, rel=1e-6)
    loss.backward()
    for name in GEOMETRIES:
        weight = net.get_submodule(name).weight
        slope = torch.zeros_like(weight)
        if name in above:
            slope = torch.autograd.grad(0.3 * bounds[name], weight, retain_graph=True)[0]
        torch.testing.assert_close(weight.grad, slope)
    assert "stem" in above
    torch.testing.assert_close(net.norm.weight.grad, torch.autograd.grad(0.3 * bounds["stem"], net.norm.weight)[0])


def test_the_stored_weights_alone_on_request(net: Small) -> None:
    regularizer = LipschitzRegularizer(net, (1, 8, 8), target=0.1, iterations=4, batch_norms="separate")
    regularizer().backward()
    bounds = expected(net, 4, folded=False)
    assert regularizer.values == {name: b.item() for name, b in bounds.items()}
    assert net.norm.weight.grad is None


def test_the_current_weights_are_read(net: Small) -> None:
    regularizer = LipschitzRegularizer(net, (1, 8, 8), iterations=4)
    net.load_state_dict(Small().state_dict())
    net.head.weight = nn.Parameter(2 * net.head.weight.detach())
    regularizer()
    assert regularizer.values == {name: b.item() for name, b in expected(net, 4).items()}
    net.norm.running_var *= 3
    regularizer()
    assert regularizer.values == pytest.approx({name: b.item() for name, b in expected(net, 4).items()}, rel=1e-6)
    net.double()
    assert regularizer().dtype == torch.float64


def test_nothing_else_of_the_model_changes(net: Small) -> None:
    net.stem.eval()
    before, modes = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()]
    LipschitzRegularizer(net, (1, 8, 8))().backward()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [m.training for m in net.modules()] == modes


def test_descent_brings_every_layer_to_its_target(net: Small) -> None:
    regularizer = LipschitzRegularizer(net, (1, 8, 8), target={"block.*": 0.3, "*": 0.5}, weight=1.0, iterations=8)
    optimizer = torch.optim.SGD(net.parameters(), lr=5e-3)
    for _ in range(250):
        optimizer.zero_grad()
        regularizer().backward()
        optimizer.step()
    regularizer()
    for name, value in regularizer.values.items():
        target = 0.3 if name.startswith("block") else 0.5
        assert regularizer.targets[name] == target
        assert 0.95 * target < value < 1.02 * target


def test_the_first_pattern_that_matches_counts_and_none_leaves_out(net: Small) -> None:
    regularizer = LipschitzRegularizer(net, (1, 8, 8), target={"head": None, "block.1": 2.0, "*": 1.5})
    assert regularizer.targets == {"stem": 1.5, "block.0": 1.5, "block.1": 2.0}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"stem": 1.0}, r"no target is for the layer block\.0"),
        ({"body.*": 1.0, "*": 1.0}, r"no layer has a name like body\.\*; the layers are stem, block\.0"),
        ({"*": None}, "every layer is left out"),
        (0.0, "above 0"),
        (float("nan"), "above 0"),
        ({"*": "1"}, "above 0"),
    ],
)
def test_targets_that_do_not_fit(net: Small, target: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LipschitzRegularizer(net, (1, 8, 8), target=target)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [Small, "resnet18", None])
def test_what_is_no_network_is_refused(model: Any) -> None:
    with pytest.raises(UsageError, match=r"model must be a network, an .* made by its class"):
        LipschitzRegularizer(model, (1, 8, 8))


def test_a_schedule_counts_calls_or_the_given_steps(net: Small) -> None:
    seen: list[int] = []
    schedule = Schedule(4)
    regularizer = LipschitzRegularizer(net, (1, 8, 8), iterations=lambda step: seen.append(step) or schedule(step))
    for step in (None, None, 7, 3):
        regularizer(step)
    assert seen == [0, 1, 7, 3]
    assert regularizer.values == {name: b.item() for name, b in expected(net, 6).items()}
    assert [schedule(s) for s in range(5)] == [3, 4, 5, 6, 6]
    for bad in ({"length": 0}, {"length": 3, "first": 4, "last": 3}, {"length": 3, "first": -1}):
        with pytest.raises(UsageError, match="schedule"):
            Schedule(**bad)


class Shared(nn.Module):
    """One kernel at two sizes, one matrix under two names, and a padding module."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(2, 2, 3, 3))
        self.pad = nn.ReflectionPad2d(1)
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.conv2d(self.pad(x), self.kernel)
        x = functional.conv2d(x[..., ::2, ::2], self.kernel, padding=1)
        return self.second(torch.relu(self.first(x.mean((2, 3)))))


def test_shared_weights_have_a_term_for_every_geometry() -> None:
    net = Shared()
    regularizer = LipschitzRegularizer(net, (2, 8, 8), iterations=3)
    regularizer()
    padded = Geometry((8, 8), padding=1, padding_mode="reflect")
    assert regularizer.values == {
        "kernel (8x8)": spectral_norm_bound(net.kernel, padded, 3).item(),
        "kernel (4x4)": spectral_norm_bound(net.kernel, Geometry((4, 4), padding=1), 3).item(),
        "first": spectral_norm_bound(net.first.weight, None, 3).item(),
    }
    (layer,) = [layer for layer in regularizer.layers if layer.name == "first"]
    assert layer.places == (("first", "weight"), ("second", "weight"))


def test_parametrized_weights_are_read_through_their_parametrization() -> None:
    net = nn.Sequential(parametrizations.weight_norm(nn.Conv1d(2, 3, 3)), nn.Flatten(), nn.Linear(12, 2))
    regularizer = LipschitzRegularizer(net, {"input": (1, 2, 6)}, target=1e-3)
    regularizer().backward()
    assert list(regularizer.values) == ["0", "2"]
    assert regularizer.values["0"] == spectral_norm_bound(net[0].weight, Geometry(6), 3).item()
    assert all(p.grad is not None and p.grad.any() for name, p in net.named_parameters() if "bias" not in name)


class Computed(nn.Module):
    """A weight that is standardised in the forward pass, a data-dependent product and a constant matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.outer = nn.Linear(3, 3)
        self.basis: torch.Tensor
        self.register_buffer("basis", torch.eye(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.linear(self.inner(x), self.outer.weight - self.outer.weight.mean())
        return (x @ self.basis) * torch.sigmoid(x)


def test_a_computed_weight_is_refused_or_left_out_by_name() -> None:
    net = Computed()
    with pytest.raises(UsageError, match=r'outer\.weight is computed.*"outer\.weight": None'):
        LipschitzRegularizer(net, (1, 3))
    regularizer = LipschitzRegularizer(net, (1, 3), target={"outer.weight": None, "*": 1.0})
    assert list(regularizer.targets) == ["inner"]


def test_a_network_that_is_no_single_graph_has_its_layers() -> None:
    class Branching(Small):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) if x.sum() < 1 else super().forward(-x)

    net = Branching()
    layers = {layer.name: layer.geometries for layer in find_layers(net, (1, 8, 8))}
    assert set(layers) == set(GEOMETRIES)
    regularizer = LipschitzRegularizer(net, (1, 8, 8), iterations=4)
    regularizer()
    plain = expected(net, 4, folded=False)  # each layer is a network of its own there: nothing is folded
    assert regularizer.values == pytest.approx({name: b.item() for name, b in plain.items()}, rel=1e-6)


def test_models_without_layers_or_weights() -> None:
    with pytest.raises(UsageError, match="no convolution and no dense layer"):
        LipschitzRegularizer(nn.ReLU(), (1, 3))
    with torch.device("meta"):
        unloaded = Small()
    with pytest.raises(ModelLoadError, match="no weights yet"):
        LipschitzRegularizer(unloaded, (1, 8, 8))
    with pytest.raises(CaptureError):
        LipschitzRegularizer(Small(), (3, 8, 8))
    broken = Small()
    broken.head.weight.data[0, 0] = torch.nan
    with pytest.raises(NonFiniteWeightsError, match="head"):
        LipschitzRegularizer(broken, (1, 8, 8))


def test_inside_a_compiled_step_under_autocast(net: Small) -> None:
    net.norm.eval()  # the running variance stays
    regularizer = LipschitzRegularizer(net, (1, 8, 8), target=0.1)
    x = torch.randn(2, 1, 8, 8)

    def step() -> torch.Tensor:
        return net(x).float().square().mean() + regularizer(0)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        plain, compiled = step(), torch.compile(step, backend="eager")()
    assert torch.equal(compiled, plain)
    compiled.backward()
    assert all(net.get_submodule(name).weight.grad.any() for name in GEOMETRIES)


def test_with_distributed_training(net: Small) -> None:
    net.norm.eval()
    regularizer = LipschitzRegularizer(net, (1, 8, 8), target=0.1, weight=1.0)
    x = torch.randn(3, 1, 8, 8)
    (net(x).square().mean() + regularizer()).backward()
    slopes = {name: p.grad.clone() for name, p in net.named_parameters()}
    net.zero_grad()
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        parallel = DistributedDataParallel(net)
        for _ in range(2):
            net.zero_grad()
            (parallel(x).square().mean() + regularizer()).backward()
            for name, p in net.named_parameters():
                torch.testing.assert_close(p.grad, slopes[name])
    finally:
        distributed.destroy_process_group()


def test_every_third_step_computes_and_the_others_use_the_cutting_plane(net: Small) -> None:
    regularizer = LipschitzRegularizer(
        net, (1, 8, 8), target=0.1, weight=0.5, iterations=4, every=3, batch_norms="separate"
    )
    first = regularizer()
    torch.testing.assert_close(first, 0.5 * torch.stack(list(expected(net, 4, folded=False).values())).sum())
    anchors = {name: net.get_submodule(name).weight.detach().clone() for name in GEOMETRIES}
    slopes = dict(zip(GEOMETRIES, slopes_of(net), strict=True))
    computed: dict[str, list[int]] = {name: [] for name in GEOMETRIES}
    for step in range(1, 7):
        with torch.no_grad():
            for name in GEOMETRIES:
                net.get_submodule(name).weight.add_(0.01 * torch.randn_like(anchors[name]))
        before = regularizer.values
        net.zero_grad()
        loss = regularizer()
        loss.backward()
        fresh = expected(net, 4, folded=False)
        model = torch.zeros(())
        for (name, slope), new in zip(list(slopes.items()), slopes_of(net), strict=True):
            if regularizer.values[name] != before[name]:
                computed[name].append(step)
                assert regularizer.values[name] == fresh[name].item()
                slopes[name] = slope = new
            weight = net.get_submodule(name).weight
            plane = (slope * weight).sum()
            assert plane.item() <= fresh[name].item() * (1 + 1e-6)
            torch.testing.assert_close(weight.grad, 0.5 * slope)
            model = model + plane
        torch.testing.assert_close(loss, 0.5 * model)
    assert computed == {"stem": [3, 6], "block.0": [2, 5], "block.1": [1, 4], "head": [3, 6]}


def slopes_of(net: Small) -> list[torch.Tensor]:
    bounds = expected(net, 4, folded=False)
    return [torch.autograd.grad(bounds[name], net.get_submodule(name).weight)[0] for name in GEOMETRIES]


def test_between_two_computations_the_pull_ends_at_the_target(net: Small) -> None:
    regularizer = LipschitzRegularizer(net, (1, 8, 8), target={"head": 0.5, "*": None}, weight=1.0, every=1000)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        losses.append(regularizer())
        losses[-1].backward()
        optimizer.step()
    assert losses[0] > 0.5
    assert losses[-1] == 0 or 0.5 < losses[-1] < 0.52
    assert regularizer.values["head"] == losses[0].item()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": 0}, "every must be an integer above 0, got 0"),
        ({"every": 1.5}, "every must be"),
        ({"every": True}, "every must be"),
        ({"weight": float("nan")}, "weight must be a finite number of 0 or more, got nan"),
        ({"weight": -1}, "weight must be"),
        ({"iterations": 3.0}, "iterations must be an integer, or a function of the step that returns one, got 3.0"),
        ({"target": True}, "a number above 0 or None"),
    ],
)
def test_what_means_nothing_is_refused(net: Small, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LipschitzRegularizer(net, (1, 8, 8), **options)


@pytest.mark.parametrize("shape", [8, "1x8x8", None])
def test_the_shape_of_the_input_is_one(net: Small, shape: Any) -> None:
    with pytest.raises(UsageError, match="input_shape must be C x H x W"):
        LipschitzRegularizer(net, shape)


def test_the_planes_follow_the_model(net: Small) -> None:
    regularizer = LipschitzRegularizer(net, (1, 8, 8), iterations=4, every=100)
    with torch.inference_mode():
        first = regularizer()
    assert math.isclose(first, float(regularizer().detach()), rel_tol=1e-6)
    net.double()
    assert math.isclose(first, float(regularizer().detach()), rel_tol=1e-6)
    net.head = nn.Linear(64, 5).double()  # another number of classes: the bound is computed again
    regularizer()
    assert regularizer.values["head"] == pytest.approx(float(spectral_norm_bound(net.head.weight.detach(), None, 4)))
