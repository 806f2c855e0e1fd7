"""Constraints, filters and margins that are wrong give a bound below a Jacobian: every one of them would be seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from lipaudit.network.forms import elimination, multipliers, pass_through, plan, program, restrictions, symbol_space
from lipaudit.network.forms.dense_maps import DenseMap
from lipaudit.network.forms.filters import Filter
from lipaudit.network.forms.spaces import DenseSpace
from lipaudit.network.forms.steps import Groups, Slopes
from lipaudit.network.forms.symbol_maps import ChannelMap
from lipaudit.network.forms.symbol_space import SymbolSpace
from tests.network.forms.networks import (
    F64,
    Case,
    case,
    dense,
    kernel,
    largest_stretch,
    max_min,
    network_problem,
    one_segment,
    orthogonal,
    prelu,
    proved,
    searched,
    steps_of,
)

DENSE, PIXELS = False, True


def _signal(inputs: int, outputs: int, values: object, **options: int) -> nn.Module:
    layer = nn.Conv1d(inputs, outputs, len(values[0][0]), bias=False, **options)  # type: ignore[index]
    return kernel(layer, values)


def _ahead_and_behind() -> list[nn.Module]:
    """Two padded convolutions whose symbols multiply to 0, and whose matrices do not."""
    return [
        _signal(1, 2, [[[1.0, 0, 0]], [[0, 0, 1.0]]], padding=1), _signal(2, 1, [[[0, 0, 1.0], [-1.0, 0, 0]]], padding=1)
    ]  # fmt: skip


def _peak() -> torch.Tensor:
    x = torch.zeros(1, 1, 4, 4)
    x[0, 0, 1, 1] = 5.0
    return x


@cache
def networks() -> dict[str, Case]:
    """Networks whose Jacobians come near their bounds."""
    torch.manual_seed(6)
    weight = torch.randn(6, 6, dtype=F64)
    scale = 1.9 / float(torch.linalg.matrix_norm(weight, 2)) ** 2
    rows = nn.Linear(6, 6, bias=False)
    rows.weight = nn.Parameter(weight)
    ones, difference = [[[1.0, 1.0]]], [[[1.0, 0.0, -1.0]]]
    return {
        "two padded": case((1, 1, 6), lambda x, a, b: b(a(x)), *_ahead_and_behind()),
        "two padded and leaky": case(
            (1, 1, 6), lambda x, a, b: b(functional.leaky_relu(a(x), 0.999)), *_ahead_and_behind()
        ),
        "slopes of one and three": case(
            (1, 2, 1, 3), lambda x, a, p: p(a(x)), kernel(nn.Conv2d(2, 2, 1, bias=False), [[[[1.0]], [[0.0]]], [[[0.0]], [[9.0]]]]),
            prelu(1.0, 3.0),
        ),
        "two pixels": case((1, 1, 2), lambda x, a: a(x), _signal(1, 1, difference, padding=1)),
        "differences": case((1, 1, 9), lambda x, a: a(x), _signal(1, 1, difference, padding=1)),
        "strided": case((1, 1, 8), lambda x, a: a(x), _signal(1, 1, ones, stride=2)),
        "strided, transposed and cut": case(
            (1, 1, 2), lambda x, a: a(x),
            kernel(nn.ConvTranspose1d(1, 1, 5, 2, padding=2, bias=False), [[[1.0, 0.0, 0.0, 0.0, -0.5]]]),
        ),
        "overlapping maxima": case((1, 1, 4, 4), lambda x: functional.max_pool2d(x, 2, 1), peak=_peak()),
        "mean of all pixels": case((1, 2, 4, 4), lambda x, a: a(x.mean((2, 3))), kernel(dense(2, 2), [[1.0, 0], [0, 1]])),
        "residual": case((1, 6), lambda x, w: x + scale * (torch.relu(w(x)) @ w.weight), rows, peak=weight[:1] * 9),
        "folded": case((1, 6), lambda x, a, b: b(a(x).abs()), orthogonal(6), orthogonal(6)),
        "sorted": case((1, 6), lambda x, a, b: max_min(b(max_min(a(x)))), orthogonal(6), orthogonal(6)),
        "product": case(
            (1, 2), lambda x, a, b: functional.hardtanh(a(x)) * b(x).clamp(0, 1),
            kernel(nn.Linear(2, 1, bias=False), [[1.0, 0.0]]), kernel(nn.Linear(2, 1, bias=False), [[1.0, 0.01]]),
            peak=torch.tensor([[0.99, 0.0]]),
        ),
        "larger of two": case(
            (1, 2), lambda x, a, b: torch.maximum(a(x), b(x)),
            kernel(nn.Linear(2, 1, bias=False), [[0.1, 0.0]]), kernel(nn.Linear(2, 1, bias=False), [[0.0, 3.0]]),
            peak=torch.tensor([[0.0, 1.0]]),
        ),
        "second part": case((1, 4), lambda x: (x * torch.tensor([1.0, 1.0, 5.0, 5.0], dtype=F64)).chunk(2, 1)[1]),
    }  # fmt: skip


def bound_of(name: str, *, per_frequency: bool) -> float:
    example = networks()[name]
    chain = one_segment(steps_of(example), per_frequency)
    return proved(chain, searched(chain, 10))


@dataclass(frozen=True)
class Mutation:
    """What is replaced by what, and the network that shows it."""

    network: str
    per_frequency: bool
    place: Any
    name: str
    wrong: Callable[..., Any]  # of the right one


def _terms(change: Callable[[Any], Any], kind: type) -> Callable[..., Any]:
    """The blocks of constraints of a kind, changed."""

    def wrong(right: Callable[..., Any]) -> Callable[..., Any]:
        return lambda step, t, space: change(right(step, t, space)) if isinstance(step, kind) else right(step, t, space)

    return wrong


def _scaled(of: str, factor: float) -> Callable[[Any], Any]:
    return lambda added: replace(added, **{of: {name: factor * block for name, block in getattr(added, of).items()}})


def _without_half_of_the_aliases(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(self: SymbolSpace, filter_: Any, finer: Any) -> torch.Tensor:
        symbols = right(self, filter_, finer).clone()
        symbols[:, : symbols.shape[1] // 2] = 0.0
        return symbols

    return wrong


def _root_of_stride_twice(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(self: SymbolSpace, filter_: Any, source: Any, output: Any) -> Any:
        one = right(self, filter_, source, output)
        return replace(one, weights=one.weights / math.sqrt(math.prod(filter_.stride)))

    return wrong


def _without_the_last_tap(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda step: [replace(f, kernel=f.kernel[..., :-1], offsets=f.offsets[:-1]) for f in right(step)]


def _frequency_0(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(self: SymbolSpace, steps: Any) -> None:
        right(self, steps)
        self._frequencies = self._frequencies[:1]

    return wrong


def _first_only(right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: tuple(part[:1] for part in right(*arguments))


def _from_the_start(right: Callable[..., Any]) -> Callable[..., Any]:
    def wrong(*arguments: Any) -> Any:
        part = right(*arguments)
        return part and (part[0], 0, part[2])

    return wrong


MUTATIONS = {
    "slopes without 0 per frequency": Mutation(
        "two padded and leaky", PIXELS, multipliers, "interval", lambda _: lambda step, _: (step.low, step.high)
    ),
    "slopes of the channels in another order": Mutation(
        "slopes of one and three", DENSE, multipliers, "_by_position", lambda right: lambda *arguments: right(*arguments).flip(0)
    ),
    "slopes of the channels in another order per frequency": Mutation(
        "slopes of one and three", PIXELS, multipliers, "_by_position", lambda right: lambda *arguments: right(*arguments).flip(0)
    ),
    "no restriction between padded convolutions": Mutation(
        "two padded", PIXELS, restrictions, "_reads_inside", lambda _: lambda *_: True
    ),
    "the lattice one point too small": Mutation(
        "two pixels", PIXELS, SymbolSpace, "_base", lambda right: lambda self, steps: tuple(n - 1 for n in right(self, steps))
    ),
    "the lattice of a transposed convolution without what is cut off": Mutation(
        "strided, transposed and cut", PIXELS, Filter, "points", lambda _: lambda _self, _source, output: output
    ),
    "half of a lag missing": Mutation("differences", PIXELS, symbol_space, "as_filters", _without_the_last_tap),
    "moduli in the place of their squares": Mutation(
        "differences", PIXELS, ChannelMap, "squares", lambda right: property(lambda self: right.fget(self).sqrt())
    ),
    "half of the aliases missing": Mutation("strided", PIXELS, SymbolSpace, "_symbols", _without_half_of_the_aliases),
    "the root of the stride twice": Mutation("strided", PIXELS, SymbolSpace, "_ordinary", _root_of_stride_twice),
    "one frequency only": Mutation("differences", PIXELS, SymbolSpace, "__init__", _frequency_0),
    "every pixel in one window": Mutation("overlapping maxima", PIXELS, SymbolSpace, "_covering", lambda _: lambda *_: 1),
    "one window per pixel": Mutation(
        "overlapping maxima", DENSE, DenseSpace, "window_squares",
        lambda _: lambda self, step, t: t.max() * torch.ones(step.sources[0].size, dtype=F64),
    ),
    "half of the pool's gain": Mutation(
        "mean of all pixels", PIXELS, SymbolSpace, "_pool",
        lambda right: lambda self, step: replace(right(self, step), gain=right(self, step).gain / 2),
    ),
    "the sign of S": Mutation("residual", DENSE, elimination, "terms", _terms(_scaled("cross", -1.0), Slopes)),
    "half of a b": Mutation("folded", DENSE, elimination, "terms", _terms(_scaled("sources", 0.5), Slopes)),
    "half of a group's block": Mutation("sorted", DENSE, elimination, "terms", _terms(_scaled("sources", 0.5), Groups)),
    "a group's smallest weight": Mutation(
        "sorted", DENSE, pass_through, "largest_weights", lambda right: lambda *a: right(*a) / 2
    ),
    "slopes up to a half": Mutation("folded", DENSE, program, "slopes", lambda right: lambda *a: _halved(right(*a))),
    "an operand dropped": Mutation("larger of two", DENSE, program, "_weights", _first_only),
    "no share of a sum": Mutation(
        "product", DENSE, program, "Combination", lambda _: SimpleNamespace(SUM="never")
    ),
    "the first part for every part": Mutation("second part", DENSE, program, "_part", _from_the_start),
    "half of the adjoint": Mutation(
        "second part", DENSE, DenseMap, "_pulled_back", lambda right: lambda self, columns: right(self, columns) / 2
    ),
}  # fmt: skip


def _halved(slopes: tuple[float, float] | None) -> tuple[float, float] | None:
    return slopes and (slopes[0] / 2, slopes[1] / 2)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_constraint_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    truth = largest_stretch(networks()[mutation.network])
    compute = partial(bound_of, mutation.network, per_frequency=mutation.per_frequency)
    assert truth <= compute()
    wrong = mutation.wrong(getattr(mutation.place, mutation.name))
    monkeypatch.setattr(mutation.place, mutation.name, wrong)
    if mutation.name == "terms":
        monkeypatch.setattr("lipaudit.network.forms.certify.terms", wrong)
    assert compute() < truth * (1 - 1e-6)


def test_the_larger_of_two_outputs_is_no_bound_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(7)
    example = case((1, 6), lambda x, a: (a(x), a(x)), orthogonal(6))
    propagation, steps = network_problem(example.net, example.shape).propagation, steps_of(example)
    assert math.exp(plan.log_constant(steps, propagation)) >= largest_stretch(example)
    monkeypatch.setattr("lipaudit.network.forms.part_constant.join_outputs", lambda values: values[0])
    assert math.exp(plan.log_constant(steps, propagation)) < largest_stretch(example)
