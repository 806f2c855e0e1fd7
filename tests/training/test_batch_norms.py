"""Layers together with the batch norms and other scales that the audit folds into their rows."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrize

from lipaudit import audit
from lipaudit.errors import UsageError
from lipaudit.records.report import AuditReport
from lipaudit.training import LipschitzRegularizer, Rescaling, rescale
from lipaudit.training.layers import find_layers
from tests.spectral.geometries import Case, cases

NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def with_statistics(model: nn.Module, seed: int = 0, smallest: float = -2, largest: float = 2) -> nn.Module:
    """Batch norms with weights of both signs, one of them 0, and variances of 10^smallest to 10^largest, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            exponents = smallest + (largest - smallest) * torch.rand(module.num_features, generator=generator)
            module.running_var.copy_(10.0**exponents)
            if module.affine:
                module.weight.data.copy_(2 * torch.randn(module.num_features, generator=generator))
                module.weight.data[0] = 0
    return model.eval()


def linear_operator(model: nn.Module, shape: tuple[int, ...]) -> torch.Tensor:
    """The matrix of a model that is affine, in float64."""
    wide = copy.deepcopy(model).double()
    with torch.no_grad():
        inputs = torch.eye(torch.Size(shape).numel(), dtype=torch.float64).reshape(-1, *shape[1:])
        return (wide(inputs) - wide(torch.zeros_like(inputs[:1]))).flatten(1)


def rows(report: AuditReport) -> dict[str, float]:
    found = {row.name: row.upper_bound for row in report.layers if row.op != "relu"}
    assert None not in found.values()
    return found  # type: ignore[return-value]


@settings(max_examples=20, deadline=None)
@given(
    cases(valid=True),
    st.integers(0, 2**32 - 1),
    st.sampled_from([(-1.0, 1.0), (-12.0, 6.0)]),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
)
def test_every_pair_is_within_the_limit(
    case: Case, seed: int, range_: tuple[float, float], dtype: torch.dtype, removed: bool
) -> None:
    kernel = case.kernel().clamp(-1e4, 1e4)
    try:
        convolution = case.module(kernel.to(dtype))
        case.operator(kernel)
    except (ValueError, RuntimeError):
        assume(False)
    convolution.weight.requires_grad_()
    norm = NORMS[len(case.input_size)](case.channels[1], dtype=dtype)
    net = with_statistics(nn.Sequential(convolution, norm), seed, *range_)
    shape = (1, case.channels[0], *case.input_size)
    assert rescale(net, {"input": shape}, 0.8, iterations=6, oversampling=8) == ["0"]
    if removed:
        parametrize.remove_parametrizations(net[1], "weight")
    assert torch.linalg.matrix_norm(linear_operator(net, shape), 2) <= 0.8
    report = audit(net, input_shape={"input": shape})
    assert max(rows(report).values()) <= 0.8
    assert len(report.layers) == 1
    assert "1" in report.layers[0].folded


class Written(nn.Module):
    """Layers with scales around them that are written in the forward function."""

    def __init__(self, forward: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        # circular: the bound of the regularizer is the norm itself, as the audit's is
        self.conv = nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular", groups=2)
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2, groups=2)
        self.before, self.behind, self.last = nn.BatchNorm2d(4), nn.BatchNorm2d(6), nn.BatchNorm2d(4)
        self.matrix = nn.Parameter(torch.randn(4, 4) * 2)
        self.scale = nn.Parameter(torch.tensor([3.0, -0.5, 2.0, 0.0]))
        self.std: torch.Tensor
        self.register_buffer("std", torch.tensor([0.2, 0.3, 0.25, 2.0]).reshape(4, 1, 1))
        self.dense, self.flat = nn.Linear(4, 6), nn.BatchNorm1d(6)
        self._forward = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._forward(self, x)


