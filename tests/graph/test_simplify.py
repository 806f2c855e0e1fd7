"""Simplified graphs against the networks: the same function, with fewer and tighter operations."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from lipaudit.graph.capture import capture
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Graph
from lipaudit.graph.simplify import absorb_padding, drop_identities, fold_scales, recognise_linear, simplify
from tests.graph.interpreter import count, run
from tests.graph.networks import EXAMPLES, Example


def _close(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    assert len(left) == len(right)
    return all(torch.allclose(a, b, rtol=1e-11, atol=1e-11) for a, b in zip(left, right, strict=True))


def _outputs(module: nn.Module, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        copies = [x.clone() for x in inputs.values()]
        return list(tree_leaves(module(*copies)))


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Example:
    return EXAMPLES[request.param]


def test_the_captured_graph_is_the_network(example: Example) -> None:
    module = example.module(nn.SiLU, offsets=True)
    graph = capture(module, example.inputs(0))
    for seed in (0, 1):
        assert _close(run(graph, example.inputs(seed)), _outputs(module, example.inputs(seed)))


def test_the_simplified_graph_is_the_network_without_offsets(example: Example) -> None:
    """All biases and means are zero here: the function itself must come out, through every non-linearity."""
    module = example.module(nn.SiLU, offsets=False)
    graph = simplify(capture(module, example.inputs(0)))
    for seed in (0, 1, 2):
        assert _close(run(graph, example.inputs(seed)), _outputs(module, example.inputs(seed)))


def test_offsets_do_not_change_differences(example: Example, request: pytest.FixtureRequest) -> None:
    """With the identity for the non-linearity most networks are affine: f(x) - f(y) must come out whatever the biases are."""
    module = example.module(nn.Identity, offsets=True)
    first, second = example.inputs(0), example.inputs(1)
    middle = {k: (first[k] + second[k]) / 2 for k in first}
    f = [_outputs(module, x) for x in (first, second, middle)]
    if not _close([(a + b) / 2 for a, b in zip(f[0], f[1], strict=True)], f[2]):
        name = request.node.callspec.params["example"]
        assert name in {"in place", "a reciprocal is no scale", "a product of two data-dependent tensors"}
        return
    graph = simplify(capture(module, first))
    g = [run(graph, x) for x in (first, second)]
    assert _close([a - b for a, b in zip(*g, strict=True)], [a - b for a, b in zip(f[0], f[1], strict=True)])


def test_what_is_left(example: Example) -> None:
    graph = simplify(capture(example.module(nn.ReLU, offsets=True), example.inputs(0)))
    assert (count(graph, CONVOLUTION), count(graph, DENSE), count(graph, SCALE)) == example.left
    assert not any("dropout" in n.op or "batch_norm" in n.op or "alias" in n.op for n in graph)


def test_every_step_alone_keeps_the_function(example: Example) -> None:
    module = example.module(nn.SiLU, offsets=False)
    inputs = example.inputs(3)
    expected = _outputs(module, inputs)
    graph = capture(module, inputs)
    for step in (drop_identities, recognise_linear, absorb_padding, fold_scales):
        graph = step(graph)
        assert _close(run(graph, inputs), expected), step.__name__


def test_simplifying_twice_changes_nothing(example: Example) -> None:
    once = simplify(capture(example.module(nn.ReLU, offsets=True), example.inputs(0)))
    twice = simplify(once)
    assert [(n.name, n.op) for n in once] == [(n.name, n.op) for n in twice]
    inputs = example.inputs(4)
    assert _close(run(once, inputs), run(twice, inputs))


def _simplified(name: str) -> Graph:
    example = EXAMPLES[name]
    return simplify(capture(example.module(nn.ReLU, offsets=True), example.inputs(0)))


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
