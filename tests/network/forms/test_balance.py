"""Networks whose channels are scaled up and down again are the same function, and have the same bound."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.network.forms.balance import energies
from lipaudit.network.forms.chain import Chain
from lipaudit.network.forms.plan import Limits, plan
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.tighten import tighten
from tests.network.forms.networks import Case, case, conv, dense, network_problem, one_segment, steps_of


def rescaled(layers: list[nn.Module], decades: float) -> list[nn.Module]:
    """The layers with every channel between two of them multiplied by up to 10^decades, or divided, and divided again."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for layer, following in pairwise(layers):
            d = 10 ** ((2 * torch.rand(len(layer.weight), generator=generator, dtype=torch.float64) - 1) * decades)
            layer.double().weight.mul_(d.reshape(-1, *[1] * (layer.weight.dim() - 1)))
            if layer.bias is not None:
                layer.bias.mul_(d)
            following.double().weight.div_(d.reshape(-1, *[1] * (following.weight.dim() - 2)))
    return layers


def dense_case(decades: float) -> Case:
    torch.manual_seed(1)
    layers = rescaled([dense(5, 12), dense(12, 12), dense(12, 4)], decades)
    return case((1, 5), lambda x, a, b, c: c(torch.relu(b(torch.relu(a(x))))), *layers)


def pixel_case(decades: float) -> Case:
    torch.manual_seed(2)
    layers = rescaled([conv(3, 6), conv(6, 8, stride=2), conv(8, 6), conv(6, 2, size=1)], decades)
    return case((1, 3, 8, 8), lambda x, a, b, c, d: d(torch.relu(c(torch.relu(b(torch.relu(a(x))))))), *layers)


def chains(example: Case) -> dict[str, Chain]:
    """In one segment by frequency, and with weights at cuts."""
    program, propagation = steps_of(example), network_problem(example.net, example.shape).propagation
    cut = plan(program, propagation, Limits(20, 1e9))
    assert cut is not None
    assert cut.places
    return {"one": one_segment(program, per_frequency=True), "cut": cut}


@pytest.mark.parametrize("kind", ["one", "cut"])
def test_the_balanced_start_of_convolutions_does_not_depend_on_the_scale_of_channels(kind: str) -> None:
    before, after = (chains(pixel_case(decades))[kind] for decades in (0.0, 2.0))
    bounds = [chain.value(chain.start("balanced"), math.inf)[0] for chain in (before, after)]
    assert bounds[1] == pytest.approx(bounds[0], abs=1e-6)
    by_norm = [chain.value(chain.start("norm"), math.inf)[0] for chain in (before, after)]
    assert by_norm[1] > by_norm[0] + 5
    assert before.certified(before.start("balanced"))[0] == pytest.approx(bounds[0] / 2, abs=1e-5)


def test_energies_are_exact_where_all_directions_fit() -> None:
    example = dense_case(0.0)
    (segment,) = one_segment(steps_of(example), per_frequency=False).parts
    assert isinstance(segment, Segment)
    program = segment.program
    energy = energies(program, segment.space, {program.inputs[0].name: torch.ones(5, dtype=torch.float64)})
    first, second = (example.net.layers[i].weight.detach() for i in (0, 1))  # type: ignore[union-attr, index]
    through = second @ (math.sqrt(0.5) * first)  # the root mean square of the slopes 0 and 1
    linear = [step.output.name for step in program.steps][::2]
    for name, matrix in zip(linear, (first, through), strict=False):
        torch.testing.assert_close(energy[name], (matrix**2).sum(1), rtol=1e-12, atol=0)


def test_a_quick_audit_of_a_dense_network_finds_the_same_bound_whatever_the_scale_of_channels() -> None:
    bounds = []
    for decades in (0.0, 1.0, 2.0):
        example = dense_case(decades)
        bounds.append(lipaudit.audit(example.net, input_shape=example.shape, effort="quick").network.upper_bound)
    assert max(bounds) <= 1.01 * min(bounds)


def test_a_search_on_convolutions_finds_the_same_bound_whatever_the_scale_of_channels() -> None:
    bounds = [tighten(chains(pixel_case(decades))["cut"], 3e8).log_upper for decades in (0.0, 2.0)]
    assert bounds[1] == pytest.approx(bounds[0], abs=0.01)