AROUND: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "a batch norm in front": lambda m, x: m.conv(m.before(x)),
    "both sides": lambda m, x: m.behind(m.conv(m.before(x))),
    "groups, transposed": lambda m, x: m.last(m.up(m.behind(torch.relu(m.conv(x))))),
    "one buffer divides": lambda m, x: m.conv(x / m.std),
    "a constant": lambda m, x: 2.5 * m.conv(x * 3),
    "a layer scale": lambda m, x: m.scale[:, None, None] * torch.relu(m.conv(m.scale[:, None, None] * x))[:, :4],
    "a batch norm and a scale behind": lambda m, x: 3 * m.behind(m.conv(x)),
    "dense": lambda m, x: m.flat(m.dense(x.mean((2, 3)))),
    "a matrix from the right": lambda m, x: torch.relu(x.mean((2, 3))) * m.scale @ m.matrix * m.std.flatten(),
    "a view": lambda m, x: m.flat(m.dense(x.mean(3).transpose(1, 2)).reshape(-1, 6)),
}


@pytest.fixture(params=AROUND)
def net(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(2)
    return with_statistics(Written(AROUND[request.param]), 3, -1, 1)


def layer_rows(net: nn.Module, names: list[str]) -> dict[str, float]:
    """The audit's rows of the layers with these names, which have their scales folded."""
    report = audit(net, input_shape=(4, 4, 4), tol=1e-4)
    found = [
        row for row in report.layers if row.op in ("conv2d", "conv_transpose2d", "linear", "matmul", "mm", "addmm")
    ]
    assert len(found) == len(names)
    assert any(row.folded for row in found)
    return {name: float(row.upper_bound or 0) for name, row in zip(names, found, strict=True)}


def test_the_regularizer_has_the_figures_of_the_audit(net: nn.Module) -> None:
    regularizer = LipschitzRegularizer(net, (4, 4, 4), iterations=14, target=1e-3)
    regularizer().backward()
    assert regularizer.values == pytest.approx(layer_rows(net, list(regularizer.values)), rel=2e-3)
    for layer in regularizer.layers:
        for use in layer.uses:
            for scale in use.scales:
                if parameters := [dict(net.named_parameters()).get(".".join(filter(None, p))) for p in scale.places]:
                    assert any(p is not None and p.grad.any() for p in parameters) or scale.places[0][1] == "std"


def test_rescaled_rows_are_within_the_limit(net: nn.Module) -> None:
    names = rescale(net, (4, 4, 4), 0.5, iterations=12)
    found = layer_rows(net, names)
    assert max(found.values()) <= 0.5
    assert min(found.values()) >= 0.4  # all of them were above
    regularizer = LipschitzRegularizer(net, (4, 4, 4), iterations=14)
    regularizer()
    assert regularizer.values == pytest.approx(found, rel=2e-3)


def pair() -> nn.Module:
    torch.manual_seed(4)
    return with_statistics(nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3)), 1, -1, 1).double()


@pytest.mark.parametrize("name", ["0.weight", "1.weight"])
def test_the_gradients_are_those_of_finite_differences(name: str) -> None:
    net = pair()
    regularizer = LipschitzRegularizer(net, (2, 5, 5), target=0.01, weight=0.7, iterations=5)

    def loss(value: torch.Tensor) -> torch.Tensor:
        return parametrized(net, name, value, regularizer)

    assert torch.autograd.gradcheck(loss, (dict(net.named_parameters())[name].detach().clone().requires_grad_(),))


def parametrized(net: nn.Module, name: str, value: torch.Tensor, call: Callable[[], torch.Tensor]) -> torch.Tensor:
    """``call()`` with the value in the place of a parameter, differentiable in it."""
    path, _, attribute = name.rpartition(".")
    module = net.get_submodule(path)
    kept = module._parameters.pop(attribute)
    setattr(module, attribute, value)
    try:
        return call()
    finally:
        delattr(module, attribute)
        module._parameters[attribute] = kept


