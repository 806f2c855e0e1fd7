"""Constants that hold where operands are bounded: against Jacobians at adversarial points, which they must nearly meet."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from flint import arb, ctx

from lipaudit.rules.effect import Effect, Settings
from lipaudit.rules.ops.gated_linear_unit import glu_slope
from lipaudit.rules.ops.variance import centred_size
from lipaudit.rules.region.magnitude import Magnitude
from lipaudit.rules.region.radii import Radii
from lipaudit.rules.rule import apply_rule
from lipaudit.spectral.bracket import Bracket
from lipaudit.spectral.interval import Interval
from tests.nodes import Operation, data, operation

GENERATOR = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR, dtype=torch.float64)


def around(centre: torch.Tensor, radii: dict[tuple[int, ...], float], interval: Interval | None = None) -> Magnitude:
    return Magnitude(Radii.of(tuple(centre.shape), radii), interval or Interval(), lambda: centre)


def given(found: Operation, *magnitudes: Magnitude) -> Effect:
    effect = apply_rule(found.node, Settings())
    assert effect.given is not None
    return effect.given(magnitudes)


def norm_at(found: Operation, point: tuple[torch.Tensor, ...], i: int = 0) -> float:
    def single(x: torch.Tensor) -> torch.Tensor:
        return found.function(*point[:i], x, *point[i + 1 :])[0]

    jacobian = torch.autograd.functional.jacobian(single, point[i])
    return float(torch.linalg.matrix_norm(jacobian.reshape(-1, point[i].numel()), 2))


@pytest.mark.parametrize("bound", [0.1, 1.0, 2.8, 2.9, 3.0, 5.0, 30.0, 1e4])
def test_a_gated_linear_unit_attains_its_supremum(bound: float) -> None:
    found = operation("aten.glu.default", (data(1, 2),), {})
    inside = Interval(-bound, bound)
    (factor,) = given(found, around(torch.zeros(1, 2).double(), {}, inside)).factors
    gates = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    largest = max(norm_at(found, (torch.tensor([[bound, float(b)]], dtype=torch.float64),)) for b in gates[::8])
    assert largest <= factor.upper <= largest * 1.001
    assert factor.upper <= math.hypot(1, bound / 4)


@pytest.mark.parametrize("bound", [2.83, 3.0, 10.0, 1e8, 1e60])
def test_the_supremum_of_a_gated_linear_unit_to_fifty_digits(bound: float) -> None:
    ctx.dps = 50
    root = (1 - 8 / arb(bound) ** 2).sqrt()
    s = (3 - root) / 4
    value = (s * (1 + arb(bound) ** 2 * (1 - s) ** 2).sqrt()).max(arb(1))
    assert arb(glu_slope(Bracket.exact(bound)).upper) >= value
    assert arb(glu_slope(Bracket.exact(bound)).upper) <= value * (1 + arb(10) ** -9)


@pytest.mark.parametrize(("name", "slope"), [("sinh", math.cosh), ("cosh", math.sinh)])
@pytest.mark.parametrize("ends", [(-0.5, 0.25), (1.0, 3.0), (-20.0, 1.0)])
def test_hyperbolic_functions_have_the_slope_at_the_far_end(
    name: str, slope: Callable[[float], float], ends: tuple[float, float]
) -> None:
    found = operation(f"aten.{name}.default", (data(1, 2),), {})
    (factor,) = given(found, around(torch.zeros(1, 2).double(), {}, Interval(*ends))).factors
    assert factor.upper == pytest.approx(slope(max(map(abs, ends))), rel=1e-9)
    for x in ends:
        assert norm_at(found, (torch.full((1, 2), x, dtype=torch.float64),)) <= factor.upper


def test_a_hyperbolic_slope_beyond_all_floats_is_unbounded() -> None:
    found = operation("aten.sinh.default", (data(1, 2),), {})
    assert not given(found, around(torch.zeros(1, 2).double(), {}, Interval(-1e4, 0.0))).factors


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_the_mean_does_not_count_in_a_variance(correction: int) -> None:
    found = operation("aten.var.correction", (data(2, 8), [1]), {"correction": correction})
    centre, radius = 100 + normal(2, 8), 0.5
    (factor,) = given(found, around(centre, {(1,): radius})).factors
    deviations = centre - centre.mean(1, keepdim=True)
    outward = centre + radius * deviations / deviations.norm(dim=1, keepdim=True)
    assert norm_at(found, (outward,)) == pytest.approx(factor.upper, rel=1e-6)
    for _ in range(20):
        move = normal(2, 8)
        point = centre + radius * move / move.norm(dim=1, keepdim=True)
        assert norm_at(found, (point,)) <= factor.upper


def test_a_variance_between_two_ends() -> None:
    """Half of the entries at each end: the deviation is as large as it can be."""
    operand = around(torch.zeros(1, 8).double(), {}, Interval(10.0, 12.0))
    assert centred_size(operand, (1,)).upper == pytest.approx(math.sqrt(8))
    found = operation("aten.var.dim", (data(1, 8), [1]), {})
    (factor,) = given(found, operand).factors
    ends = torch.tensor([[10.0, 12.0] * 4], dtype=torch.float64)
    assert norm_at(found, (ends,)) == pytest.approx(factor.upper, rel=1e-6)


def _attention(queries: int, keys: int, scale: float, bias: bool) -> Operation:
    shapes = [data(1, queries, 3), data(1, keys, 3), data(1, keys, 3)]
    return operation(
        "aten.scaled_dot_product_attention.default",
        (*shapes, data(1, queries, keys) if bias else None),
        {"scale": scale},
    )


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("keys", [2, 4])
def test_attention_in_its_keys_and_its_bias_nearly_attains_half_of_the_square(queries: int, keys: int) -> None:
    """Two keys that share the weight, values on opposite sides: do = R (db_1 - db_2) / 2, of norm R / sqrt(2)."""
    found = _attention(queries, keys, 1.0, bias=True)
    largest = [0.0] * 4
    zeros = [torch.zeros(1, n, 3, dtype=torch.float64) for n in (queries, keys, keys)]
    magnitudes = [
        around(zeros[0], {(1, 2): 2.0}),
        around(zeros[1], {(2,): 1.0}),
        around(zeros[2], {(2,): 1.0}),
        around(torch.zeros(1, queries, keys).double(), {}),
    ]
    factors = given(found, *magnitudes).factors
    for attempt in range(40):
        query, key, value, bias = (
            normal(1, queries, 3),
            normal(1, keys, 3),
            normal(1, keys, 3),
            normal(1, queries, keys),
        )
        if attempt % 2 == 0:
            query, key, bias = torch.zeros_like(query), torch.zeros_like(key), torch.full_like(bias, -40.0)
            query[:, 0, 0], bias[..., :2] = 1.0, 0.0
            value = torch.zeros_like(value)
            value[0, 0, 0], value[0, 1:, 0] = 1.0, -1.0
        query = 2 * query / query.norm()
        key, value = (x / x.norm(dim=-1, keepdim=True).clamp_min(1.0) for x in (key, value))
        for i in (1, 3):
            largest[i] = max(largest[i], norm_at(found, (query, key, value, bias), i))
    for i in (1, 3):
        assert 0.99 * factors[i].upper <= largest[i] <= factors[i].upper * (1 + 1e-10)
    assert factors[1].upper == pytest.approx(math.sqrt(2))
    assert factors[3].upper == pytest.approx(math.sqrt(0.5))
