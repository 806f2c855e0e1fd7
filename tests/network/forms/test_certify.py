"""The proved factor against the same elimination in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import nn

from lipaudit.network.forms.certify import certified_factor
from lipaudit.network.forms.dense_maps import DenseMap
from lipaudit.network.forms.elimination import InfeasibleError
from lipaudit.network.forms.spaces import DenseSpace
from tests.network.forms.networks import F64, Case, case, dense, one_segment, searched, steps_of

Matrix = list[list[Fraction]]


def exact(matrix: torch.Tensor) -> Matrix:
    return [[Fraction(v) for v in row] for row in matrix.tolist()]


def product(a: Matrix, b: Matrix) -> Matrix:
    return [
        [sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0)) for column in zip(*b, strict=True)]
        for row in a
    ]


def transposed(a: Matrix) -> Matrix:
    return [list(row) for row in zip(*a, strict=True)]


def is_above(form: Matrix, value: Fraction) -> bool:
    """Whether value I - form is positive definite, by Gaussian elimination without rounding."""
    rows = [[(value if i == j else Fraction(0)) - x for j, x in enumerate(row)] for i, row in enumerate(form)]
    for k in range(len(rows)):
        if rows[k][k] <= 0:
            return False
        for i in range(k + 1, len(rows)):
            share = rows[i][k] / rows[k][k]
            rows[i] = [x - share * y for x, y in zip(rows[i], rows[k], strict=True)]
    return True


def solved(a: Matrix, b: Matrix) -> Matrix:
    """a^-1 b."""
    rows = [[*x, *y] for x, y in zip(a, b, strict=True)]
    for k in range(len(rows)):
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[len(a) :] for row in rows]


def relu_form(weights: list[torch.Tensor], multipliers: list[torch.Tensor]) -> Matrix:
    """The form at the input of W_m relu ... relu W_1: H := A* (S (t - H)^-1 S) A with S = t / 2, from the output backwards."""
    matrix = exact(weights[-1])
    form = product(transposed(matrix), matrix)
    for weight, t in zip(reversed(weights[:-1]), reversed(multipliers), strict=True):
        diagonal = [Fraction(v) for v in t.tolist()]
        x = [[(diagonal[i] if i == j else Fraction(0)) - v for j, v in enumerate(row)] for i, row in enumerate(form)]
        s = [[diagonal[i] / 2 if i == j else Fraction(0) for j in range(len(diagonal))] for i in range(len(diagonal))]
        inner = product(s, solved(x, s))
        matrix = exact(weight)
        form = product(transposed(matrix), product(inner, matrix))
    return form


def small() -> tuple[Case, list[torch.Tensor]]:
    torch.manual_seed(5)
    layers = [dense(3, 5), dense(5, 4), dense(4, 2)]
    example = case((1, 3), lambda x, a, b, c: c(torch.relu(b(torch.relu(a(x))))), *layers)
    return example, [layer.weight for layer in layers]


@pytest.mark.parametrize("raised", [0.0, 1e-9, 1e-3])
def test_the_proved_factor_is_above_the_exact_one_and_hardly_more(raised: float) -> None:
    example, weights = small()
    chain = one_segment(steps_of(example), per_frequency=False)
    logs = searched(chain, 200, 2000.0) + raised
    (segment,) = chain.parts
    places = segment.places  # type: ignore[union-attr]
    multipliers = [logs[place].exp() for place in places.values()]
    value, proof = chain.value(logs, math.inf)[0], 2 * chain.certified(logs)[0]
    form = relu_form(weights, multipliers)
    assert is_above(form, Fraction(math.exp(proof)))
    assert not is_above(form, Fraction(math.exp(value) * (1 - 1e-9)))
    assert proof <= value + 1e-6


def test_multipliers_that_prove_nothing_are_refused() -> None:
    example, _ = small()
    chain = one_segment(steps_of(example), per_frequency=False)
    with pytest.raises(InfeasibleError):
        chain.certified(chain.start("norm") - 1.0)


def test_weights_that_are_known_up_to_an_error_cost_it(monkeypatch: pytest.MonkeyPatch) -> None:
    example = Case(nn.Linear(6, 5, bias=False, dtype=F64).eval().requires_grad_(False), (1, 6))
    (step,) = (program := steps_of(Case(nn.Sequential(example.net), (1, 6)))).steps
    ones = {t.name: torch.ones(t.size, dtype=F64) for t in program.tensors}
    before = certified_factor(program, DenseSpace(), {}, ones, ones)
    known = DenseMap(step, 0).uncertainty  # type: ignore[arg-type]
    monkeypatch.setattr(DenseMap, "uncertainty", property(lambda _: known + 1e-3))
    assert certified_factor(program, DenseSpace(), {}, ones, ones) >= (math.sqrt(before) + 1e-3) ** 2
