"""Quadratic forms carried back through operations, against differences of the operations themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

import lipaudit.rules  # noqa: F401  registers the rules
from lipaudit.errors import RegistryError
from lipaudit.graph.node import Node
from lipaudit.rules import rule
from lipaudit.rules.pull_back import LinearMap, QuadraticForm, Weights
from lipaudit.rules.rule import find_operation, operations, pull_back_of
from lipaudit.spectral.bracket import Bracket
from tests.nodes import Operation, data, operation
from tests.rules.ops.cases import Case, all_cases

CASES = [case for case in all_cases() if find_operation(case.op).pull_back is not None]


@dataclass(frozen=True)
class Diagonal:
    """diag(weights), a form for these tests; what is more than diagonal is relaxed to it."""

    weights: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.weights.shape)

    def value(self, difference: torch.Tensor) -> Bracket:
        return Bracket.at_most(float((self.weights * difference.square()).sum()))

    def diagonal(self) -> Diagonal:
        return self

    def scaled(self, factor: Bracket) -> Diagonal:
        return Diagonal(self.weights * factor.upper)

    def through(self, forward: LinearMap, adjoint: LinearMap, shape: tuple[int, ...]) -> Diagonal:
        """A* D A <= tr(A* D A) I."""
        columns = [forward(e.reshape(shape)) for e in torch.eye(math.prod(shape), dtype=torch.float64)]
        return Diagonal(torch.full(shape, sum(self.value(column).upper for column in columns), dtype=torch.float64))


def check(built: Operation, weights: Weights, scales: tuple[float, ...] = (1e-3, 1.0, 10.0)) -> None:
    """<dy, H dy> <= sum <dx_i, H_i dx_i> for random forms H and random pairs."""
    generator = torch.Generator().manual_seed(3)
    for scale in scales:
        for _ in range(20):
            form = Diagonal(torch.rand(built.node.output.shape, generator=generator, dtype=torch.float64))
            pulled = pull_back_of(built.node, form, weights)
            assert pulled is not None
            assert [p.shape for p in pulled] == [ref.info.shape for ref in built.node.refs]
            x = [d.random(generator, 3.0) for d in built.inputs]
            y = [a + d.random(generator, scale) for a, d in zip(x, built.inputs, strict=True)]
            (before,), (after,) = built.function(*x), built.function(*y)
            allowed = sum(p.value(b - a).upper for p, a, b in zip(pulled, x, y, strict=True))
            moved = form.value(after - before)
            assert moved.upper <= allowed * (1 + 1e-9) + 1e-300, (moved, allowed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_a_pull_back_bounds_the_form_on_the_output(case: Case) -> None:
    check(case.build(), {})


OP = "aten.special_bessel_j1.default"  # no rule is registered for it


def bessel() -> Operation:
    """A function whose slope is at most 1/2, in one operand."""
    return operation(OP, (data(1, 5),), {})


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "_OPERATIONS", dict(rule._OPERATIONS))


@pytest.mark.usefixtures("registry")
def test_a_pull_back_is_registered_and_found() -> None:
    assert find_operation(OP) == rule.Operation()
    assert pull_back_of(bessel().node, Diagonal(torch.ones(1, 5)), {}) is None

    @operations(OP).pull_back
    def half(_node: Node, form: QuadraticForm, _weights: Weights) -> tuple[QuadraticForm, ...]:
        return (form.diagonal().scaled(Bracket.exact(0.25)),)

    assert find_operation(OP).pull_back is half
    assert find_operation(OP).constant is None
    check(bessel(), {})
    with pytest.raises(RegistryError, match=f"{OP} has two entries of its pull_back"):
        operations(OP).pull_back(half)


@pytest.mark.usefixtures("registry")
def test_a_pull_back_that_is_too_small_is_found() -> None:
    operations(OP).pull_back(lambda _node, form, _weights: (form.diagonal().scaled(Bracket.exact(0.01)),))
    with pytest.raises(AssertionError):
        check(bessel(), {})


@pytest.mark.usefixtures("registry")
def test_the_weights_of_a_splitting_reach_the_pull_back() -> None:
    """||a + b||^2 <= ||a||^2 / t + ||b||^2 / (1 - t) for every t in (0, 1)."""
    op = "aten.hypot.default"

    def split(_node: Node, form: QuadraticForm, weights: Weights) -> tuple[QuadraticForm, ...]:
        t = float(weights.get("split", torch.tensor(0.5)))
        return form.diagonal().scaled(Bracket.at_most(1 / t)), form.diagonal().scaled(Bracket.at_most(1 / (1 - t)))

    operations(op).pull_back(split)
    built = operation(op, (data(1, 5), data(1, 5)), {})
    for t in (0.1, 0.5, 0.8):
        check(built, {"split": torch.tensor(t)})
    first, second = pull_back_of(built.node, Diagonal(torch.ones(1, 5)), {"split": torch.tensor(0.2)}) or ()
    assert first.value(torch.ones(1, 5)).upper > second.value(torch.ones(1, 5)).upper
