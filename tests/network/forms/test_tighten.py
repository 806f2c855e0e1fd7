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
    case,
    conv,
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
