"""Pairs put in order have the constant 1 however they are written, and what only looks like a pair does not."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

import lipaudit
from lipaudit.graph.capture.export import capture
from lipaudit.graph.evaluate import interpret
from lipaudit.graph.passes.max_min_pairs import ORDERED_PAIRS, OrderedPairs
from lipaudit.graph.passes.table import recognise
from tests.graph.networks import OfOneInput

Map = Callable[[torch.Tensor], torch.Tensor]
larger, smaller, cat = torch.maximum, torch.minimum, torch.cat


def halves(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.chunk(2, 1)


def maxmin(x: torch.Tensor, first: Callable[..., torch.Tensor] = larger, last: Callable[..., torch.Tensor] = smaller):
    a, b = halves(x)
    return cat([first(a, b), last(a, b)], 1)


def pairs(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(1, 3, 2, 4)


def thirds(x: torch.Tensor, *which: str) -> torch.Tensor:
    a, b, c = x.split([2, 2, 2], 1)
    made = {
        "a": a,
        "b": b,
        "c": c,
        "x": x,
        "ab": larger(a, b),
        "AB": smaller(a, b),
        "ba": larger(b, a),
        "BC": smaller(b, c),
    }
    return cat([made[name] for name in which], 1)


ORDERED: dict[str, Map] = {
    "as deel-torchlip has it": maxmin,
    "the smaller first": lambda x: maxmin(x, smaller, larger),
    "torch.max of two": lambda x: maxmin(x, torch.max, torch.min),
    "fmax": lambda x: maxmin(x, torch.fmax, torch.fmin),
    "operands the other way round": lambda x: maxmin(x, larger, lambda a, b: smaller(b, a)),
    "clamp": lambda x: maxmin(x, lambda a, b: a.clamp(min=b), lambda a, b: b.clamp(max=a)),
    "where": lambda x: maxmin(x, lambda a, b: torch.where(a > b, a, b), lambda a, b: torch.where(a > b, b, a)),
    "where, at most": lambda x: maxmin(x, lambda a, b: torch.where(b <= a, a, b), lambda a, b: torch.where(a < b, a, b)),
    "where, mixed": lambda x: maxmin(x, larger, lambda a, b: torch.where(b >= a, a, b)),
    "stacked": lambda x: torch.stack([larger(*halves(x)), smaller(*halves(x))], 2),
    "stacked last": lambda x: torch.stack([smaller(*halves(x)), larger(*halves(x))], -1),
    "amax over pairs": lambda x: torch.stack([pairs(x).amax(2), pairs(x).amin(2)], 2).reshape(x.shape),
    "amin first, joined": lambda x: cat([pairs(x).amin(2), pairs(x).amax(2)], 1),
    "axes kept": lambda x: cat([pairs(x).amax(2, keepdim=True), pairs(x).amin(2, keepdim=True)], 2),
    "axes kept, joined along another": lambda x: cat([pairs(x).amax(2, True), pairs(x).amin(2, True)], 3),
    "max over an axis": lambda x: cat([pairs(x).max(2)[0], pairs(x).min(2)[0]], 1),
    "aminmax": lambda x: torch.stack(torch.aminmax(pairs(x), dim=2), 2).reshape(x.shape),
    "aminmax, the larger first": lambda x: cat(torch.aminmax(pairs(x), dim=2, keepdim=True)[::-1], 2),
    "every other entry": lambda x: cat([larger(x[:, ::2], x[:, 1::2]), smaller(x[:, ::2], x[:, 1::2])], 1),
    "other axis": lambda x: cat([larger(*x.chunk(2, 2)), smaller(*x.chunk(2, 2))], 1),
    "unbound": lambda x: cat([larger(*pairs(x).unbind(2)), smaller(*pairs(x).unbind(2))], 2),
    "beside the rest": lambda x: thirds(x, "ab", "AB", "c"),
    "around the rest": lambda x: thirds(x, "AB", "c", "ab"),
    "other operands around the rest": lambda x: thirds(x, "c", "ba", "AB"),
    "two pairs": lambda x: cat([f(*part.chunk(2, 1)) for f in (larger, smaller) for part in x.split([2, 4], 1)], 1),
    "a part of the tensor": lambda x: thirds(x, "ab", "AB"),
    "twice in a row": lambda x: maxmin(maxmin(x)),
    "hstack": lambda x: torch.hstack([larger(*halves(x)), smaller(*halves(x))]),
}  # fmt: skip
# The joins, the true constant, and a bound that is known to hold of what is left.
OTHER: dict[str, tuple[Map, float]] = {
    "the same twice": (lambda x: thirds(x, "ab", "ba"), math.sqrt(2)),
    "three parts, one too many": (lambda x: thirds(x, "ab", "AB", "AB"), math.sqrt(2)),
    "of other tensors": (lambda x: thirds(x, "ab", "BC"), math.sqrt(2)),
    "with an operand": (lambda x: thirds(x, "ab", "a"), math.sqrt(2)),
    "all and a pair": (lambda x: thirds(x, "x", "ab", "AB"), math.sqrt(2)),
    "of shifted parts": (lambda x: maxmin(cat([x[:, :4], x[:, 2:]], 1)), math.sqrt(2)),
    "scaled": (lambda x: maxmin(x, larger, lambda a, b: 2 * smaller(a, b)), 2.0),
    "the smaller of aminmax twice": (lambda x: cat([torch.aminmax(pairs(x), dim=2)[0]] * 2, 1), math.sqrt(2)),
    "aminmax of other tensors": (
        lambda x: cat([torch.aminmax(pairs(x), dim=2)[0], torch.aminmax(pairs(2 * x), dim=2)[1]], 1), 2.0
    ),
    "aminmax over three": (lambda x: cat(torch.aminmax(x.reshape(1, 2, 3, 4), dim=2), 1), 1.0),
    "negated": (lambda x: maxmin(x, larger, lambda a, b: smaller(-a, b)), math.sqrt(2)),
    "broadcast": (lambda x: cat([larger(x, x[:, :1]), smaller(x, x[:, :1])], 1), math.sqrt(6)),
    "cut after ordering": (lambda x: cat([larger(*halves(x))[:, :2], smaller(*halves(x))], 1), 1.0),
    "over three entries": (lambda x: cat([x.amax(1, True), x.amin(1, True)], 1), 1.0),
    "along different axes": (lambda x: cat([pairs(x).amax(2), pairs(x).reshape(1, 3, 4, 2).amin(3)], 1), 1.0),
}  # fmt: skip


def points() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    random = [torch.randn(1, 6, 4, generator=generator).double() for _ in range(40)]
    return random + [x.round() for x in random[:10]]


def steepest(function: Map) -> float:
    """The largest norm of a Jacobian: the map is linear wherever no two entries are equal."""
    jacobians = (torch.autograd.functional.jacobian(function, x).reshape(-1, 24) for x in points()[:40])
    return max(float(torch.linalg.matrix_norm(j, 2)) for j in jacobians)


def check_values(function: Map) -> list[str]:
    """The recognised graph is the same function; its operations."""
    graph = recognise(capture(OfOneInput(function).double(), {"x": torch.zeros(1, 6, 4).double()}))
    for x in points():
        assert torch.equal(interpret(graph, {graph.inputs[0]: x})[graph.outputs[0]], function(x))
    return [node.op for node in graph]


@pytest.mark.parametrize("name", ORDERED)
def test_ordered_pairs_have_the_constant_one(name: str) -> None:
    function = ORDERED[name]
    assert ORDERED_PAIRS in check_values(function)
    bound = lipaudit.audit(OfOneInput(function), input_shape={"x": (1, 6, 4)}).network.upper_bound
    assert steepest(function) <= bound * (1 + 1e-12)
    assert bound <= 1 + 1e-12


@pytest.mark.parametrize("name", OTHER)
def test_what_only_looks_like_a_pair(name: str) -> None:
    function, least = OTHER[name]
    check_values(function)
    bound = lipaudit.audit(OfOneInput(function), input_shape={"x": (1, 6, 4)}).network.upper_bound
    assert max(steepest(function), least) <= bound * (1 + 1e-12)


def test_the_larger_of_two_by_where_does_not_jump() -> None:
    network = OfOneInput(lambda x: torch.where(x[:, :3] > x[:, 3:], x[:, :3], x[:, 3:]))
    assert lipaudit.audit(network, input_shape={"x": (1, 6)}).network.upper_bound <= math.sqrt(2) * (1 + 1e-12)
    for jumps in (
        lambda x: torch.where(x[:, :3] > x[:, 3:], x[:, :3], -x[:, 3:]),
        lambda x: torch.where(2 * x[:, :3] > x[:, 3:], x[:, :3], x[:, 3:]),
    ):
        assert lipaudit.audit(OfOneInput(jumps), input_shape={"x": (1, 6)}).network.status == "unbounded"


def test_orthogonal_layers_between_pairs_stay_at_one() -> None:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(6):
        linear = nn.Linear(8, 8)
        nn.init.orthogonal_(linear.weight)
        layers += [linear, OfOneInput(maxmin)]
    assert lipaudit.audit(nn.Sequential(*layers), input_shape={"input": (1, 8)}).network.upper_bound <= 1.01


def test_an_order_of_blocks() -> None:
    ordered = OrderedPairs(1, (1, 2, 1), ((2, 0),))
    assert ordered.evaluate(torch.tensor([[4.0, 7.0, 8.0, 3.0]])).tolist() == [[3.0, 7.0, 8.0, 4.0]]