@pytest.mark.parametrize("limit", [0.3, 1e3])
def test_the_rescaled_pair_has_the_gradient_of_the_quotient(limit: float) -> None:
    net = pair()
    x = torch.randn(2, 2, 5, 5, dtype=torch.float64)
    rescale(net, (2, 5, 5), limit, iterations=4)

    def output(weight: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
        values = {"0.weight": weight, "1.parametrizations.weight.original": gamma}
        return torch.func.functional_call(net, values, (x,))

    gamma = net[1].parametrizations.weight.original
    values = [p.detach().clone().requires_grad_() for p in (net[0].weight, gamma)]
    assert torch.autograd.gradcheck(output, values)


def network() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU()),
        *(nn.Conv2d(6, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(6 * 16, 6), nn.BatchNorm1d(6)),
    )


def test_training_keeps_every_row_at_the_limit_and_the_statistics_alive() -> None:
    net = network()
    assert rescale(net, (1, 8, 8), 0.9, iterations=6) == ["0", "3", "7"]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    x, classes = torch.randn(32, 1, 8, 8), torch.arange(32) % 6
    losses = []
    for _ in range(40):
        loss = functional.cross_entropy(net(x), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    # dividing the weight in front of the batch norm would take a power of the factor from the variance in each step
    assert min(float(net[place].running_var.min()) for place in (1, 4, 8)) > 1e-4
    assert max(rows(audit(net, input_shape=(1, 8, 8))).values()) <= 0.9
    for place, name in ((1, "1"), (4, "4"), (8, "8")):
        parametrize.remove_parametrizations(net[place], "weight")
        assert not parametrize.is_parametrized(net.get_submodule(name))
    found = rows(audit(net, input_shape=(1, 8, 8)))
    assert max(found.values()) <= 0.9
    assert min(found.values()) > 0.7


def test_the_stored_weights_alone_on_request() -> None:
    net = with_statistics(network(), 0, -3, -2)
    rescale(net, (1, 8, 8), batch_norms="separate")
    assert not any(parametrize.is_parametrized(net[place]) for place in (1, 4, 8))
    assert all(isinstance(net[place].parametrizations.weight[0], Rescaling) for place in (0, 3, 7))
    assert min(rows(audit(net, input_shape=(1, 8, 8))).values()) > 1
    bare = nn.Sequential(*(nn.Identity() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) else m for m in net))
    assert max(rows(audit(bare, input_shape=(1, 8, 8))).values()) <= 1


