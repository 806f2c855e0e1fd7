"""Networks in other units: the same function of rescaled tensors, the same bounds, and units in which the product is small."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional

from lipaudit.graph.arguments import call, overload
from lipaudit.graph.linear import Dense
from lipaudit.graph.node import Graph, Ref
from lipaudit.network.balancing import balanced_scales
from lipaudit.network.bound import NetworkBound
from lipaudit.network.forms.bound import quadratic_forms
from lipaudit.network.forms.recompute import by_certificate
from lipaudit.network.rescaling import RescalingError, rescaled
from lipaudit.spectral.convolution.geometry import Convolution
from tests.network.forms.networks import F64, Case, case, conv, dense, largest_stretch, network_problem


def bare(*layers: nn.Module) -> list[nn.Module]:
    """Layers without biases: with activations that are homogeneous the rescaled network is the same function."""
    for layer in layers:
        layer.bias = None
    return list(layers)


def homogeneous() -> dict[str, Case]:
    torch.manual_seed(3)
    leaky = functional.leaky_relu

    def residual(x, a, b, c, d):  # type: ignore[no-untyped-def]
        x = leaky(a(x))
        return d((x + c(leaky(b(x)))).flatten(1))

    def pooled(x, a, b, c, d):  # type: ignore[no-untyped-def]
        x = functional.max_pool2d(functional.relu(a(x)), 2)
        x = functional.interpolate(functional.avg_pool2d(leaky(b(x)), 2), scale_factor=2)
        return d(leaky(c(functional.pad(x, (1, 0, 1, 0)))).mean((2, 3)))

    return {
        "dense": case((1, 5), lambda x, a, b, c: c(leaky(b(leaky(a(x))))), *bare(dense(5, 8), dense(8, 7), dense(7, 3))),
        "tokens": case((1, 4, 5), lambda x, a, b: b(leaky(a(x))), *bare(dense(5, 8), dense(8, 3))),
        "residual": case(
            (1, 2, 6, 6), residual,
            *bare(conv(2, 4, 3, padding=1), conv(4, 6, 3, padding=1), conv(6, 4, 3, padding=1), dense(144, 3)),
        ),
        "pooled": case(
            (1, 2, 8, 8), pooled,
            *bare(conv(2, 4, 3, padding=1), conv(4, 4, 3, padding=1, groups=4), conv(4, 6, 3, groups=2), dense(6, 3)),
        ),
        "transposed": case(
            (1, 2, 5), lambda x, a, b, c: c(leaky(b(leaky(a(x))))),
            *bare(nn.Conv1d(2, 4, 3, 2), nn.ConvTranspose1d(4, 6, 3, 2, groups=2), nn.Conv1d(6, 2, 1)),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", homogeneous())
def test_a_network_in_other_units_is_the_same_function(name: str) -> None:
    example = homogeneous()[name]
    problem = network_problem(example.net, example.shape)
    scales, _ = balanced_scales(problem)
    assert scales
    generator = torch.Generator().manual_seed(2)
    shared = {
        name: (2 * torch.randn(len(scale), generator=generator, dtype=F64)).exp() for name, scale in scales.items()
    }
    for names in _tied(scales):
        shared.update(dict.fromkeys(names, shared[names[0]]))
    x = torch.randn(example.shape, generator=generator, dtype=F64)
    for other in (scales, shared):
        moved = rescaled(problem, other)
        assert any(a.payload is not b.payload for a, b in zip(moved.graph, problem.graph, strict=True))
        value = evaluated(moved.graph, x)
        torch.testing.assert_close(value, example.net(x), rtol=1e-10, atol=1e-12)


def evaluated(graph: Graph, x: torch.Tensor) -> torch.Tensor:
    """The output of a simplified graph."""
    values = {graph.inputs[0]: x}
    for node in graph:
        if node.op == "input":
            continue
        read, linear = [values[ref.name] for ref in node.refs], node.payload
        if isinstance(linear, Dense):
            values[node.name] = functional.linear(read[0], linear.weight)
        elif isinstance(linear, Convolution):
            d, padding = len(linear.kernel_size), [pair[0] for pair in linear.padding]
            name = f"conv_transpose{d}d" if linear.transposed else f"conv{d}d"
            options = {"stride": linear.stride, "padding": padding, "groups": linear.groups}
            values[node.name] = getattr(functional, name)(read[0], linear.kernel, **options)
        else:
            given = {
                key: values[value.name] if isinstance(value, Ref) else value for key, value in node.arguments.items()
            }
            values[node.name] = call(overload(node.op), given)
    return values[graph.outputs[0]]


def _tied(scales: dict[str, torch.Tensor]) -> list[list[str]]:
    """Operations whose outputs are added have the same units."""
    groups: list[list[str]] = []
    for name, scale in scales.items():
        for group in groups:
            if torch.equal(scales[group[0]], scale):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def gates(x, a, b):  # type: ignore[no-untyped-def]
    return b(functional.softmax(a(x), -1))


@pytest.mark.parametrize(
    ("formula", "between"),
    [
        (gates, "a softmax"),
        (lambda x, a, b: b(functional.layer_norm(a(x), (6,))), "a layer norm"),
        (lambda x, a, b: b(torch.sort(a(x)).values), "sorted entries"),
        (lambda x, a, b: b(functional.pad(a(x), (1, -1))), "entries that move along the channels"),
        (lambda x, a, b: b(a(x).reshape(1, 3, 2).transpose(1, 2).reshape(1, 6)), "channels in another order"),
        (lambda x, a, b: b(torch.cat([a(x), x], 1)[:, :6]), "a concatenation"),
        (lambda x, a, b: (b(h := a(x)), h), "a network's output"),
    ],
)
def test_units_stay_where_something_mixes_channels(formula: Callable[..., torch.Tensor], between: str) -> None:
    torch.manual_seed(3)
    example = case((1, 6), formula, dense(6, 6), dense(6, 3))
    problem = network_problem(example.net, example.shape)
    assert not balanced_scales(problem)[0], between
    name = next(node.name for node in problem.graph if node.payload is not None and node.output.shape == (1, 6))
    with pytest.raises(RescalingError, match=r"does not act on every channel|in other units|another axis"):
        rescaled(problem, {name: torch.full((6,), 2.0, dtype=F64)})


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        (lambda n: {n: torch.ones(5, dtype=F64)}, "needs 8 float64 scales"),
        (lambda n: {n: torch.ones(8)}, "needs 8 float64 scales"),
        (lambda n: {n: -torch.ones(8, dtype=F64)}, "not positive and finite"),
        (lambda n: {n: torch.full((8,), math.nan, dtype=F64)}, "not positive and finite"),
        (lambda n: {n: torch.full((8,), 1e308, dtype=F64) * 2.0 ** torch.arange(8)}, "not positive and finite"),
        (lambda n: {n: torch.full((8,), 1e-300, dtype=F64)}, "too large or too small"),
        (lambda n: {"elsewhere": torch.ones(8, dtype=F64)}, "no operation 'elsewhere'"),
        (lambda n: {"input": torch.ones(8, dtype=F64)}, "no operation 'input'|no constant weights"),
    ],
)
def test_scales_that_are_none_are_refused(scales: Callable[[str], dict[str, torch.Tensor]], message: str) -> None:
    example = homogeneous()["dense"]
    problem = network_problem(example.net, example.shape)
    first = next(node.name for node in problem.graph if node.output.shape == (1, 8))
    with pytest.raises(RescalingError, match=message):
        rescaled(problem, scales(first))


def rescaled_channels(net: nn.Sequential, decades: float) -> nn.Sequential:
    """The same function: channels of every hidden layer times up to 10^decades, and divided by that behind the activation."""
    net, generator = copy.deepcopy(net), torch.Generator().manual_seed(5)
    layers = [layer for layer in net if isinstance(layer, nn.Linear | nn.Conv2d)]
    with torch.no_grad():
        for before, behind in pairwise(layers):
            channels = before.weight.shape[0]
            by = 10 ** (decades * (2 * torch.rand(channels, generator=generator, dtype=F64) - 1))
            before.weight *= by.reshape(-1, *[1] * (before.weight.dim() - 1))
            if before.bias is not None:
                before.bias *= by
            columns = by.repeat_interleave(behind.weight.shape[1] // channels)
            behind.weight /= columns.reshape(1, -1, *[1] * (behind.weight.dim() - 2))
    return net


NETS = {
    "dense": (nn.Sequential(dense(5, 16), nn.ReLU(), dense(16, 16), nn.ReLU(), dense(16, 4)), (1, 5)),
    "convolutional": (
        nn.Sequential(
            conv(2, 6, 3, padding=1), nn.ReLU(), conv(6, 6, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), dense(24, 3)
        ),
        (1, 2, 8, 8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NETS)
def test_the_bound_hardly_depends_on_the_units_of_hidden_channels(kind: str) -> None:
    net, shape = NETS[kind]
    net = net.double().eval().requires_grad_(False)
    bounds = []
    for decades in (0, 1, 3):
        same = rescaled_channels(net, decades)
        x = torch.randn(shape, dtype=F64)
        torch.testing.assert_close(same(x), net(x))
        problem = replace(network_problem(same, shape), work=4e9)
        found = quadratic_forms(problem)
        assert isinstance(found, NetworkBound)
        bounds.append(math.exp(found.network.log_upper))
    assert problem.propagation.network.log_upper > math.log(bounds[0]) + 5
    assert max(bounds) < 1.01 * min(bounds)


def test_a_certificate_in_other_units_proves_its_bound_and_no_other_network_s() -> None:
    net, shape = NETS["convolutional"]
    net = rescaled_channels(net.double().eval().requires_grad_(False), 2)
    problem = replace(network_problem(net, shape), work=3e9)
    found = quadratic_forms(problem)
    assert isinstance(found, NetworkBound)
    assert found.proof is not None
    assert found.proof.scales
    assert found.network.log_upper > math.log(largest_stretch(Case(net, shape)))
    again = by_certificate(replace(problem, certificate=found.proof))
    assert isinstance(again, NetworkBound)
    assert again.network.log_upper == found.network.log_upper
    for broken in ({"nowhere": torch.ones(2, dtype=F64)}, {next(iter(found.proof.scales)): torch.ones(2, dtype=F64)}):
        refused = by_certificate(replace(problem, certificate=replace(found.proof, scales=broken)))
        assert not isinstance(refused, NetworkBound)
        assert "does not prove" in refused.reason
    other = by_certificate(replace(problem, certificate=replace(found.proof, scales={})))
    assert not isinstance(other, NetworkBound) or other.network.log_upper > found.network.log_upper


def test_channels_of_zeros_keep_finite_units() -> None:
    net = nn.Sequential(dense(4, 6), nn.ReLU(), dense(6, 6), nn.ReLU(), dense(6, 2)).double().requires_grad_(False)
    net[0].weight[2] = 0
    net[2].weight[:, 3] = 0
    problem = network_problem(net.eval(), (1, 4))
    scales, _ = balanced_scales(problem)
    assert all(bool((scale > 1e-6).all()) and bool((scale < 1e6).all()) for scale in scales.values())
    assert rescaled(problem, scales).propagation.network.log_upper < problem.propagation.network.log_upper + 1e-3


def test_a_number_that_is_scaled_has_no_channels() -> None:
    torch.manual_seed(4)
    number = case((1, 5), lambda x, a, b: 0.3 * b(torch.relu(a(x))).abs().sum(), dense(5, 7), dense(7, 4))
    problem = network_problem(number.net, number.shape)
    scales, gain = balanced_scales(problem)
    assert gain > 0
    assert [tuple(scale.shape) for scale in scales.values()] == [(7,)]
    assert rescaled(problem, scales).propagation.network.log_upper < problem.propagation.network.log_upper
