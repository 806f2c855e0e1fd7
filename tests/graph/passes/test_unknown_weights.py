"""Structure without weights: the same graph as with weights, and nothing of the module changed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lipaudit.graph.capture.export import capture
from lipaudit.graph.capture.meta_tensors import has_values
from lipaudit.graph.linear import CONVOLUTION, DENSE, SCALE
from lipaudit.graph.node import Constant
from lipaudit.graph.passes.table import simplify
from lipaudit.graph.passes.unknown_weights import replace_unknown_weights
from lipaudit.network.propagate import evaluate_rules, propagate
from lipaudit.rules.effect import Settings
from lipaudit.spectral.oracle import CertifiedNorms, UnknownNorms
from tests.graph.capture.test_export import Standardised
from tests.graph.networks import EXAMPLES, Function, Residual

X = {"x": torch.zeros(1, 3, 8, 8)}


def _statuses(module: nn.Module, inputs: dict[str, torch.Tensor], structure: bool) -> list[tuple[str, str, str]]:
    graph = capture(module, inputs)
    simple = simplify(replace_unknown_weights(graph) if structure else graph)
    effects = evaluate_rules(simple, Settings(UnknownNorms() if structure else CertifiedNorms()))
    network = propagate(simple, effects).network.status
    return [(n.name, n.op, effects[n.name].status.value) for n in simple if n.op != "input"] + [("", "", network.value)]


@pytest.mark.parametrize("name", list(EXAMPLES)[::5])
def test_structure_has_the_operations_and_statuses_of_the_network(name: str) -> None:
    """Random weights fold like unknown ones: none of the examples has a special value."""
    example = EXAMPLES[name]
    inputs = {k: v.float() for k, v in example.inputs(0).items()}
    module = example.module(nn.ReLU, offsets=True).float()
    with_weights = _statuses(module, inputs, structure=False)
    empty = example.module(nn.ReLU, offsets=True).float().to("meta")
    assert _statuses(empty, inputs, structure=True) == with_weights


def test_the_module_stays_on_the_meta_device() -> None:
    module = Residual(nn.ReLU).to("meta").train()
    before = {k: id(v) for k, v in module.state_dict(keep_vars=True).items()}
    capture(module, X)
    assert {k: id(v) for k, v in module.state_dict(keep_vars=True).items()} == before
    assert all(v.is_meta for v in module.state_dict().values())
    assert all(m.training for m in module.modules())
    assert not has_values(module)


def test_weights_stay_unknown_and_what_forward_makes_is_real() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return m.conv(x)[:, :, torch.tensor([0, 2])] * torch.arange(1.0, 9.0) * m.gain

    module = Function(forward, conv=nn.Conv2d(3, 4, 3, padding=1), gain=torch.ones(4, 1, 1)).float().to("meta")
    graph = replace_unknown_weights(capture(module, X))
    constants = [
        (node.op, key, argument.value)
        for node in graph
        for key, argument in node.arguments.items()
        if isinstance(argument, Constant)
    ]
    assert [(op, key) for op, key, value in constants if value.is_meta] == [("aten.conv2d.default", "weight")]
    real = [value for op, _, value in constants if op == "aten.mul.Tensor"]
    assert real[0].tolist() == list(range(1, 9))
    assert bool((real[1] > 0).all())
    assert len(set(real[1].flatten().tolist())) == real[1].numel()


def test_what_is_computed_from_weights_is_unknown() -> None:
    module = nn.Sequential(Standardised(3, 4, 3, padding=1)).to("meta")
    simple = simplify(replace_unknown_weights(capture(module, {"x": torch.zeros(1, 3, 6, 6)})))
    (convolution,) = (n for n in simple if n.op == CONVOLUTION)
    assert convolution.payload.kernel.is_meta
    assert tuple(convolution.payload.kernel.shape) == (4, 3, 3, 3)


def test_tied_weights_count_once() -> None:
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False))
    module[2].weight = module[0].weight
    graph = capture(module, {"x": torch.zeros(1, 4)})
    assert graph.num_parameters == 16
    assert graph.unused_parameters == ()


def test_scales_fold_into_unknown_weights() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2)).to("meta")
    simple = simplify(replace_unknown_weights(capture(module, X)))
    assert [n.op for n in simple if n.op in (CONVOLUTION, DENSE, SCALE)] == [CONVOLUTION, DENSE]
