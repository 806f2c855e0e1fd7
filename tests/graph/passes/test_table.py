"""Simplified graphs against the networks: the same function, with fewer and tighter operations."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Graph
from lipaudit.graph.passes.table import PASSES, Equality, explain, simplify
from tests.graph.interpreter import count, run
from tests.graph.networks import EXAMPLES, OfOneInput


@functools.cache
def _network(name: str, activation: type[nn.Module], offsets: bool) -> tuple[nn.Module, Graph]:
    """A network of the list and its captured graph; capturing is what takes time here."""
    module = EXAMPLES[name].module(activation, offsets)
    return module, capture(module, EXAMPLES[name].inputs(0))


def _close(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    assert len(left) == len(right)
    return all(torch.allclose(a, b, rtol=1e-11, atol=1e-11) for a, b in zip(left, right, strict=True))


def _outputs(module: nn.Module, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        copies = [x.clone() for x in inputs.values()]
        return list(tree_leaves(module(*copies)))


@pytest.fixture(params=EXAMPLES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_captured_graph_is_the_network(name: str) -> None:
    module, graph = _network(name, nn.SiLU, offsets=True)
    for seed in (0, 1):
        inputs = EXAMPLES[name].inputs(seed)
        assert _close(run(graph, inputs), _outputs(module, inputs))


def test_every_step_keeps_a_network_without_offsets(name: str) -> None:
    """All biases and means are zero here: the function itself must come out, through every non-linearity."""
    module, graph = _network(name, nn.SiLU, offsets=False)
    for name_of_pass, run_pass in (*((each.name, each.run) for each in PASSES), ("simplify", simplify)):
        graph = run_pass(graph)
        inputs = EXAMPLES[name].inputs(1)
        assert _close(run(graph, inputs), _outputs(module, inputs)), name_of_pass


def test_passes_equal_in_value_keep_a_network_with_offsets(name: str) -> None:
    module, graph = _network(name, nn.SiLU, offsets=True)
    inputs = EXAMPLES[name].inputs(1)
    for each in PASSES:
        if each.equality is Equality.VALUE:
            graph = each.run(graph)
            assert _close(run(graph, inputs), _outputs(module, inputs)), each.name


def test_passes_equal_in_value_come_first_and_names_are_unique() -> None:
    kinds = [each.equality for each in PASSES]
    assert kinds == sorted(kinds, key=[Equality.VALUE, Equality.DIFFERENCES].index)
    assert len({each.name for each in PASSES}) == len(PASSES)
    assert all(each.formula for each in PASSES)


ALMOST: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "softmax": (
        lambda x: x.exp() / (x.exp().sum(-1, keepdim=True) + 1),
        "the divisor is no sum over one axis",
    ),
    "cyclic shifts": (
        lambda x: torch.cat([x[:, 2:], x[:, :1]], 1),
        "the two parts are not slices of one tensor of the shape of the result",
    ),
    "constant sums": (lambda x: x / x.sum(-1, keepdim=True), "the sum is that of no softmax along the axis"),
    "normalisations": (
        lambda x: x / x.norm(dim=1, keepdim=True),
        "not the rows of one tensor by their own size with an epsilon",
    ),
    "attention": (lambda x: x[None] @ x.T[None], "neither factor comes from a softmax"),
    "local response normalisation": (
        lambda x: x[None] / (1 + x[None]) ** 0.75,
        "the divisor is no power of k + a s",
    ),
    "radial functions": (
        lambda x: x / (x.norm(dim=1, keepdim=True) - 1),
        "the function of the size has no finite slope",
    ),
    "pairs with a copy": (
        lambda x: torch.cat([torch.maximum(x[:, :2], x[:, 2:]), torch.minimum(x[:, :2], x[:, 2:])], 1)[:, :3],
        "what is put in order in pairs has no copied entries",
    ),
    "filters as convolutions": (
        lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.ones(1, 3)),
        "the filter is not one of a sample's channels over all of its pixels",
    ),
    "filters by frequency": (
        lambda x: torch.fft.irfft(torch.fft.rfft(x).abs()),
        "what is transformed back is no filter of a half spectrum",
    ),
    "hypot of one tensor": (
        lambda x: torch.hypot(x, x.exp()),
        "the operands of hypot are not selections of one tensor",
    ),
    "power means": (lambda x: (x.square().sum(-1) - 1).sqrt(), "the root is not taken of a sum of powers"),
    "activations": (lambda x: x * x.sin(), "no polynomial in x and in one function of x"),
    "element-wise functions": (lambda x: x.sin() + x[:, :1], "no tensor before it has a finite slope"),
    "sorted gathers": (
        lambda x: x.gather(0, x.sin().argsort(0)),
        "the places are those of another tensor, or along another axis",
    ),
    "choices by comparison": (lambda x: torch.where(x > x.sin(), x, x.cos()), "what is chosen is not what is compared"),
    "ordered pairs": (lambda x: torch.cat([x, x.sin()]), "the parts do not hold the larger and the smaller"),
    "pairs on sectors": (lambda x: torch.cat([x, x.sin()]), "nothing is chosen"),
    "permuted concatenation": (
        lambda x: torch.cat([x[:, :2], x.sin()], 1),
        "no two parts beside each other are pieces",
    ),
    "linear maps": (lambda x: x * x.sin(), "more than one operand depends on the data"),
    "padding": (
        lambda x: _both(nn.functional.pad(x[None, None], (1, 1, 1, 1))),
        "something else reads the padded tensor",
    ),
}


def _both(image: torch.Tensor) -> torch.Tensor:
    return nn.functional.conv2d(image, torch.ones(1, 1, 3, 3)).sum() + image.sum()


def test_every_pass_of_patterns_has_an_example() -> None:
    assert {each.name for each in PASSES if each.matcher is not None} == set(ALMOST)


@pytest.mark.parametrize("name_of_pass", ALMOST)
def test_a_pass_says_why_nothing_was_recognised(name_of_pass: str) -> None:
    function, reason = ALMOST[name_of_pass]
    graph = capture(OfOneInput(function), {"x": torch.zeros(1, 4)})
    said = [str(answer) for answer in explain(graph) if answer.name == name_of_pass]
    assert any(reason in text for text in said), said


# With the identity for the non-linearity every other network of the list is affine.
NOT_AFFINE = {"in place", "a reciprocal is no scale", "a product of two data-dependent tensors"}


def test_offsets_do_not_change_differences(name: str) -> None:
    module, graph = _network(name, nn.Identity, offsets=True)
    first, second = EXAMPLES[name].inputs(1), EXAMPLES[name].inputs(2)
    middle = {k: (first[k] + second[k]) / 2 for k in first}
    f = [_outputs(module, x) for x in (first, second, middle)]
    affine = _close([(a + b) / 2 for a, b in zip(f[0], f[1], strict=True)], f[2])
    assert affine == (name not in NOT_AFFINE)
    if affine:
        g = [run(simplify(graph), x) for x in (first, second)]
        assert _close([a - b for a, b in zip(*g, strict=True)], [a - b for a, b in zip(f[0], f[1], strict=True)])


def test_what_is_left(name: str) -> None:
    graph = simplify(_network(name, nn.SiLU, offsets=True)[1])
    assert (count(graph, CONVOLUTION), count(graph, DENSE), count(graph, SCALE)) == EXAMPLES[name].left
    assert not any("dropout" in n.op or "batch_norm" in n.op or "alias" in n.op for n in graph)


def test_simplifying_twice_changes_nothing(name: str) -> None:
    once = simplify(_network(name, nn.SiLU, offsets=True)[1])
    twice = simplify(once)
    assert [(n.name, n.op) for n in once] == [(n.name, n.op) for n in twice]


def _simplified(name: str) -> Graph:
    return simplify(_network(name, nn.SiLU, offsets=True)[1])


def test_a_folded_batch_norm_is_named_among_the_sources() -> None:
    graph = _simplified("residual")
    stem = next(n for n in graph if n.module == "stem.0")
    assert stem.sources == ("stem.1",)
    assert stem.payload.kernel.dtype is torch.float64


def test_merged_branches_are_named_among_the_sources() -> None:
    (convolution,) = (n for n in _simplified("branches") if n.op == CONVOLUTION)
    assert set(convolution.sources) >= {"0.dense.1", "0.pointwise.1", "0.identity"}
    names = {name for c in convolution.arguments.values() if hasattr(c, "names") for name in c.names}
    assert {"0.dense.0.weight", "0.pointwise.0.weight", "0.identity.weight"} <= names


def test_merging_keeps_groups_where_it_can() -> None:
    (convolution,) = (n.payload for n in _simplified("branches, strided, grouped") if n.op == CONVOLUTION)
    assert convolution.groups == 4
    assert convolution.stride == (2, 2)
    (convolution,) = (n.payload for n in _simplified("unequal groups") if n.op == CONVOLUTION)
    assert convolution.groups == 1


def test_padding_modes_reach_the_convolutions() -> None:
    payloads = [n.payload for n in _simplified("padding modes") if n.op == CONVOLUTION]
    assert [p.padding_mode for p in payloads] == ["circular", "reflect", "replicate", "zeros"]
    assert payloads[2].padding == ((1, 1), (2, 2))
    (payload,) = (n.payload for n in _simplified("asymmetric padding") if n.op == CONVOLUTION)
    assert payload.padding == ((2, 3), (1, 0))
    assert payload.input_size == (6, 6)


@pytest.mark.parametrize(
    "name",
    ["padding that crops", "padding of channels", "padding with two readers", "padding before a padded convolution",
     "padding before a transposed convolution", "padding that is an output"],
)  # fmt: skip
def test_padding_that_cannot_be_absorbed_stays(name: str) -> None:
    assert any("pad" in n.op for n in _simplified(name))


def test_views_around_dense_layers_cost_nothing() -> None:
    """The same bound, to rounding, as the network without the views."""

    class Mixed(nn.Module):
        def __init__(self, views: bool) -> None:
            super().__init__()
            generator = torch.Generator().manual_seed(1)
            self.views = views
            self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 6)
            self.norm = nn.LayerNorm(6)
            self.scale = nn.Parameter(torch.ones(8))
            for parameter in self.parameters():
                parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(x)
            if not self.views:
                return self.second(torch.relu(self.first(y) * self.scale) * self.scale)
            y = self.first(y.reshape(-1, 6)).reshape(1, 5, 8) * self.scale
            return self.second((torch.relu(y) * self.scale).reshape(-1, 8)).reshape(1, 5, 6)

    plain, viewed = Mixed(False), Mixed(True)
    x = torch.randn(1, 5, 6, dtype=torch.float64)
    assert torch.allclose(plain(x), viewed(x))
    bounds = [lipaudit.audit(m, input_shape={"x": (1, 5, 6)}).network.log10_upper_bound for m in (plain, viewed)]
    assert bounds[1] == pytest.approx(bounds[0], abs=1e-9)


def test_magnitudes_behind_moved_scales_hold() -> None:
    """The view holds the scaled values in one graph and the unscaled ones in the other; a gate reads what follows."""

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(6, 6, bias=False)
            generator = torch.Generator().manual_seed(1)
            self.dense.weight.data = torch.randn(6, 6, generator=generator, dtype=torch.float64)
            self.register_buffer("scale", torch.linspace(0.001, 0.01, 6, dtype=torch.float64))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.dense((torch.tanh(x) * self.scale).reshape(5, 6)).reshape(1, 5, 6) * self.scale / 1e-4
            return y * (y.reshape(5, 6) - 3).reshape(1, 5, 6)

    module, centre = Gated(), torch.zeros(1, 5, 6, dtype=torch.float64)
    for radius in (0.1, 1.0, 30.0):
        report = lipaudit.audit(module, input_shape={"x": (1, 5, 6)}, domain="ball", around=centre, radius=radius)
        generator = torch.Generator().manual_seed(2)
        for _ in range(10):
            move = torch.randn(centre.shape, generator=generator, dtype=torch.float64)
            jacobian = torch.autograd.functional.jacobian(module, radius * move / move.norm()).reshape(-1, 30)
            assert float(torch.linalg.matrix_norm(jacobian, 2)) <= report.network.upper_bound