class Shared(nn.Module):
    """A kernel in front of two batch norms, and a batch norm behind two kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.other = (nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular") for _ in range(2))
        self.first, self.second = nn.BatchNorm2d(2), nn.BatchNorm2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(self.conv(x)))
        x = torch.relu(self.second(self.conv(x)))
        return torch.relu(self.second(self.other(x)))


def test_shared_kernels_and_shared_batch_norms() -> None:
    net = with_statistics(Shared(), 0, -2, -1)
    regularizer = LipschitzRegularizer(net, (2, 6, 6), iterations=14)
    regularizer()
    assert list(regularizer.values) == ["conv (first)", "conv (second)", "other"]
    assert list(rows(audit(net, input_shape=(2, 6, 6), tol=1e-4)).values()) == pytest.approx(
        list(regularizer.values.values()), rel=2e-3
    )
    assert rescale(net, (2, 6, 6)) == ["conv", "other"]
    assert len(net.second.parametrizations.weight) == 2
    assert not parametrize.is_parametrized(net.conv)
    assert max(rows(audit(net, input_shape=(2, 6, 6))).values()) <= 1


def test_uses_that_are_alike_have_one_term() -> None:
    net = Written(lambda m, x: torch.relu(m.matrix_of(torch.relu(m.matrix_of(x.mean((2, 3)) * 2)) * 2)))
    net.matrix_of = nn.Linear(4, 4)
    regularizer = LipschitzRegularizer(net, (4, 4, 4))
    assert list(regularizer.targets) == ["matrix_of"]


@pytest.mark.parametrize("call", [rescale, LipschitzRegularizer])
def test_a_scale_that_cannot_be_read_is_refused_by_name(call: Callable[..., Any]) -> None:
    net = Written(lambda m, x: (m.conv(x).relu()[:, :4].mean((2, 3)) * (m.scale * m.scale)) @ m.matrix)
    with pytest.raises(UsageError, match=r'folds the scale .* into the row of matrix.*"matrix": None.*"separate"'):
        call(net, (4, 4, 4))
    call(copy.deepcopy(net), (4, 4, 4), {"matrix": None, "*": 1.0})
    call(net, (4, 4, 4), batch_norms="separate")


def test_a_symmetric_matrix_has_no_side() -> None:
    net = Written(lambda m, x: (x.mean((2, 3)) * m.scale) @ m.matrix)
    net.matrix.data.copy_(torch.eye(4))
    with pytest.raises(UsageError, match="a symmetric matrix whose sides cannot be told apart"):
        LipschitzRegularizer(net, (4, 4, 4))
    tied = Written(lambda m, x: m.square(x.mean((2, 3)) * m.scale))
    tied.square = nn.Linear(4, 4)
    tied.square.weight.data.copy_(torch.eye(4))
    regularizer = LipschitzRegularizer(tied, (4, 4, 4), iterations=10)
    regularizer()
    assert regularizer.values["square"] == pytest.approx(3, rel=1e-3)


def test_a_batch_norm_without_a_weight_is_refused_by_name() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, affine=False), nn.ReLU(), nn.Conv2d(2, 2, 1))
    with pytest.raises(UsageError, match=r'batch norm 1 into the row of 0.*affine=True.*"0": None.*"separate"'):
        rescale(net, (1, 8, 8))
    assert not any(parametrize.is_parametrized(module) for module in net.modules())
    LipschitzRegularizer(net, (1, 8, 8))()
    assert rescale(net, (1, 8, 8), {"0": None, "*": 1.0}) == ["3"]


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: m.last(m.square(m.last(x))),
        lambda m, x: m.square(m.last(torch.relu(m.last(m.square(x))))),
    ],
)
def test_what_would_be_rescaled_by_itself_is_refused(forward: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
    net = Written(forward)
    net.square = nn.Conv2d(4, 4, 1)
    with pytest.raises(UsageError, match=r"last\.weight.*the rescaled value would depend on itself"):
        rescale(net, (4, 4, 4))
    assert not any(parametrize.is_parametrized(module) for module in net.modules())
    LipschitzRegularizer(net, (4, 4, 4))()


def test_a_pair_is_rescaled_once() -> None:
    net = network()
    rescale(net, (1, 8, 8), {"0": 1.0, "*": None})
    with pytest.raises(UsageError, match=r"1 is rescaled already: end that with .*remove_parametrizations"):
        rescale(net, (1, 8, 8))


@pytest.mark.parametrize("call", [rescale, LipschitzRegularizer])
@pytest.mark.parametrize("choice", ["folded", True, None])
def test_there_are_two_choices(call: Callable[..., Any], choice: Any) -> None:
    with pytest.raises(UsageError, match=r'batch_norms must be "fold" .* or "separate"'):
        call(network(), (1, 8, 8), batch_norms=choice)


def test_the_layers_of_other_uses_have_no_scales() -> None:
    assert not any(use.scales for layer in find_layers(network(), (1, 8, 8)) for use in layer.uses)


def test_numbers_below_the_range_of_the_precision_are_covered() -> None:
    for limit in (1e-4, 1e-6, 1e-9):
        net = with_statistics(nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16)), 2, -4, -3)
        net[1].weight.data = net[1].weight.data.half()
        rescale(net, (1, 16), limit)
        scale = net[1].weight.double() / torch.sqrt(net[1].running_var.double() + net[1].eps)
        assert torch.linalg.matrix_norm(scale[:, None] * net[0].weight.double(), 2) <= limit
