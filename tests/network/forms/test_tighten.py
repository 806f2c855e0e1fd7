"""A search on few frequencies proves a bound at all of them, and a chain takes over what one with more cuts has found."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from lipaudit.network.forms.cost import cost
from lipaudit.network.forms.parts import spread
from lipaudit.network.forms.plan import Limits, plan
from lipaudit.network.forms.segment import Segment
from lipaudit.network.forms.symbol_space import SymbolSpace
from lipaudit.network.forms.tighten import tighten
from tests.network.forms.networks import (
    F64,
    Formula,
    case,
    conv,
    dense,
    largest_stretch,
    network_problem,
    one_segment,
    pixel_cases,
    steps_of,
)


@pytest.mark.parametrize("name", ["residual", "pre-activation", "leaky"])
def test_what_few_frequencies_find_is_proved_at_all(name: str) -> None:
    example = pixel_cases()[name]
    chain = one_segment(steps_of(example), per_frequency=True)
    (segment,) = chain.parts
    assert isinstance(segment, Segment)
    result = tighten(chain, 20 * cost(segment.program, segment.space))
    assert segment.chosen is not None
    assert largest_stretch(example) <= math.exp(result.log_upper)
    assert result.log_upper >= float(chain.by_frequency(result.logs)[0].max()) / 2


def test_frequencies_are_spread_with_0_among_them() -> None:
    (segment,) = one_segment(steps_of(pixel_cases()["residual"]), per_frequency=True).parts
    assert isinstance(segment, Segment)
    assert isinstance(segment.space, SymbolSpace)
    chosen = spread(segment.space, 8)
    assert 0 in chosen.tolist()
    assert 1 < len(chosen) <= 8
    assert spread(segment.space, 10**6).tolist() == list(range(segment.space.frequencies))


def test_a_chain_with_fewer_cuts_starts_where_one_with_more_ended() -> None:
    torch.manual_seed(8)

    def formula(x: torch.Tensor, a: nn.Module, b: nn.Module, c: nn.Module, d: nn.Module) -> torch.Tensor:
        y = torch.relu(
            b(x + torch.relu(a(x)))
        )  # cut behind the sum, which spills over into the next padded convolution
        return d(torch.relu(c(y)))

    example = case((1, 3, 8, 8), formula, conv(3, 3), conv(3, 4, stride=2), conv(4, 4, stride=2), conv(4, 2))
    program, propagation = steps_of(example), network_problem(example.net, example.shape).propagation
    limits = Limits(entries=20, work=1e9)
    cut, joined = (plan(program, propagation, limits, across=across) for across in (False, True))
    assert cut is not None
    assert joined is not None
    assert len(joined.parts) < len(cut.parts)
    logs = cut.start("norm")
    taken = joined.taken_over(cut, cut.absolute(logs, cut.terms(logs)))
    assert taken is not None
    assert joined.value(taken, math.inf)[0] <= cut.value(logs, math.inf)[0] + 1e-6
    assert largest_stretch(example) <= math.exp(joined.certified(taken)[0])


def test_the_forms_behind_a_convolution_per_channel_cost_something_at_every_frequency() -> None:
    example = case(
        (1, 4, 8, 8),
        lambda x, a, b, c: c(torch.relu(b(a(x)))),
        conv(4, 8, size=1),
        conv(8, 8, groups=8),
        conv(8, 2, size=1),
    )
    (segment,) = one_segment(steps_of(example), per_frequency=True).parts
    assert isinstance(segment, Segment)
    assert isinstance(segment.space, SymbolSpace)
    one, all_of_them = (cost(segment.program, segment.space, n) for n in (2, 200))
    assert all_of_them - one > 20 * (one - cost(segment.program, segment.space, 1))


def test_a_maximum_at_the_end_of_a_segment_couples_no_frequencies() -> None:
    example = case((1, 3, 8, 8), lambda x, a: torch.max_pool2d(torch.relu(a(x)), 2), conv(3, 4))
    chain = one_segment(steps_of(example), per_frequency=True)
    (segment,) = chain.parts
    assert isinstance(segment, Segment)
    assert isinstance(segment.space, SymbolSpace)
    assert {segment.space.aliases(tensor) for tensor in segment.program.tensors} == {1}
    assert largest_stretch(example) <= math.exp(chain.certified(chain.start("norm"))[0])


def test_what_is_too_large_together_keeps_forms_piece_by_piece() -> None:
    """Weights per channel at the ends of linear maps and of convolutions per channel are worth it, and cost next to nothing."""
    torch.manual_seed(3)
    layers = [conv(3, 16, size=1), conv(16, 16, groups=16), conv(16, 16, size=1), conv(16, 16, groups=16), conv(16, 4)]
    with torch.no_grad():
        for layer in layers[1:4:2]:
            layer.weight *= torch.logspace(-1, 1, 16)[:, None, None, None]

    def formula(x: torch.Tensor, a: nn.Module, b: nn.Module, c: nn.Module, d: nn.Module, e: nn.Module) -> torch.Tensor:
        return e(torch.relu(d(c(torch.relu(b(a(x)))))))

    example = case((1, 3, 24, 24), formula, *layers)
    program, propagation = steps_of(example), network_problem(example.net, example.shape).propagation
    chain = plan(program, propagation, Limits(100, 6e7))
    assert chain is not None
    without = [part for part in chain.parts if isinstance(part, Segment) and not part.constraints]
    assert without
    product, bound = propagation.network.log_upper, tighten(chain, 2e9).log_upper
    assert bound < product - 2
    x, v = (torch.randn(example.shape, dtype=F64) for _ in range(2))
    for _ in range(30):  # the power method on the Jacobian at x
        image = torch.autograd.functional.jvp(example.net, x, v / v.norm())[1]
        v = torch.autograd.functional.vjp(example.net, x, image)[1]
    assert float(image.norm()) <= math.exp(bound)


def test_little_work_makes_nothing_worse_than_the_start() -> None:
    example = pixel_cases()["residual"]
    chain = one_segment(steps_of(example), per_frequency=True)
    (segment,) = chain.parts
    assert isinstance(segment, Segment)
    start = chain.value(chain.start("norm"), math.inf)[0] / 2
    for evaluations in (4, 8, 16):
        assert tighten(chain, evaluations * cost(segment.program, segment.space)).log_upper <= start + 1e-9


def test_circular_convolutions_have_forms_by_frequency_before_a_maximum() -> None:
    example = case(
        (1, 3, 8, 8),
        lambda x, a: torch.max_pool2d(torch.relu(a(x)), 3, 2, 1),
        conv(3, 4, padding_mode="circular"),
    )
    chain = one_segment(steps_of(example), per_frequency=True)
    (segment,) = chain.parts
    assert isinstance(segment, Segment)
    assert isinstance(segment.space, SymbolSpace)
    assert segment.space.base == (8, 8)
    assert largest_stretch(example) <= math.exp(chain.certified(chain.start("norm"))[0])


def _two_softmaxes(x: torch.Tensor, a: nn.Module, b: nn.Module, c: nn.Module) -> torch.Tensor:
    return c(torch.cat([torch.softmax(a(x), 1), torch.softmax(b(x), 1)], 1))


def _pooled_beside_moduli(x: torch.Tensor, a: nn.Module, b: nn.Module, c: nn.Module) -> torch.Tensor:
    return c(torch.cat([torch.max_pool1d(a(x)[:, None], 2)[:, 0], b(x)[:, :4].abs()], 1))


@pytest.mark.parametrize(("formula", "width"), [(_two_softmaxes, (6, 12)), (_pooled_beside_moduli, (8, 8))])
def test_constraints_side_by_side_leave_each_other_room(formula: Formula, width: tuple[int, int]) -> None:
    """Multipliers hardly above what a form needs by itself multiply what it shares with the others by a million."""
    torch.manual_seed(0)
    each, both = width
    example = case((1, 4), formula, dense(4, each), dense(4, each), dense(both, 3))
    product = network_problem(example.net, example.shape).propagation.network.log_upper
    result = tighten(one_segment(steps_of(example), per_frequency=False), 5e9)
    assert math.log(largest_stretch(example)) <= result.log_upper < product


def test_what_a_search_finds_for_few_inputs_is_not_lost_in_the_proof() -> None:
    """The forms of all layers are nearly singular there: multipliers that are all raised alike still prove nothing."""
    torch.manual_seed(0)
    layers = [dense(2, 20), dense(20, 20), dense(20, 20), dense(20, 1)]

    def formula(x: torch.Tensor, *all_of_them: nn.Module) -> torch.Tensor:
        for layer in all_of_them[:-1]:
            x = torch.relu(layer(x))
        return all_of_them[-1](x)

    chain = one_segment(steps_of(case((1, 2), formula, *layers)), per_frequency=False)
    result = tighten(chain, 5e10)
    searched = float(chain.by_frequency(result.logs)[0].max()) / 2
    assert result.log_upper <= searched + 1e-3
    assert result.log_upper <= -1.13
